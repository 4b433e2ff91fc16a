"""Another draw of a data set: same sizes, other rows, nothing in two parts; and what is forgotten when rows change."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from pate.data import Dataset, HeldOutRows, PrivateRows, PublicRows, encode_dataset, load_dataset
from pate.exceptions import InvalidInputError


def numbered(as_rows, groups=None) -> Dataset:
    """Every row is its own number, so that rows can be followed; its label is that number modulo 3."""

    def part(start, stop):
        numbers = np.arange(start, stop)
        return as_rows(numbers), (numbers % 3).astype(np.int64)

    private, public, test = part(0, 50), part(50, 70), part(70, 100)
    return Dataset(
        name="numbers", protocol="own", kind="table", classes=(0, 1, 2), image_shape=None, description="",
        private=PrivateRows(*private, groups), public=PublicRows(*public), test=HeldOutRows(*test),
    )  # fmt: skip


def as_array(numbers):
    return numbers[:, None].astype(np.float32)


def as_table(numbers):
    return pd.DataFrame({"n": numbers, "town": np.where(numbers % 2, "Oslo", "Rome")})


def as_sparse(numbers):
    return scipy.sparse.csr_matrix(numbers[:, None] + 1)


def as_texts(numbers):
    return [str(n) for n in numbers]


def numbers_of(X):
    if hasattr(X, "iloc"):
        assert list(X.index) == list(range(len(X)))
        return X["n"].to_numpy()
    if scipy.sparse.issparse(X):
        return X.toarray().ravel() - 1
    return np.array([int(x) for x in X]) if isinstance(X, list) else X.ravel().astype(int)


@pytest.mark.parametrize("as_rows", [as_array, as_table, as_sparse, as_texts])
def test_pooled_rows_change_places_and_keep_their_labels(as_rows):
    data = numbered(as_rows).pooled()
    assert (data.redraws, data.test_redrawn, data.n_pool, data.published) == ("all rows", True, 100, False)
    one, again, other = data.redrawn(1), data.redrawn(1), data.redrawn(2)
    for drawn in (one, other, one.redrawn(2)):
        parts = [numbers_of(p.X) for p in (drawn.private, drawn.public, drawn.test)]
        assert [len(p) for p in parts] == [50, 20, 30]
        assert sorted(np.concatenate(parts)) == list(range(100))
        labels = [drawn.private.y, drawn.public.y_for_evaluation, drawn.test.y]
        assert all((p % 3 == y).all() for p, y in zip(parts, labels, strict=True))
        assert drawn.redraws == "all rows"
    assert (numbers_of(one.test.X) == numbers_of(again.test.X)).all()
    assert set(numbers_of(one.test.X)) != set(numbers_of(other.test.X))


def test_rows_made_by_hand_stay_where_they_are_unless_allowed_to_move():
    """A private row that became a public one would have no protection at all."""
    data = numbered(as_array)
    assert (data.redraws, data.published, data.test_redrawn, data.n_pool) == ("nothing", False, False, 70)
    assert data.redrawn(5) is data
    with pytest.raises(InvalidInputError, match=r"groups cannot be pooled.*drawn_by"):
        numbered(as_array, groups=np.arange(50) // 2).pooled()
    mixed = replace(data, public=PublicRows(np.zeros((20, 7)), data.public.y_for_evaluation)).pooled()
    with pytest.raises(InvalidInputError, match="alike in shape"):
        mixed.redrawn(0)


def test_a_named_data_set_is_redrawn_by_the_same_call():
    data = load_dataset("digits", n_public=100, n_private=300, random_state=3)
    assert (data.redraws, data.published, data.n_pool) == ("all rows", True, 1797)
    drawn, called = data.redrawn(8), load_dataset("digits", n_public=100, n_private=300, random_state=8)
    for name in ("private", "public", "test"):
        np.testing.assert_array_equal(getattr(drawn, name).X, getattr(called, name).X)
    assert (drawn.test.X != data.test.X).any()
    with pytest.raises(InvalidInputError, match="random_state must be"):
        data.redrawn(-1)


def test_a_published_test_part_stays(data_home):
    if not (data_home / "optdigits.npz").exists():
        pytest.skip("optdigits is not in PATE_DATA_HOME")
    data = load_dataset("optdigits", data_home=data_home)
    assert (data.redraws, data.test_redrawn, data.n_pool) == ("training rows", False, 3823)
    drawn = data.redrawn(4)
    np.testing.assert_array_equal(drawn.test.X, data.test.X)
    assert (drawn.public.X != data.public.X).any()
    paper = load_dataset("optdigits", protocol="paper", data_home=data_home)
    assert paper.redraws == "nothing"
    assert paper.redrawn(4) is paper
    some = load_dataset("optdigits", protocol="paper", n_private=500, data_home=data_home)
    assert some.redraws == "training rows"
    assert (some.redrawn(4).private.X != some.private.X).any()


def test_persons_are_redrawn_whole(data_home):
    if not (data_home / "diabetes130.npz").exists():
        pytest.skip("diabetes130 is not in PATE_DATA_HOME")
    data = load_dataset("diabetes130", n_private=3000, n_public=500, data_home=data_home)
    drawn = data.redrawn(1)
    assert len(drawn.private.groups) == 3000
    assert set(drawn.private.groups) != set(data.private.groups)


def test_other_rows_are_another_data_set():
    data = load_dataset("digits", n_private=300)
    changed = replace(data, private=PrivateRows(data.private.X, data.private.y[::-1].copy()))
    assert (changed.redraws, changed.published) == ("nothing", False)
    assert changed.redrawn(1) is changed


def test_encoded_tables_are_redrawn_and_encoded_by_their_own_public_rows():
    data = numbered(as_table).pooled()
    coded = encode_dataset(data)
    assert (coded.redraws, coded.n_pool, coded.published) == ("all rows", 100, False)
    np.testing.assert_array_equal(coded.redrawn(1).test.X, encode_dataset(data.redrawn(1)).test.X)
    assert coded.redrawn(1).private.X.dtype == np.float32


def test_a_draw_of_ones_own():
    data = numbered(as_array)
    mine = data.drawn_by(lambda seed: numbered(as_array), redraws="training rows", published=True, n_pool=77)
    assert (mine.redraws, mine.published, mine.n_pool, mine.test_redrawn) == ("training rows", True, 77, False)
    with pytest.raises(InvalidInputError, match="make must be a function"):
        data.drawn_by(3)
    with pytest.raises(InvalidInputError, match=r"redraws must be one of.*Did you mean 'all rows'"):
        data.drawn_by(lambda seed: data, redraws="all row")
    with pytest.raises(InvalidInputError, match="n_pool must be"):
        data.drawn_by(lambda seed: data, n_pool=0)


@pytest.mark.parametrize("as_rows", [as_array, as_table, as_sparse, as_texts])
def test_a_draw_that_changes_test_rows_is_not_believed(as_rows):
    """Also where the labels stay: an interval for the same rows would be too narrow."""
    data = numbered(as_rows)

    def with_test(rows):
        other = replace(numbered(as_rows), test=replace(data.test, X=as_rows(rows)))
        return data.drawn_by(lambda seed: other, redraws="training rows")

    assert with_test(np.arange(70, 100)).redrawn(1).public.X is not data.public.X
    shifted = np.arange(70, 100)
    shifted[[0, 3]] = shifted[[3, 0]]  # of one class
    with pytest.raises(InvalidInputError, match=r"the draw of seed 1 has others. Say drawn_by.*'all rows'"):
        with_test(shifted).redrawn(1)


def test_missing_values_are_the_same_test_rows():
    def with_missing(seed):
        X = as_array(np.arange(70, 100))
        X[3] = np.nan
        data = numbered(as_array)
        return replace(data, test=replace(data.test, X=X))

    data = with_missing(0).drawn_by(with_missing, redraws="training rows")
    assert np.isnan(data.redrawn(1).test.X[3])
    fewer = replace(data, test=replace(data.test, X=data.test.X[1:], y=data.test.y[1:]))
    with pytest.raises(InvalidInputError, match="has others"):
        data.drawn_by(lambda seed: fewer, redraws="training rows").redrawn(1)


def test_encoded_test_rows_are_the_same_rows_though_public_rows_write_them_otherwise():
    data = numbered(as_table)

    def make(seed):
        public = as_table(np.arange(50, 70) * (2 * seed + 1))
        return replace(data, public=replace(data.public, X=public))

    coded = encode_dataset(data.drawn_by(make, redraws="training rows"))
    assert (coded.redrawn(3).test.X != coded.test.X).any()
    mixed = encode_dataset(data.drawn_by(lambda seed: data.pooled().redrawn(seed), redraws="training rows"))
    with pytest.raises(InvalidInputError, match="has others"):
        mixed.redrawn(1)


def test_a_pool_holds_more_than_the_test_rows():
    data = numbered(as_array)
    with pytest.raises(InvalidInputError, match=r"n_pool must be more than .* got 30 for 30 test rows"):
        data.drawn_by(lambda seed: data, n_pool=30)
    large = data.drawn_by(lambda seed: data.pooled().redrawn(seed), n_pool=31)
    assert len(large.redrawn(1).test.y) == 30
    grown = replace(data, test=HeldOutRows(np.zeros((100, 1)), np.zeros(100, dtype=int)))
    with pytest.raises(InvalidInputError, match=r"got 100 for 100 test rows"):
        data.drawn_by(lambda seed: grown).redrawn(1)
