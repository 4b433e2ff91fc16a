"""A private Parquet table that is read block by block is the one that is read as a whole, to the last cell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pate.data import check_public_rows, read_both
from pate.data._files import _arrow, tables
from pate.data._overlap import row_digests
from pate.exceptions import CuratorWarning, InvalidInputError

RNG = np.random.default_rng(0)
PUBLIC = pd.DataFrame(
    {"a": RNG.normal(size=40), "whole": np.arange(40), "day": pd.date_range("2020-01-01", periods=40)}
)


def parts(folder, n=3, rows=500, **more):
    folder.mkdir()
    for i in range(n):
        columns = {
            "a": np.where(RNG.random(rows) < 0.1, np.inf, RNG.normal(size=rows)),
            "whole": pd.array(RNG.integers(0, 2**60, size=rows), dtype="Int64"),
            "day": pd.date_range("1900-01-01", periods=rows),
            "ill": [None if k % 7 == 0 else f"c{k % 3}" for k in range(rows)],
            "who": [f"P{k // 4}-{i}" for k in range(rows)],
        } | more
        frame = pd.DataFrame(columns)
        frame.loc[::11, "whole"] = pd.NA
        frame.to_parquet(folder / f"part{i}.parquet", row_group_size=200)
    PUBLIC.to_parquet(folder.parent / "public.parquet")
    return folder, folder.parent / "public.parquet"


@pytest.fixture
def by_blocks(monkeypatch):
    """Blocks of a few rows; returns what was read so."""
    seen = []

    def counted(*args):
        seen.append(real(*args))
        return seen[-1]

    real = tables.take_blocks
    monkeypatch.setattr(tables, "take_blocks", counted)

    def start():
        monkeypatch.setattr(_arrow, "WHOLE_BYTES", 100)
        monkeypatch.setattr(_arrow, "_BLOCK_BYTES", 8 * 5 * 37)
        return seen

    return start


@pytest.mark.parametrize("group", [None, "who"])
def test_every_cell_label_and_owner_is_the_same(tmp_path, by_blocks, group):
    private, public = parts(tmp_path / "private")
    drop = [] if group else ["who"]
    with pytest.warns(CuratorWarning) as whole_said:
        whole = read_both(private, public, target="ill", group=group, drop=drop).private
    seen = by_blocks()
    with pytest.warns(CuratorWarning) as said:
        blocks = read_both(private, public, target="ill", group=group, drop=drop).private
    assert len(seen) == 1
    assert seen[0] is not None
    pd.testing.assert_frame_equal(blocks.X, whole.X, check_exact=True)
    assert blocks.y.tolist() == whole.y.tolist()
    assert (blocks.groups is None) == (group is None)
    assert group is None or blocks.groups.tolist() == whole.groups.tolist()
    assert sorted(str(w.message) for w in said) == sorted(str(w.message) for w in whole_said)
    assert row_digests(blocks.X) == row_digests(whole.X)
    check_public_rows(blocks.X, PUBLIC)


def test_texts_are_read_as_a_whole(tmp_path, by_blocks):
    private, public = parts(tmp_path / "private", town=["Oslo", "Rome"] * 250)
    PUBLIC.assign(town=["Oslo", "Bonn"] * 20).to_parquet(public)
    seen = by_blocks()
    with pytest.warns(CuratorWarning):
        read = read_both(private, public, target="ill", group="who").private
    assert seen == [None]
    assert read.X.town.tolist() == ["Oslo", "Rome"] * 750


def test_a_column_of_another_declared_type_is_refused_as_ever(tmp_path, by_blocks):
    private, public = parts(tmp_path / "private", a=pd.date_range("2020-01-01", periods=500))
    by_blocks()
    with pytest.raises(InvalidInputError, match="'a'"):
        read_both(private, public, target="ill", group="who")


def test_ids_of_people_give_a_message(tmp_path, by_blocks):
    private, public = parts(tmp_path / "private", rows=200)
    seen = by_blocks()
    with pytest.warns(CuratorWarning):
        pair = read_both(private, public, target="ill", only_common=True)
    assert len(seen) == 1
    assert "'who'" in pair.told[0].text
