"""Doubts in a statement: strict, optional, and shown in text and page."""

from __future__ import annotations

import json

import pytest

from pate import InvalidInputError
from pate.privacy.words import Guarantee
from pate.release.statement.fields import MOST_DOUBTS, Doubt, check_doubts
from pate.release.statement.model import PrivacyStatement

DOUBT = Doubt(kind="few public rows", sentence="only 30 public rows make the map: take more.")
GUARANTEE = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")


def make(**changes):
    first = {"released": "labels", "unit": "record", "n_units": 9, "mechanism": "m", "guarantee": GUARANTEE}
    return PrivacyStatement(**{**first, "accounting": "", "created": "now", **changes})


def test_they_come_back_and_are_shown():
    doubtful = make(doubts=[DOUBT])
    assert PrivacyStatement.from_dict(json.loads(json.dumps(doubtful.to_dict()))) == doubtful
    assert dict(doubtful.rows())["Doubts"] == (str(DOUBT),)
    assert str(DOUBT) in " ".join(doubtful.text().split())
    assert doubtful.html().count(DOUBT.sentence) == 2  # in plain words, and in the record


def test_a_statement_without_them_is_as_it_was():
    values = make().to_dict()
    assert "doubts" not in values
    assert make(doubts=[DOUBT]).digest != values["digest"]
    with pytest.raises(InvalidInputError, match="must not be empty"):
        PrivacyStatement.from_dict({**values, "doubts": []})


@pytest.mark.parametrize(
    "wrong",
    [
        "few public rows",
        [{"kind": "other", "sentence": "x"}],
        [{"kind": "few public rows"}],
        [{"kind": "few public rows", "sentence": 3}],
        [DOUBT] * (MOST_DOUBTS + 1),
    ],
)
def test_nothing_else_comes_in(wrong):
    with pytest.raises(InvalidInputError):
        check_doubts(wrong)
