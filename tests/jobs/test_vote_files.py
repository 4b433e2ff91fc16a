"""Vote matrices from files: a file of class ids is never taken for counts, and a broken file is one clear error."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from pate import GNMax, InvalidInputError, NoisyHistogram, account
from pate.jobs.vote_files import read_votes

COUNTS = np.random.default_rng(0).multinomial(250, [0.8, 0.15, 0.05], size=12)
LABELS = np.random.default_rng(1).integers(0, 3, size=(40, 12))


def save(folder, matrix, suffix=".npy", **more):
    path = folder / f"votes{suffix}"
    if suffix == ".npy":
        np.save(path, matrix)
    elif suffix == ".npz":
        np.savez_compressed(path, votes=matrix, **more)
    else:
        np.savetxt(path, matrix, fmt="%d", delimiter=",")
    return path


def never(question):
    raise AssertionError(f"asked without a doubt: {question}")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv"])
@pytest.mark.parametrize("kind", [None, "counts"])
def test_counts_from_every_kind_of_file(tmp_path, suffix, kind):
    votes = read_votes(save(tmp_path, COUNTS, suffix), kind=kind, ask=never)
    assert np.array_equal(votes.counts, COUNTS)
    assert (votes.n_teachers, votes.labels) == (250, None)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv"])
def test_labels_from_every_kind_of_file(tmp_path, suffix):
    votes = read_votes(save(tmp_path, LABELS, suffix), kind="labels", classes=3, ask=never)
    assert np.array_equal(votes.labels, LABELS)
    assert np.array_equal(votes.counts, (LABELS[:, :, None] == np.arange(3)).sum(axis=0))
    assert (votes.n_teachers, votes.n_queries) == (40, 12)


def test_class_values_may_be_named(tmp_path):
    path = save(tmp_path, COUNTS)
    assert read_votes(path, classes=["a", "b", "c"]).classes == ("a", "b", "c")
    assert read_votes(path, classes=3).classes == (0, 1, 2)
    with pytest.raises(InvalidInputError, match="classes names 2 values, but counts has 3 columns"):
        read_votes(path, kind="counts", classes=2)


def test_classes_that_fit_one_kind_alone_decide(tmp_path):
    assert read_votes(save(tmp_path, LABELS), classes=3, ask=never).labels is not None  # 12 columns are not 3 counts
    assert read_votes(save(tmp_path, LABELS), classes=["a", "b", "c"], ask=never).classes == ("a", "b", "c")
    assert read_votes(save(tmp_path, COUNTS[:1]), classes=3, ask=never).labels is None  # 200 is none of 3 classes
    with pytest.raises(InvalidInputError, match=r"neither counts nor labels of 2 classes: it has 3 columns.*0 \.\. 1"):
        read_votes(save(tmp_path, COUNTS), classes=2)
    with pytest.raises(InvalidInputError, match="neither"):
        read_votes(save(tmp_path, COUNTS), classes=4)
    with pytest.raises(InvalidInputError, match="Say which"):  # 3 columns, 3 classes, and ids below 3
        read_votes(save(tmp_path, LABELS[:, :3]), classes=3)
    with pytest.raises(InvalidInputError, match="at least two"):
        read_votes(save(tmp_path, COUNTS), classes=1)


def test_class_ids_are_never_taken_for_counts(tmp_path):
    path = save(tmp_path, LABELS)
    with pytest.raises(InvalidInputError, match=r"is it counts .* or labels .* Say which: --kind"):
        read_votes(path)
    with pytest.raises(InvalidInputError, match="rows do not all sum to the number of teachers"):
        read_votes(path, kind="counts")
    with pytest.raises(InvalidInputError, match="classes must be given for labels"):
        read_votes(path, kind="labels")
    with pytest.raises(InvalidInputError, match="Say which"):  # the stated number does not fit either
        read_votes(path, n_teachers=40)


@pytest.mark.parametrize(
    ("labels", "n_teachers"),
    [
        (np.tile([0, 1, 2, 1], (5, 1)), None),  # five teachers who agree
        (np.ones((4, 4), dtype=int), 4),  # ... so that the sums are the stated number of teachers
        (np.array([[0, 1, 2], [2, 1, 0]]), None),  # two who differ, and still have equal sums
        (np.array([[3, 3, 0, 0], [0, 3, 3, 0]]), 6),
    ],
)
def test_class_ids_of_teachers_who_agree_are_not_taken_for_counts(tmp_path, labels, n_teachers):
    with pytest.raises(InvalidInputError, match="Say which"):
        read_votes(save(tmp_path, labels), n_teachers=n_teachers)


def test_a_doubt_is_asked_about_once(tmp_path):
    path, questions = save(tmp_path, LABELS[:, :3]), []

    def ask(question):
        questions.append(question)
        return "labels"

    assert read_votes(path, classes=3, ask=ask).labels is not None
    assert len(questions) == 1
    assert "(40, 3)" in questions[0]
    with pytest.raises(InvalidInputError, match="kind must be one of 'counts', 'labels', got 'maybe'"):
        read_votes(path, classes=3, ask=lambda q: "maybe")


def test_a_single_row_is_a_doubt_until_the_teachers_are_stated(tmp_path):
    path = save(tmp_path, COUNTS[:1])
    with pytest.raises(InvalidInputError, match="Say which"):
        read_votes(path)
    assert read_votes(path, n_teachers=250, ask=never).n_queries == 1


def test_the_stated_number_of_teachers_is_checked(tmp_path):
    with pytest.raises(InvalidInputError, match="sum to the number of teachers"):
        read_votes(save(tmp_path, COUNTS), kind="counts", n_teachers=100)
    with pytest.raises(InvalidInputError, match="40 rows, but n_teachers=12"):
        read_votes(save(tmp_path, LABELS), kind="labels", classes=3, n_teachers=12)
    with pytest.raises(InvalidInputError, match="some are outside"):
        read_votes(save(tmp_path, LABELS), kind="labels", classes=2)


def test_one_dropped_vote_is_refused(tmp_path):
    broken = COUNTS.copy()
    broken[3, 0] -= 1
    path = save(tmp_path, broken)
    with pytest.raises(InvalidInputError, match="Say which"):
        read_votes(path, n_teachers=250)
    with pytest.raises(InvalidInputError, match="do not"):
        read_votes(path, kind="counts")


@pytest.mark.parametrize("value", [-1, 0.5, np.nan])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_numbers_that_are_no_votes(tmp_path, value, suffix):
    matrix = COUNTS.astype(float)
    matrix[0, 0] = value
    with pytest.raises(InvalidInputError):
        read_votes(save(tmp_path, matrix, suffix), kind="counts")
    with pytest.raises(InvalidInputError):
        read_votes(save(tmp_path, matrix, suffix))


def test_first_rows_only(tmp_path):
    path = save(tmp_path, COUNTS)
    votes = read_votes(path, rows=5)
    assert np.array_equal(votes.counts, COUNTS[:5])
    assert read_votes(path, rows=1000).n_queries == 12
    by_teacher = read_votes(save(tmp_path, LABELS), kind="labels", classes=3, rows=4)
    assert by_teacher.labels.shape == (40, 4)


@pytest.mark.parametrize("rows", [0, -5, 1.5])
def test_rows_is_checked(tmp_path, rows):
    with pytest.raises(InvalidInputError, match="rows"):
        read_votes(save(tmp_path, COUNTS), rows=rows)


def test_an_archive_of_several_arrays_needs_its_key(tmp_path):
    path = save(tmp_path, COUNTS, ".npz", other=np.zeros(3))
    with pytest.raises(InvalidInputError, match=r"holds the arrays votes, other. Say which: --key votes"):
        read_votes(path)
    assert read_votes(path, key="votes").n_queries == 12
    with pytest.raises(InvalidInputError, match="key 'none' is not in"):
        read_votes(path, key="none")
    with pytest.raises(InvalidInputError, match=r"shape \(3,\)"):
        read_votes(path, key="other")


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (0, 3)])
def test_votes_are_a_matrix(tmp_path, shape):
    with pytest.raises(InvalidInputError, match="votes are a matrix with two axes"):
        read_votes(save(tmp_path, np.ones(shape, dtype=int)))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidInputError, match="there is no file"):
        read_votes(tmp_path / "none.npy")
    (tmp_path / "votes.xlsx").write_text("x")
    with pytest.raises(InvalidInputError, match=r"must be a \.npy, \.npz, \.csv file, got 'votes.xlsx'"):
        read_votes(tmp_path / "votes.xlsx")
    (tmp_path / "words.csv").write_text("yes,no\n1,2\n")
    with pytest.raises(InvalidInputError, match=r"words\.csv is no file of votes: its first line holds texts"):
        read_votes(tmp_path / "words.csv")
    whole = save(tmp_path, COUNTS).read_bytes()
    (tmp_path / "half.npy").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInputError, match="is not a readable array of numbers"):
        read_votes(tmp_path / "half.npy")


@pytest.mark.long
@pytest.mark.parametrize("damage", ["half", "flipped"])
def test_a_damaged_archive_is_a_clear_error(tmp_path, damage):
    whole = bytearray(save(tmp_path, COUNTS, ".npz").read_bytes())
    if damage == "half":
        whole = whole[: len(whole) // 2]
    else:
        whole[len(whole) // 3] ^= 0xFF
    path = tmp_path / "damaged.npz"
    path.write_bytes(bytes(whole))
    with pytest.raises(InvalidInputError, match=r"damaged\.npz is not a readable archive of numbers"):
        read_votes(path)
    gc.collect()  # a file left open would warn, and so fail, here


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_csv_is_one_clear_error(tmp_path, text):
    (tmp_path / "empty.csv").write_text(text)
    with pytest.raises(InvalidInputError, match=r"empty\.csv"):
        read_votes(tmp_path / "empty.csv")


class Malicious:
    def __reduce__(self):
        return (open, ("pwned", "w"))


def test_pickles_are_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("votes.npy", np.array([[Malicious()]], dtype=object), allow_pickle=True)
    np.savez("votes.npz", votes=np.array([[Malicious()]], dtype=object))
    for name in ("votes.npy", "votes.npz"):
        with pytest.raises(InvalidInputError, match=r"is not a readable (array|archive) of numbers"):
            read_votes(tmp_path / name)
    assert not (tmp_path / "pwned").exists()


def test_published_votes_give_the_published_analysis(mnist2018_counts, tmp_path):
    """The 2018 paper's matrix, through a file, as ``pate account`` reads it."""
    path = tmp_path / "votes.npz"
    np.savez_compressed(path, counts=mnist2018_counts[:700].astype(np.int32))
    votes = read_votes(path, rows=640, ask=never)
    assert (votes.n_queries, votes.n_classes, votes.n_teachers) == (640, 10, 250)
    # mu^2 = 2 * 640 / 40^2, converted with 30 digits by mpmath (Balle and Wang 2018, Theorem 8)
    whole = account(votes, NoisyHistogram(40.0), delta=1e-5).public.epsilon
    assert whole == pytest.approx(3.848610282537633, rel=1e-7)
    # a label alone costs less than the counts it comes from (rho*)
    assert account(votes, GNMax(40.0), delta=1e-5, pld=False).public.epsilon < 0.85 * whole
