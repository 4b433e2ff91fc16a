"""What is wrong with public rows is said of X_public, whatever reads them and however deep."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.naive_bayes import GaussianNB

import pate
from pate.audit import attack, canary, replay_search
from pate.comparison.baselines import PrivateKNN
from pate.data import Schema, make_shard_encoder
from pate.data.queries import select_queries
from pate.estimators.selection import private_select
from pate.exceptions import InvalidInputError, PateError
from pate.models.students import fit_student
from pate.networks import MLP
from pate.representations import KernelPCA
from pate.teachers import HeadTeacherEnsemble

RNG = np.random.default_rng(0)
X, P = RNG.normal(size=(600, 4)), RNG.normal(size=(200, 4))
Y = (X[:, 0] > 0).astype(int)
TABLE, PUBLIC = pd.DataFrame(X, columns=list("abcd")), pd.DataFrame(P, columns=list("abcd"))
TWO = {"classes": (0, 1), "random_state": 0}
SPEND = {"budget": pate.Budget(5.0, 1e-5), **TWO}
ON_CPU = {"device": "cpu", "n_steps": 1}


def records():
    return pate.PATEClassifier(voters="records", **SPEND)


def dpsgd(*module, **options):
    return pate.DPSGDClassifier(*module, device="cpu", **SPEND, **options)


def selected(rows, public):
    candidates = {"a": records(), "b": dpsgd()}
    private_select(candidates, rows, Y, budget=SPEND["budget"], classes=(0, 1), X_public=public, mean_runs=2.0)


def number(kind, rows, public):
    kind(budget=SPEND["budget"], target_range=(-4, 4)).fit(rows, X[:, 0], X_public=public)


#: By name: private rows and public ones. The latter are of no use, and that is to be said.
READERS = {
    "teachers": lambda X, P: pate.TeacherEnsemble(GaussianNB(), 10, **TWO).fit(X, Y, X_public=P),
    "modules": lambda X, P: pate.TorchTeacherEnsemble(MLP, 5, **ON_CPU, **TWO).fit(X, Y, X_public=P),
    "heads": lambda X, P: HeadTeacherEnsemble(KernelPCA(8), 10, classes=(0, 1)).fit(X, Y, X_public=P),
    "classifier": lambda X, P: pate.PATEClassifier(GaussianNB(), n_teachers=10, **SPEND).fit(X, Y, X_public=P),
    "records": lambda X, P: records().fit(X, Y, X_public=P),
    "auto": lambda X, P: pate.PATEClassifier(**SPEND).fit(X, Y, X_public=P),
    "several": lambda X, P: pate.PATEMultilabelClassifier(SPEND["budget"]).fit(X, np.c_[Y, Y], X_public=P),
    "number": lambda X, P: number(pate.PATERegressor, X, P),
    "dpsgd": lambda X, P: dpsgd().fit(X, Y, X_public=P),
    "dpsgd-number": lambda X, P: number(pate.DPSGDRegressor, X, P),
    "knn": lambda X, P: PrivateKNN(**SPEND).fit(X, Y, X_public=P),
    "selection": selected,
    "attack": lambda X, P: attack(records(), X, Y, X_public=P, n_shadows=8),
    "canary": lambda X, P: canary(
        pate.TeacherEnsemble(GaussianNB(), 10, **TWO), X, Y, X_public=P, mechanism=pate.GNMax(sigma=10.0)
    ),
    "replay": lambda X, P: replay_search(records(), X, Y, X_public=P),
    "plan": lambda X, P: pate.plan(SPEND["budget"], n_classes=2, n_records=600, X_public=P),
    "queries": lambda X, P: select_queries(P, 20),
    "student": lambda X, P: fit_student(GaussianNB(), P, np.zeros(200, dtype=int)),
    "schema": lambda X, P: Schema.learn(P),
    "encoder": lambda X, P: make_shard_encoder(P),
}
WRONG = {
    "a number": (X, 3.0),
    "no rows": (X, P[:0]),
    "ragged": (X, [[1.0, 2.0], [3.0]]),
    "dates": (X, np.full((200, 4), np.datetime64("2020-01-01"))),
    "complex": (X, P + 1j),
    "wider": (X, np.c_[P, P]),
    "named wider": (TABLE, PUBLIC.assign(e=1)),
    "named dates": (TABLE, PUBLIC.assign(a=pd.Timestamp("2020"))),
    "named twice": (TABLE, PUBLIC.set_axis(list("abca"), axis=1)),
}


def refusal(read, rows, public):
    try:
        read(rows, public)
    except PateError as error:
        return str(error)
    return ""  # of use to this reader, or not looked at


@pytest.mark.few(4)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.filterwarnings("ignore")
def test_what_is_wrong_with_public_rows_is_said_of_them(reader):
    said = {name: refusal(READERS[reader], *given) for name, given in WRONG.items()}
    assert {name: text for name, text in said.items() if text and not re.search("X_public|public rows", text)} == {}
    assert said["a number"]


def test_a_selection_pays_for_nothing_where_only_public_rows_are_sparse(tmp_path):
    ledger = pate.Ledger(tmp_path / "ledger")
    options = {"budget": SPEND["budget"], "classes": (0, 1), "ledger": ledger}
    for public in (sparse.csr_array(P), np.c_[P, P]):
        for rows in (X, TABLE):
            with pytest.raises(InvalidInputError, match="X_public must"):
                private_select({"a": records()}, rows, Y, X_public=public, **options)
    assert not ledger.releases()
