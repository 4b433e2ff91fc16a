"""What every public estimator's tag says of sparse rows is what it does with them."""

import importlib
import inspect
import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils import get_tags
from torch import nn

from pate import Budget
from pate.networks import MLP

HOMES = ("", ".comparison.baselines", ".models.students", ".records", ".representations", ".representations.images")
PUBLIC = {
    name: found
    for home in HOMES
    for module in [importlib.import_module(f"pate{home}")]
    for name in module.__all__
    if inspect.isclass(found := getattr(module, name))
    and "X" in inspect.signature(getattr(found, "fit", id)).parameters
}
RNG = np.random.default_rng(0)
X, X_PUBLIC = (RNG.random((n, 16)) * (RNG.random((n, 16)) < 0.4) for n in (120, 60))
Y = (X[:, 0] + X[:, 1] > 0.3).astype(int)
BUDGET = {"budget": Budget(50.0, 1e-4)}
SAID = {**BUDGET, "classes": [0, 1]}
PCA, NUMBERS = PUBLIC["PublicPCA"](2), {**BUDGET, "target_range": (0, 1)}
TRANSFORMED, TABLE = PUBLIC["FromTransformer"](MaxAbsScaler()), PUBLIC["TableMap"]()
#: How each is made, more ways than one where they take other rows.
WAYS = {
    "PATEClassifier": [
        {**SAID, **way, "n_teachers": 6} if way.get("voters") != "dpsgd" else {**SAID, **way}
        for way in (
            {},
            {"representation": PCA},
            {"voters": "heads"},
            {"voters": "heads", "representation": PCA},
            {"voters": "heads", "representation": TRANSFORMED},
            {"voters": "dpsgd"},
            {"voters": "dpsgd", "representation": PCA},
            {"estimator": LogisticRegression()},
            {"estimator": GaussianNB()},
        )
    ],
    "PATEMultilabelClassifier": [BUDGET, {**BUDGET, "representation": PCA}],
    "PATERegressor": [NUMBERS, {**NUMBERS, "representation": PCA}],
    "DPSGDClassifier": [SAID, {**SAID, "module": "linear", "expected_batch_size": 20}],
    "DPSGDRegressor": [NUMBERS, {**NUMBERS, "module": "linear", "expected_batch_size": 20}],
    "TeacherEnsemble": [
        {"estimator": one, "n_teachers": 3, "classes": [0, 1]} for one in (LogisticRegression(), GaussianNB())
    ],
    "TorchTeacherEnsemble": [{"module": MLP, "n_teachers": 3, "classes": [0, 1], "epochs": 1}],
    "HeadTeacherEnsemble": [
        {"representation": PUBLIC["PublicPCA"](2).fit(X_PUBLIC), "n_teachers": 3, "classes": [0, 1]},
        {"representation": PUBLIC["FromTransformer"](MaxAbsScaler()).fit(X_PUBLIC), "n_teachers": 3, "classes": [0, 1]},
        {
            "representation": PUBLIC["FromTransformer"](MaxAbsScaler()).fit(sparse.csr_array(X_PUBLIC)),
            "n_teachers": 3,
            "classes": [0, 1],
        },
    ],
    "PrivateKNN": [SAID, {**SAID, "representation": PCA}],
    "SparseVectorPATE": [{**SAID, "n_teachers": 6}, {**SAID, "n_teachers": 6, "estimator": GaussianNB()}],
    "FromTransformer": [{"transformer": one} for one in (MaxAbsScaler(), StandardScaler())],
    "FromModule": [{"module": nn.Linear(16, 2), "provenance": "none"}],
    "Chain": [{"parts": parts} for parts in ([PCA], [TRANSFORMED, PCA], [TABLE, TRANSFORMED])],
    "Combined": [{"parts": parts} for parts in ([TRANSFORMED, TRANSFORMED], [TRANSFORMED, PCA])],
    "ImageStudent": [{"epochs": 1}],
}
CASES = [(name, way) for name, kind in PUBLIC.items() if not inspect.isabstract(kind) for way in WAYS.get(name, [{}])]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "way"), CASES, ids=[f"{name}{i}" for i, (name, _) in enumerate(CASES)])
def test_the_tag_of_sparse_rows_says_what_it_takes(name, way):
    learner = PUBLIC[name](**way)
    y = np.stack([Y, 1 - Y], axis=1) if "Multilabel" in name else X[:, 0] if "Regressor" in name else Y
    # DP-SGD is asked as scikit-learn asks: of sparse rows without public ones no recipe's maps can be fitted.
    needs = "X_public" in inspect.signature(learner.fit).parameters and "DPSGD" not in name
    given = {"X_public": sparse.csr_array(X_PUBLIC)} if needs else {}
    refused = []
    try:
        learner.fit(sparse.csr_array(X), y, **given)
        asked = next(getattr(learner, ask) for ask in ("predict", "vote", "transform") if hasattr(learner, ask))
        asked(sparse.csr_array(X_PUBLIC))
    except (ValueError, TypeError) as error:
        refused = [str(error)]
    assert get_tags(learner).input_tags.sparse == (not refused)
    assert all(re.search("dense|sparse|must be numbers|must be texts", words) for words in refused)
