"""A mechanism of one's own that says its cost wrongly is refused in words, before anything is spent."""

from __future__ import annotations

import pytest

from pate import Budget, GNMax
from pate.exceptions import InvalidInputError
from pate.release import quote


class ByEpsilon(GNMax):
    def charge(self, n_queries, max_answers=None):
        return 0.5 * n_queries


def test_a_charge_that_is_a_number_is_refused_in_words():
    with pytest.raises(
        InvalidInputError, match=r"ByEpsilon\.charge\(\) must return a pate\.Charge, got .*Charge\.gaussian"
    ):
        quote(10, ByEpsilon(sigma=40.0), budget=Budget(1.0, 1e-5))
