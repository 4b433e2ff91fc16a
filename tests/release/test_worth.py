"""No budget is spent in silence: what noise alone would decide is refused, and constant models say so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pate import Budget, DPSGDClassifier, Ledger, PATEClassifier
from pate.data import Schema
from pate.dpsgd import SampledGaussian
from pate.exceptions import NotWorthwhileError, ResultWarning
from pate.jobs import LabelJob, predict_file
from pate.models.recipes import share_in_words
from pate.models.recipes._expected import Expectation

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(300, 3))
Y = (X[:, 0] > 0).astype(int)
RARE = np.where(np.arange(300) < 30, "yes", "no")
TINY = Budget(0.01, 1e-5)


@pytest.mark.parametrize(
    ("make", "schema"),
    [
        (lambda **how: DPSGDClassifier(budget=TINY, classes=(0, 1), **how), (-1, 1)),
        (lambda **how: DPSGDClassifier("linear", budget=TINY, classes=(0, 1), **how), None),
        (lambda **how: PATEClassifier(budget=TINY, classes=(0, 1), voters="dpsgd", **how), (-1, 1)),
        (lambda **how: PATEClassifier(budget=TINY, classes=(0, 1), voters="records", **how), (-1, 1)),
        (lambda **how: PATEClassifier(budget=TINY, classes=(0, 1), **how), (-1, 1)),
    ],
)
def test_every_way_to_classes_refuses_what_noise_would_decide(tmp_path, make, schema):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(NotWorthwhileError, match="nearly nothing is to be expected"):
        make(ledger=ledger).fit(X, Y, **({} if schema is None else {"schema": schema}))
    assert not ledger.releases()


@pytest.mark.long
@pytest.mark.parametrize("said", [{"nominal_n": 500}, {"sample_rate": 0.04, "n_steps": 9}])
def test_where_the_number_of_records_is_private_it_refuses_nothing(said):
    """What is refused follows from the nominal number; with 30 records as with 300."""
    for n in (30, 300):
        clf = DPSGDClassifier(
            "linear",
            budget=Budget(0.03, 1e-5),
            classes=(0, 1),
            mechanism=SampledGaussian(adjacency="add-or-remove", **said),
        )
        assert clf.fit(X[:n], Y[:n]).guarantee_.epsilon <= 0.03


def test_a_job_refuses_it_too_and_force_goes_on(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(ill=np.where(Y, "yes", "no"))
    table.to_csv(tmp_path / "p.csv", index=False)
    said = {"schema": Schema.declared(dict.fromkeys("abc", (-1, 1))), "target": "ill", "classes": ["no", "yes"]}
    with pytest.raises(NotWorthwhileError, match="evidence"):
        LabelJob(tmp_path / "p.csv", budget=TINY, **said)
    assert LabelJob(tmp_path / "p.csv", budget=TINY, force=True, **said).plan.n_units == 300


@pytest.mark.long
def test_a_model_that_names_one_class_says_so_and_predict_repeats_it(tmp_path):
    clf = PATEClassifier(budget=Budget(3.0, 1e-5), classes=("no", "yes"), voters="dpsgd", random_state=0)
    schema = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1)}
    table = pd.DataFrame(X, columns=list("abc"))
    with pytest.warns(ResultWarning, match=r"1 of 2 classes is never named by the model, asked about 1,024 made-up"):
        clf.fit(table, RARE, schema=schema)
    assert [doubt.kind for doubt in clf.statement_.doubts] == ["classes never named"]
    clf.save(tmp_path / "m.pate")
    table.to_csv(tmp_path / "rows.csv", index=False)
    done = predict_file(tmp_path / "m.pate", tmp_path / "rows.csv", tmp_path / "out.csv")
    assert "'yes'" in done.doubts[0]
    own = DPSGDClassifier(budget=Budget(3.0, 1e-5), classes=("no", "yes"), random_state=0)
    with pytest.warns(ResultWarning, match="never named by the model"):
        own.fit(X, RARE, schema=(-1, 1))
    assert [doubt.kind for doubt in own.statement_.doubts] == ["classes never named"]


def test_a_share_that_naming_the_commonest_class_may_reach_says_so():
    hope = Expectation(0.95, 0.04, True)
    assert "may be all of that" in share_in_words(hope)
    assert share_in_words(hope, 0.93).endswith("always naming the commonest class (93%) may be all of that")
    assert share_in_words(hope, 0.6) == str(hope)
