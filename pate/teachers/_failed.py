"""What becomes of a teacher that failed: it votes as nobody's data say, and the curator alone is told."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from pate.exceptions import CuratorWarning

#: How many failures are told one by one.
_NAMED = 5


def fixed_vote(index: int, n_classes: int) -> int:
    """Return the class (its index) that teacher ``index`` votes for, on every row, when it failed.

    A function of public facts, so a shard that has its teacher fail changes that teacher's vote as any other change of
    the shard would: one vote per query, and the accounting holds. Failed teachers are dealt out over the classes: many
    of them together favour none. The same on every row, so that a row keeps its votes whenever it is asked.
    """
    return index % n_classes


def tell_of_failures(failures: Mapping[int, str], n_teachers: int, *, what: str, remedy: str) -> None:
    """Warn the curator of failed teachers; nothing is said when there are none."""
    if not failures:
        return
    named = "; ".join(f"teacher {i}: {failures[i]}" for i in sorted(failures)[:_NAMED])
    more = f"; and {len(failures) - _NAMED} more" if len(failures) > _NAMED else ""
    everybody = " NO TEACHER IS LEFT: labels would be noise." if len(failures) == n_teachers else ""
    warnings.warn(
        f"{len(failures)} of {n_teachers} teachers could not {what} ({named}{more}). Each votes for a fixed class "
        f"instead, which hangs on no record.{everybody} {remedy}(Which teachers failed is private: do not publish it.)",
        CuratorWarning,
        stacklevel=4,
    )
