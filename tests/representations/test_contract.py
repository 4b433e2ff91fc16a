"""What every representation promises: public rows alone, each row by itself, files that give back every bit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from pate.data import Dataset, HeldOutRows, PrivateRows, PublicRows, partition
from pate.exceptions import CheckpointWarning, InvalidInputError, SensitiveValueError
from pate.privacy.words import Sensitive
from pate.representations import (
    GroupedRows,
    KernelPCA,
    PublicPCA,
    PublicScale,
    RandomFourier,
    Representation,
    TableMap,
    UnitRows,
    cached,
    chain,
    combine,
    load,
)
from pate.representations._base import digest
from pate.representations._files import content_key
from pate.teachers._base import ReadRows
from pate.votes import Votes


def numbers(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 5)) * [1.0, 10.0, 1e-3, 1e4, 1.0] + rng.integers(0, 3, (n, 1))


def mixed(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(numbers(n, seed)[:, :3], columns=["a", "b", "c"])
    frame["town"] = rng.choice(["Oslo", "Rome", "Kyiv"], n, p=[0.6, 0.3, 0.1]).astype(object)
    frame["kind"] = pd.Categorical(rng.choice([1, 2], n))
    frame.loc[::7, ["a", "town"]] = None
    return frame


REPS = {
    "table": (TableMap(), mixed),
    "table of numbers": (TableMap(numeric=["standard", "quantile", "thermometer"]), numbers),
    "fourier": (RandomFourier(64), numbers),
    "pca": (PublicPCA(3), numbers),
    "kernel": (KernelPCA(9), numbers),
    "scale": (PublicScale(0.5), numbers),
    "grouped rows": (GroupedRows(1), numbers),
    "unit rows": (UnitRows(constant=0.3), numbers),
    "chain": (chain(TableMap(), RandomFourier(64, bandwidth=0.7), PublicPCA(8)), mixed),
    "combined": (combine(TableMap(), chain(TableMap(), PublicPCA(2, alpha=0.0)), weights=[1, 2]), mixed),
    "chain of combined": (chain(combine(PublicPCA(), RandomFourier(32)), PublicPCA(4)), numbers),
}


@pytest.fixture(params=REPS)
def fitted(request):
    rep, rows = REPS[request.param]
    return clone(rep).fit(rows()), rows


def rows_at(X, index):
    return X.iloc[index] if hasattr(X, "iloc") else X[index]


def test_output_has_the_shape_it_says(fitted):
    rep, rows = fitted
    z = rep.transform(rows(1500, 1))
    assert z.shape == (1500, rep.n_features_out_)
    assert z.dtype == np.float64
    assert np.isfinite(z).all()
    assert z.std(axis=0).max() > 0.01
    assert len(rep.get_feature_names_out()) == rep.n_features_out_
    assert "300 public rows" in rep.provenance_
    assert rep.n_public_ == 300
    assert rep.transform(rows_at(rows(5), slice(0, 0))).shape == (0, rep.n_features_out_)


def test_a_row_is_mapped_to_the_same_bits_wherever_and_beside_whomever_it_stands(fitted):
    rep, rows = fitted
    X = rows(2500, 1)
    z = rep.transform(X)
    order = np.random.default_rng(0).permutation(2500)
    assert rep.exact_
    assert np.array_equal(rep.transform(rows_at(X, order)), z[order])
    assert np.array_equal(rep.transform(rows_at(X, slice(1, None))), z[1:])
    for i in (0, 1023, 1024, 2499):
        assert np.array_equal(rep.transform(rows_at(X, [i])), z[[i]])
    for n in (7, 8, 9, 100, 1025):  # blocks of other lengths
        assert np.array_equal(rep.transform(rows_at(X, slice(0, n))), z[:n])


@pytest.mark.few(3)
def test_no_record_moves_another_records_vector(fitted):
    rep, rows = fitted
    X = rows(1100, 1)
    z = rep.transform(X)
    for odd in (
        None,
        np.inf,
        -np.inf,
        1e308,
        "Ms Smith",
        10**400,
        10**5000,
        Fraction(10**400),
        "\ud800",
        pd.Timestamp("2020-01-01"),
        1j,
        {"a": 1},
        b"x",
    ):
        other = X.astype(object) if hasattr(X, "iloc") else X.astype(object).copy()
        if hasattr(other, "iloc"):
            other = pd.DataFrame({c: other[c].astype(object) for c in other.columns})
            for j in range(other.shape[1]):
                column = other.iloc[:, j].tolist()
                column[17] = odd
                other.isetitem(j, pd.Series(column, dtype=object))
        else:
            for j in range(other.shape[1]):
                other[17, j] = odd
        made = rep.transform(other)
        assert np.isfinite(made).all()
        assert np.array_equal(np.delete(made, 17, 0), np.delete(z, 17, 0))


def test_threads_and_blocks_leave_no_trace(fitted, monkeypatch):
    from threadpoolctl import threadpool_limits

    rep, rows = fitted
    X = rows(1500, 1)
    z = rep.transform(X)
    monkeypatch.setattr(Representation, "_block_rows", 37)
    with threadpool_limits(2):
        assert np.array_equal(rep.transform(X), z)


def test_the_same_public_rows_give_the_same_fingerprint_and_others_another(fitted):
    rep, rows = fitted
    assert clone(rep).fit(rows()).fingerprint() == rep.fingerprint()
    assert clone(rep).fit(rows(300, 1)).fingerprint() != rep.fingerprint()


def test_saved_and_loaded_it_is_the_same_to_the_bit(fitted, tmp_path):
    rep, rows = fitted
    file = tmp_path / "new" / "rep.safetensors"
    rep.save(file)
    back = load(file)
    X = rows(1500, 1)
    assert type(back) is type(rep)
    assert back.fingerprint() == rep.fingerprint()
    assert back.provenance_ == rep.provenance_
    assert np.array_equal(back.transform(X), rep.transform(X))
    assert clone(back).fit(rows()).fingerprint() == rep.fingerprint()
    first = file.read_bytes()
    back.save(file)
    assert file.read_bytes() == first
    assert [p.name for p in file.parent.iterdir()] == ["rep.safetensors"]


def test_other_columns_are_refused(fitted):
    rep, rows = fitted
    X = rows(5)
    fewer = X.iloc[:, 1:] if hasattr(X, "iloc") else X[:, 1:]
    with pytest.raises(InvalidInputError, match=r"column"):
        rep.transform(fewer)


def test_columns_may_come_in_another_order():
    X = mixed()
    rep = TableMap().fit(X)
    assert np.array_equal(rep.transform(X[X.columns[::-1]]), rep.transform(X))


def test_a_pandas_type_that_depends_on_all_cells_says_nothing():
    rep = TableMap().fit(pd.DataFrame({"a": [1, 2, 3, 4], "t": ["1", "2", "2", "1"]}))
    alone = rep.transform(pd.DataFrame({"a": [2], "t": [1]}))
    beside = rep.transform(pd.DataFrame({"a": [2, None], "t": [1, None]}))
    objects = rep.transform(pd.DataFrame({"a": ["2", "x"], "t": pd.Categorical([1, None])}))
    assert np.array_equal(alone, beside[:1])
    assert np.array_equal(alone, objects[:1])


@pytest.mark.parametrize("rep", [TableMap(), RandomFourier(8), chain(TableMap(), PublicPCA(2)), combine(PublicPCA(2))])
@pytest.mark.parametrize(
    "kind", ["PrivateRows", "Dataset", "HeldOutRows", "ReadRows", "Votes", "Sensitive", "Partition", "list"]
)
def test_private_things_are_refused_by_type(rep, kind):
    X, y = numbers(), np.zeros(300, dtype=np.int64)
    private = PrivateRows(X, y)
    made = {
        "PrivateRows": private,
        "HeldOutRows": HeldOutRows(X, y),
        "Dataset": Dataset("d", "standard", "table", (0, 1), None, "", private, PublicRows(X, y), HeldOutRows(X, y)),
        "ReadRows": ReadRows(X, np.ones(300, dtype=bool), X),
        "Votes": Votes.from_counts([[3, 2]]),
        "Sensitive": Sensitive(X),
        "Partition": partition(300, 3),
        "list": [X, private],
    }[kind]
    with pytest.raises(SensitiveValueError, match="public rows only"):
        clone(rep).fit(made)
    with pytest.raises(SensitiveValueError, match="public rows only"):
        cached(rep, made, "nowhere")


def test_a_type_of_an_upper_floor_is_known_by_its_name():
    @dataclass
    class BallotSum:
        sums: object

    BallotSum.__module__ = "pate.records._sums"
    with pytest.raises(SensitiveValueError):
        TableMap().fit(BallotSum(numbers()))


def pipeline_fingerprint(fit, private, public):
    """Everything a run makes before ballots are cast: the map, and nothing of the private rows in it."""
    rep = fit(private, public)
    rep.transform(private)
    return rep.fingerprint()


@pytest.mark.parametrize(
    ("fit", "leaks"),
    [
        (lambda private, public: chain(TableMap(), RandomFourier(32), PublicPCA(8)).fit(public), False),
        (lambda private, public: combine(TableMap(), RandomFourier(32)).fit(public), False),
        (lambda private, public: chain(TableMap(), PublicPCA(8)).fit(np.vstack([public, private])), True),  # planted
        (lambda private, public: RandomFourier(32).fit(private), True),  # planted
        (lambda private, public: PublicPCA(2).fit(public[: len(private) - int(private[0, 0] > 50)]), True),  # planted
    ],
)
def test_replayed_with_a_neighbouring_private_set_the_map_is_the_same(fit, leaks):
    public, private = numbers(300, 1), numbers(300, 2)
    neighbour = private.copy()
    neighbour[0] = 100.0
    same = pipeline_fingerprint(fit, private, public) == pipeline_fingerprint(fit, neighbour, public)
    assert same != leaks


def test_a_representation_goes_through_a_scikit_learn_pipeline():
    X = numbers()
    z = make_pipeline(TableMap(), PublicPCA(3)).fit_transform(X)
    assert np.array_equal(z, chain(TableMap(), PublicPCA(3)).fit_transform(X))


@pytest.mark.parametrize(
    ("rep", "words"),
    [
        (TableMap(numeric="standard"), "numeric must be a list of some of"),
        (TableMap(numeric=["magic"]), "numeric must be one of 'standard'"),
        (TableMap(n_bins=1), "n_bins must be a whole number >= 2"),
        (TableMap(max_categories="many"), "max_categories"),
        (RandomFourier(7), "n_features must be even"),
        (RandomFourier(8, bandwidth="mean"), "bandwidth must be 'median'"),
        (RandomFourier(8, bandwidth=0), "bandwidth must be a finite number > 0"),
        (RandomFourier(8, random_state=None), "random_state"),
        (PublicPCA(6), "n_components must be at most 5"),
        (PublicPCA(2, alpha=2), "alpha must be a finite number"),
    ],
)
def test_wrong_settings_are_refused(rep, words):
    with pytest.raises(InvalidInputError, match=words):
        rep.fit(numbers())


@pytest.mark.parametrize(
    "make", [lambda: chain(), lambda: chain(TableMap, PublicPCA()), lambda: combine(TableMap(), weights=[1, 2])]
)
def test_wrong_parts_are_refused(make):
    with pytest.raises(InvalidInputError):
        make()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.zeros((0, 3)), "no rows"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2020-01-02"])}), "neither numbers nor text"),
        (np.ones((9, 2)), "distinguishes rows"),
        (["a text", "another"], "TextMap"),
    ],
)
def test_public_rows_that_cannot_be_learnt_from_are_refused(rows, words):
    with pytest.raises(InvalidInputError, match=words):
        TableMap().fit(rows)


class TestFiles:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "rep.safetensors"
        chain(TableMap(), PublicPCA(2)).fit(mixed()).save(path)
        return path

    def parts(self, file):
        with safe_open(file, framework="numpy") as opened:
            return load_file(file), opened.metadata()

    def test_no_file(self, tmp_path):
        with pytest.raises(InvalidInputError, match="is no file"):
            load(tmp_path / "no.safetensors")

    def test_a_cut_or_changed_file_never_loads(self, file):
        whole = file.read_bytes()
        rng = np.random.default_rng(0)
        for _ in range(40):
            damaged = bytearray(whole)
            damaged[rng.integers(8, len(whole))] ^= 1 << rng.integers(8)
            file.write_bytes(bytes(damaged))
            with pytest.raises(InvalidInputError):
                load(file)
        for length in (0, 7, 100, len(whole) - 1):
            file.write_bytes(whole[:length])
            with pytest.raises(InvalidInputError, match="intact"):
                load(file)

    def test_a_foreign_safetensors_file(self, tmp_path):
        save_file({"weight": np.zeros(3)}, tmp_path / "x.safetensors")
        with pytest.raises(InvalidInputError, match="not of a representation"):
            load(tmp_path / "x.safetensors")

    @pytest.mark.parametrize(
        "change",
        [
            lambda head: head.update(format=99),
            lambda head: head["representation"].update({"class": "os.system"}),
            lambda head: head["representation"].update({"class": "load"}),
            lambda head: head["representation"].update({"class": "Representation"}),
            lambda head: head["representation"]["parts"].pop(),
            lambda head: head["representation"]["parts"][1]["settings"].update(alpha=7),
            lambda head: head["representation"]["parts"][1]["settings"].pop("alpha"),
            lambda head: head["representation"]["parts"][1].update(n_features_out=3),
            lambda head: head["representation"]["parts"][0]["cells"]["categories"].pop(),
            lambda head: head.update(representation=[]),
        ],
    )
    def test_a_file_made_up_with_a_fitting_digest_is_still_checked(self, file, change):
        arrays, metadata = self.parts(file)
        head = json.loads(metadata["pate.representation"])
        change(head)
        head["checksum"] = head["fingerprint"] = digest(arrays, head["representation"])
        save_file(arrays, file, metadata={"pate.representation": json.dumps(head)})
        with pytest.raises(InvalidInputError):
            load(file)

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [
            ("part1/state/map.weights", lambda a: a + 0.5),
            ("part1/state/map.weights", lambda a: a * 4.0),
            ("part1/state/map.weights", lambda a: a[:-1]),
            ("part1/state/map.unit", lambda a: a * 3),
            ("part1/state/mean", lambda a: a[:-1]),
            ("part1/state/mean", lambda a: a * np.nan),
            ("part1/cells/low", lambda a: a - np.inf),
            ("part0/state/0.knots", lambda a: a[:-1]),
            ("part0/state/0.knots", lambda a: a[::-1].copy()),
        ],
    )
    def test_arrays_of_another_shape_or_beyond_exactness_are_refused(self, file, name, wrong):
        arrays, metadata = self.parts(file)
        arrays[name] = wrong(arrays[name])
        head = json.loads(metadata["pate.representation"])
        head["checksum"] = head["fingerprint"] = digest(arrays, head["representation"])
        save_file(arrays, file, metadata={"pate.representation": json.dumps(head)})
        with pytest.raises(InvalidInputError, match="intact"):
            load(file)

    def test_a_class_of_another_package_is_not_stored(self, tmp_path):
        class Mine(PublicPCA):
            pass

        with pytest.raises(InvalidInputError, match="no class of this package"):
            Mine(2).fit(numbers()).save(tmp_path / "mine.safetensors")


class TestCache:
    def test_a_second_fit_is_a_reading(self, tmp_path, monkeypatch):
        rep = chain(TableMap(), RandomFourier(16))
        made = cached(rep, mixed(), tmp_path)
        monkeypatch.setattr(RandomFourier, "_learn", None)  # it would fail
        assert cached(rep, mixed(), tmp_path).fingerprint() == made.fingerprint()
        assert not hasattr(rep, "parts_")

    @pytest.mark.parametrize(
        "other",
        [
            (RandomFourier(18), numbers()),
            (RandomFourier(16, bandwidth=2), numbers()),
            (RandomFourier(16), numbers(300, 1)),
            (RandomFourier(16), numbers()[::-1]),
            (RandomFourier(16), pd.DataFrame(numbers())),
            (chain(RandomFourier(16)), numbers()),
        ],
    )
    def test_another_setting_or_row_is_another_file(self, tmp_path, other):
        cached(RandomFourier(16), numbers(), tmp_path)
        cached(*other, tmp_path)
        assert len(list(tmp_path.iterdir())) == 2

    def test_keys_tell_rows_apart(self):
        from scipy import sparse

        X = numbers()
        rep = RandomFourier(16)
        made = [X, X.astype(np.float32), X[:-1], sparse.csr_array(X), sparse.csr_array(X[:-1]), mixed(), mixed(300, 1)]
        assert len({content_key(rep, rows) for rows in made}) == len(made)

    def test_an_interrupted_fit_starts_again(self, tmp_path, monkeypatch):
        import pate._core.files

        def killed(*args):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(pate._core.files.os, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                cached(RandomFourier(16), numbers(), tmp_path)
        assert list(tmp_path.iterdir()) == []
        assert cached(RandomFourier(16), numbers(), tmp_path).n_features_out_ == 16

    def test_a_damaged_file_is_fitted_again_with_a_warning(self, tmp_path):
        made = cached(RandomFourier(16), numbers(), tmp_path)
        (file,) = tmp_path.iterdir()
        file.write_bytes(file.read_bytes()[:-3])
        with pytest.warns(CheckpointWarning, match="damaged"):
            again = cached(RandomFourier(16), numbers(), tmp_path)
        assert again.fingerprint() == made.fingerprint() == load(file).fingerprint()
