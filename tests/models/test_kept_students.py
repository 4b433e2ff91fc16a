"""What compiled code follows blindly is looked at before it is asked anything."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import skops.io as sio
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, NuSVC
from sklearn.tree import DecisionTreeClassifier

from pate import InvalidInputError
from pate._core.estimators import canonical_bytes, make_safe, pack_estimator, unpack_estimator
from pate.models.students import ImageStudent, VoteSpreading
from pate.models.students._serialised import keep_student, read_student

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)


def crafted(tree, **fields):
    """The tree with some of its nodes' numbers changed, as a file could have them."""
    state = tree.__getstate__()
    nodes = state["nodes"].copy()
    for name, value in fields.items():
        nodes[name][0] = value
    tree.__setstate__({**state, "nodes": nodes})


@pytest.mark.parametrize(
    "fields", [{"left_child": 10**6}, {"right_child": 0}, {"left_child": -7}, {"feature": 99}, {"feature": -9}]
)
@pytest.mark.parametrize("inside", [lambda t: t, lambda t: make_pipeline(StandardScaler(), t)])
def test_a_tree_that_points_out_of_itself_is_refused(fields, inside):
    tree = DecisionTreeClassifier().fit(X, Y)
    make_safe(inside(tree))
    crafted(tree.tree_, **fields)
    with pytest.raises(ValueError, match="tree"):
        make_safe(inside(tree))


def test_a_tree_that_has_more_nodes_than_it_holds_is_refused():
    tree = DecisionTreeClassifier().fit(X, Y)
    state = tree.tree_.__getstate__()
    tree.tree_.__setstate__({**state, "node_count": 10**6})
    with pytest.raises(ValueError, match="without nodes"):
        make_safe(tree)


@pytest.mark.parametrize(
    "kind", [DecisionTreeClassifier(), RandomForestClassifier(3), GradientBoostingClassifier(n_estimators=2)]
)
def test_trees_of_wider_rows_than_are_checked_are_refused(kind):
    fitted = kind.fit(X, Y)
    make_safe(fitted)
    fitted.n_features_in_ = 2
    with pytest.raises(ValueError, match="of other rows"):
        make_safe(fitted)


@pytest.mark.parametrize("fields", [{"left": 10**6}, {"right": 0}, {"feature_idx": 50}])
def test_boosted_trees_are_looked_at_too(fields):
    fitted = HistGradientBoostingClassifier(max_iter=2).fit(X, Y)
    make_safe(fitted)
    for name, value in fields.items():
        fitted._predictors[0][0].nodes[name][0] = value
    with pytest.raises(ValueError, match="tree"):
        make_safe(fitted)


@pytest.mark.few(1)
@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree"])
def test_search_trees_are_built_again_and_predict_the_same(algorithm, tmp_path):
    fitted = KNeighborsClassifier(3, algorithm=algorithm).fit(X, Y)
    before = fitted.predict_proba(X)
    facts = keep_student(fitted, tmp_path)
    read = read_student(tmp_path, facts)
    assert (read.predict_proba(X) == before).all()
    held = fitted._tree
    make_safe(fitted)
    assert fitted._tree is not held


def test_a_pipeline_with_spreading_comes_back(tmp_path):
    fitted = Pipeline([("a", StandardScaler()), ("b", VoteSpreading())]).fit(X, Y)
    read = read_student(tmp_path, keep_student(fitted, tmp_path))
    assert (read.predict(X) == fitted.predict(X)).all()


def test_an_image_student_comes_back_and_one_with_its_own_network_does_not(tmp_path):
    images = RNG.uniform(size=(20, 8, 8))
    student = ImageStudent(epochs=1, batch_size=10, random_state=0, device="cpu").fit(images, np.arange(20) % 2)
    read = read_student(tmp_path, keep_student(student, tmp_path))
    assert (read.predict_proba(images) == student.predict_proba(images)).all()
    student.network = type(student.network_)
    with pytest.raises(InvalidInputError, match="network of your own"):
        keep_student(student, tmp_path)


def test_memory_between_the_fields_of_a_tree_is_not_written():
    """Nodes have gaps, and NumPy writes what stands in them."""
    import io
    import zipfile

    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    packed = canonical_bytes(pack_estimator(tree, trusted=["sklearn.tree._tree.Tree"], refusal="", remedy=""))
    with zipfile.ZipFile(io.BytesIO(packed)) as file:
        arrays = [np.load(io.BytesIO(file.read(n)), allow_pickle=False) for n in file.namelist() if n.endswith(".npy")]
    (nodes,) = [a for a in arrays if a.dtype.names is not None]
    held = sum(nodes.dtype[name].itemsize for name in nodes.dtype.names)
    assert held < nodes.dtype.itemsize
    covered = np.zeros(nodes.dtype.itemsize, dtype=bool)
    for name in nodes.dtype.names:
        at = nodes.dtype.fields[name][1]
        covered[at : at + nodes.dtype[name].itemsize] = True
    gaps = np.frombuffer(nodes.tobytes(), dtype=np.uint8).reshape(len(nodes), -1)[:, ~covered]
    assert gaps.shape[1] > 0
    assert (gaps == 0).all()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (SVC(), lambda m: vars(m).update(_n_support=m._n_support + np.array([10**6, -(10**6)], dtype=np.int32))),
        (SVC(), lambda m: vars(m).update(_dual_coef_=m._dual_coef_[:, :1].copy())),
        (SVC(), lambda m: vars(m).update(_intercept_=m._intercept_[:0].copy())),
        (SVC(), lambda m: vars(m).update(support_vectors_=m.support_vectors_[:, :1].copy())),
        (KNeighborsClassifier(algorithm="brute"), lambda m: vars(m).update(_fit_X=m._fit_X[:, :1].copy())),
        (KNeighborsClassifier(algorithm="brute"), lambda m: vars(m).update(_y=m._y + 10**9)),
        (GradientBoostingClassifier(n_estimators=2), lambda m: vars(m).update(estimators_=m.estimators_.repeat(9, 1))),
        (HistGradientBoostingClassifier(max_iter=2), lambda m: m._predictors[0][0].nodes["feature_idx"].fill(-(10**9))),
    ],
)
def test_arrays_that_are_not_as_long_as_one_another_say_are_refused(kind, change):
    fitted = clone(kind).fit(X, Y)
    make_safe(fitted)
    change(fitted)
    with pytest.raises(ValueError, match="of other"):
        make_safe(fitted)


@pytest.mark.parametrize(
    "kind",
    [
        SVC(),
        NuSVC(nu=0.1),
        SVC(kernel="linear", decision_function_shape="ovo"),
        KNeighborsClassifier(algorithm="brute"),
        GradientBoostingClassifier(n_estimators=2),
        GradientBoostingClassifier(n_estimators=2, init="zero"),
        BaggingClassifier(SVC(), 2),
        BaggingClassifier(GradientBoostingClassifier(n_estimators=2), 2),
        BaggingClassifier(RandomForestClassifier(2), 2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_is_as_it_was_fitted_comes_back(kind, n_classes, tmp_path):
    fitted = clone(kind).fit(X, np.arange(len(X)) % 3 if n_classes == 3 else Y)
    again = read_student(tmp_path, keep_student(fitted, tmp_path))
    assert (again.predict(X) == fitted.predict(X)).all()


@pytest.mark.filterwarnings("ignore:.* is now pate.models.students:DeprecationWarning")
def test_a_student_whose_file_names_the_former_module_is_read(tmp_path):
    labelled = np.where(np.arange(200) % 4 == 0, Y, -1)
    student = VoteSpreading().fit(X, labelled)
    about = keep_student(student, tmp_path)
    kept = tmp_path / "student.skops"
    with zipfile.ZipFile(kept) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    assert b"pate.models.students._spreading" in parts["schema.json"]
    parts["schema.json"] = parts["schema.json"].replace(b"pate.models.students.", b"pate.students.")
    with zipfile.ZipFile(kept, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    read = read_student(tmp_path, about)
    assert type(read) is VoteSpreading
    assert np.array_equal(read.predict_proba(X), student.predict_proba(X))


TEXTS = ["a b", "b c", "c d", "a a"]
TOWNS = np.array([["u"], ["v"], ["w"], ["u"]], dtype=object)
ENCODERS = {
    "words": (CountVectorizer(token_pattern=r"\w+"), TEXTS, lambda e: e.vocabulary_.update(a=10**8)),
    "entries": (DictVectorizer(), [{"a": 1}, {"b": 2}] * 2, lambda e: e.vocabulary_.update(a=-9)),
    "fewer columns": (OneHotEncoder(), TOWNS, lambda e: vars(e).update(_n_features_outs=[1])),
    "rare ones": (OneHotEncoder(min_frequency=2), TOWNS, lambda e: e._default_to_infrequent_mappings[0].fill(9)),
    "dropped ones": (OneHotEncoder(drop="first"), TOWNS, lambda e: vars(e).update(_drop_idx_after_grouping=None)),
    "neighbours": (KNeighborsTransformer(n_neighbors=1, algorithm="brute"), X[:4], lambda e: vars(e).update(
        n_samples_fit_=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODERS)
def test_what_makes_sparse_rows_names_no_column_that_they_do_not_have(name):
    """SciPy multiplies without looking: the process would read memory that is not the model's, or die."""
    kind, rows, change = ENCODERS[name]
    encoder = clone(kind).fit(rows)
    unpack_estimator(pack_estimator(encoder, refusal="", remedy=""))
    change(encoder)
    with pytest.raises(ValueError, match="of other"):  # also where it is a public map
        unpack_estimator(pack_estimator(encoder, refusal="", remedy=""))


def test_a_sparse_matrix_that_calls_itself_trusted_is_not_built():
    """It may be compressed a thousandfold, and its indices go anywhere."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sio.dumps(sparse.csr_matrix(X)))) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            data = old.read(name).replace(b'"csr_matrix"', b'"spmatrix"').replace(b"sparse._csr", b"sparse._matrix")
            new.writestr(name, data)
    assert sio.get_untrusted_types(data=made.getvalue()) == []
    with pytest.raises(ValueError, match="a sparse matrix"):
        unpack_estimator(made.getvalue())
