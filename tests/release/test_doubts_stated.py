"""Doubts in a statement: strict, optional, and shown in text and page."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pate import InvalidInputError
from pate.privacy.words import Guarantee
from pate.release.statement.fields import MOST_DOUBTS, Doubt, MeasuredErrors, check_doubts
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


def test_errors_of_records_that_trained_say_so_and_older_files_are_read():
    held = MeasuredErrors(mae=2.0, mae_error=0.1, r2=0.1, r2_error=0.2, unit="record", n=900, clip=9.0)
    own = replace(held, held_out=False)
    assert "held_out" not in held.to_dict()
    assert MeasuredErrors.from_dict(held.to_dict()) == held
    assert MeasuredErrors.from_dict(own.to_dict()) == own
    assert "held out of training" in held.rows()[1]
    assert "that it learnt from" in own.rows()[1]
    assert "900 held-out records" in held.doubts()[0].sentence
    assert "held-out" not in own.doubts()[0].sentence
    assert replace(held, r2=0.5, r2_error=0.1).doubts() == ()
    assert "is not known" in replace(held, r2=1.0, r2_error=0.497).doubts()[0].sentence
    for wrong in ({**own.to_dict(), "held_out": 1}, {**own.to_dict(), "more": 1}, 5):
        with pytest.raises(InvalidInputError):
            MeasuredErrors.from_dict(wrong)
