"""Files in, labels out, where private records vote themselves: every public row, one charge, one bound per person."""

from __future__ import annotations

import json
import re
import warnings
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest

from pate import Budget, BudgetExceededError, GNMax, InvalidInputError, Ledger, NoisyHistogram, PATEClassifier
from pate.exceptions import CuratorWarning, PrivacyLeakWarning, PrivacyParameterWarning
from pate.jobs import BallotPlan, LabelJob, LabelPlan
from pate.jobs._reading import in_planes
from pate.records._maps import PublicMap
from pate.release import RecordLabels, ReleasedLabels
from pate.release.statement.files import read_statement

#: Most jobs here drop the column of owners and name no group, which the curator is asked about.
pytestmark = pytest.mark.filterwarnings("ignore:the column 'who' has")

BUDGET = Budget(1.0, 1e-4)
N, N_PUBLIC = 900, 80


def people(n, seed, *, mixed=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)).round(4), columns=["a", "b", "c"])
    if mixed:
        frame["town"] = rng.choice(["Oslo", "Rome", "Kyiv"], n)
        frame.loc[rng.random(n) < 0.1, "b"] = np.nan
        frame.loc[rng.random(n) < 0.1, "town"] = None
    return frame, np.where(frame["a"] + 0.5 * frame["c"] > 0, "yes", "no")


def written(folder, *, mixed=False):
    frame, ill = people(N, 0, mixed=mixed)
    frame.assign(ill=ill, who=[f"p{i // 3}" for i in range(N)]).to_csv(folder / "private.csv", index=False)
    people(N_PUBLIC, 1, mixed=mixed)[0].to_csv(folder / "public.csv", index=False)
    return folder / "private.csv", folder / "public.csv"


@pytest.fixture
def files(tmp_path):
    return written(tmp_path)


def job(private, public, **options):
    defaults = {"target": "ill", "classes": ["no", "yes"], "budget": BUDGET, "drop": ["who"]}
    if "group" in options:
        del defaults["drop"]
    return LabelJob(private, public, **(defaults | options))


def truth(**options):
    return people(N_PUBLIC, 1, **options)[1]


# Who votes -----------------------------------------------------------------------------------------------------


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("options", "who"),
    [
        ({}, "records"),
        ({"voters": "records", "force": True, "random_state": 4, "max_categories": 9, "n_jobs": 1}, "records"),
        ({"n_teachers": 100}, "shards"),
        ({"teacher": "logistic-regression"}, "shards"),
        ({"mechanism": NoisyHistogram(40.0)}, "shards"),
        ({"n_queries": 5}, "shards"),
        ({"gap": 1.0}, "shards"),
        ({"select": "spread"}, "shards"),
        ({"select": "uncertain", "rounds": 2}, "shards"),
        ({"select": "uncertain", "student": "decision-tree"}, "shards"),
        ({"max_answers": 5, "mechanism": GNMax(40.0), "n_queries": 5}, "shards"),
        ({"on_exhausted": "abstain"}, "shards"),
        ({"preprocess": "shard"}, "shards"),
        ({"partition_seed": 1}, "shards"),
        ({"voters": "shards"}, "shards"),
        ({"voters": "heads", "n_teachers": 30}, "heads"),
    ],
    ids=str,
)
def test_records_vote_unless_something_is_said_of_shards(files, options, who):
    work = job(*files, **{"budget": Budget(8.0, 1e-4), **options})
    assert work.voters == who
    assert isinstance(work.plan, BallotPlan if who == "records" else LabelPlan)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"voters": "people"}, "voters must be one of 'auto', 'records', 'heads', 'shards', 'dpsgd', got 'people'"),
        ({"voters": "records", "n_teachers": 100}, r"cannot go with n_teachers \(--teachers\)"),
        ({"voters": "records", "select": "first", "gap": 1.0}, r"cannot go with gap \(--gap\), select \(--select\)"),
        ({"voters": "records", "preprocess": "shard"}, r"cannot go with preprocess \(--preprocess\)"),
        ({"voters": "heads", "teacher": "svm"}, r"'heads' cannot go with teacher \(--teacher\)"),
        ({"voters": "heads", "preprocess": "shard"}, r"'heads' cannot go with preprocess \(--preprocess\)"),
        ({"classes": ["yes"]}, "classes must list at least two"),
        ({"stated": {"partition": "by hand"}}, "partition"),
        ({"budget": 1.0}, "budget must be"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_spent(tmp_path, files, options, text):
    with pytest.raises(InvalidInputError, match=text):
        job(*files, ledger=tmp_path / "l.sqlite", **options)
    assert not (tmp_path / "l.sqlite").exists()


@pytest.mark.long
def test_too_few_public_rows_make_no_map(tmp_path, files):
    people(19, 1)[0].to_csv(files[1], index=False)
    with pytest.raises(InvalidInputError, match=r"at least 20 rows for records to vote, got 19: .*--voters dpsgd"):
        job(*files, voters="records")
    people(20, 1)[0].to_csv(files[1], index=False)
    assert job(*files).run().n_answered == 20


# What is released ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixed", [False, True])
def test_every_public_row_has_a_label_and_how_sure_it_is(tmp_path, mixed):
    work = job(*written(tmp_path, mixed=mixed), budget=Budget(8.0, 1e-4))
    release = work.run()
    assert isinstance(release, RecordLabels)
    assert isinstance(release, ReleasedLabels)
    paths = work.write(release, tmp_path / "labels.csv")
    frame = pd.read_csv(paths[0])
    assert frame.columns.tolist() == ["row", "label", "status", "confidence"]
    assert frame["row"].tolist() == work.queries_.tolist() == list(range(N_PUBLIC))
    assert frame["label"].tolist() == release.values()
    assert set(frame["status"]) == {"answered"}
    assert np.abs(frame["confidence"] - release.probability.max(axis=1)).max() <= 0.5e-4
    assert frame["confidence"].between(0.5, 1).all()
    assert (frame["label"] == truth(mixed=mixed)).mean() > 0.85
    held = read_statement(paths[1])
    assert (held.unit, held.n_units, held.label_file) == ("record", N, "labels.csv")
    assert held.label_file_sha256 == sha256(paths[0].read_bytes()).hexdigest()
    by = {a.name: a.by for a in held.assumptions}
    assert (by["preprocessing"], by["own row only"], by["classes"], by["public rows"]) == (
        "nobody", "pate", "curator", "nobody",
    )  # fmt: skip


@pytest.mark.long
def test_the_classifier_gives_the_same_by_the_same_seed(files):
    """One rule, one method: the job adds files to it and nothing else."""
    release = job(*files, noise_seed=3).run()
    frame, ill = people(N, 0)
    clf = PATEClassifier(budget=BUDGET, classes=["no", "yes"], noise_seed=3, random_state=0)
    clf.fit(frame, ill, X_public=pd.read_csv(files[1]))
    assert np.array_equal(release.probability, clf.release_.probability)
    assert release.guarantee == clf.release_.guarantee


@pytest.mark.long
def test_the_plan_is_what_is_charged_and_looks_at_no_value(tmp_path, files):
    work = job(*files, ledger=tmp_path / "l.sqlite")
    text, line = work.plan.text(), str(work.plan)
    assert f"voters     {N} records\n" in text
    assert "\nrows       3 columns become 40 numbers, by what the public rows teach\n" in text
    assert [r in text for r in (f"{what}: {why}" for what, why in work.plan.recipe.reasons)] == [True] * len(
        work.plan.recipe.reasons
    )
    assert f"will spend {work.plan.guarantee}" in text
    assert f"will spend {work.plan.guarantee}" in line
    assert Ledger(tmp_path / "l.sqlite").releases() == []  # planning spends nothing
    release = work.run()
    (row,) = Ledger(tmp_path / "l.sqlite").releases()
    assert row.kind == "ballot session"
    assert row.charge == release.charge
    assert release.guarantee == work.plan.guarantee
    assert row.facts["noise_multipliers"] == [m.noise_multiplier for m in work.plan.mechanisms]
    assert BUDGET.epsilon * 0.999 < release.guarantee.epsilon <= BUDGET.epsilon
    # Another private table of the same shape: word for word the same plan.
    frame = pd.read_csv(files[0])
    frame[["a", "b", "ill"]] = [1.0, -9.0, "no"]
    frame.to_csv(files[0], index=False)
    assert job(*files).plan.text() == text.partition("\ntotal ")[0]  # there is no ledger here


@pytest.mark.long
def test_a_person_is_a_unit(tmp_path, files):
    work = job(*files, group="who", ledger=tmp_path / "l.sqlite")
    assert "voters     300 groups, all ballots of one clipped together\n" in work.plan.text()
    # One person's rows more or less: their number must not be published.
    assert not {str(N), f"{N:,}"} & set(re.findall(r"[\d,]+\d", work.plan.text()))
    statement = work.run().statement
    assert (statement.unit, statement.n_units) == ("group", 300)
    assert Ledger(tmp_path / "l.sqlite").registration["n_units"] == 300


@pytest.mark.long
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("column", "cell"), [("a", "Jane Doe"), ("b", "9e300"), ("ill", "maybe"), ("ill", None)])
@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
def test_one_odd_cell_moves_the_sum_by_no_more_than_a_unit_may(files, grouped, column, cell):
    frame = pd.read_csv(files[0], dtype=str)
    sums = []
    for value in (frame.loc[30, column], cell):
        frame.loc[30, column] = value
        frame.to_csv(files[0], index=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuratorWarning)
            work = job(*files, **({"group": "who"} if grouped else {}))
            assert work.run().n_answered == N_PUBLIC
        held = work._source
        sums.append(work._method.ballots.voters.cast(held.X, held.y, groups=held.groups))
    moved = int(np.square(sums[1].sums - sums[0].sums, dtype=object).sum())
    assert 0 < moved <= sums[0].delta_squared == sums[1].delta_squared


@pytest.mark.long
def test_of_records_that_cast_nothing_the_curator_alone_is_warned(tmp_path, files):
    frame = pd.read_csv(files[0])
    frame.loc[[3, 4], "ill"] = ["Rare-Secret", None]
    frame.loc[7, "who"] = None
    frame.to_csv(files[0], index=False)
    work = job(*files, group="who")
    with pytest.warns(
        CuratorWarning, match="3 of 900 records cannot be used and contribute nothing: 2 with a class"
    ) as said:
        release = work.run()
    assert not any("Rare" in str(w.message) for w in said)
    assert "Rare" not in json.dumps(release.statement.to_dict())
    assert release.statement.n_units == 300


def test_classes_left_out_are_read_off_and_said_to_be(files):
    with pytest.warns(PrivacyLeakWarning, match="classes= was not given"):
        work = job(*files, classes=None)
    release = work.run()
    assert release.classes == ("no", "yes")
    assert any("read off the private labels" in text for text in release.statement.not_covered)


def test_a_weak_delta_warns_in_the_plan(files):
    with pytest.warns(PrivacyParameterWarning, match="not below 1/n"):
        job(*files, budget=Budget(1.0, 0.01))


@pytest.mark.long
def test_next_to_nothing_is_not_paid_for(tmp_path, files):
    options = {"budget": Budget(0.001, 1e-5), "ledger": tmp_path / "l.sqlite"}
    with pytest.raises(InvalidInputError, match=r"nearly nothing is to be expected of .*--force"):
        job(*files, **options)
    assert not (tmp_path / "l.sqlite").exists()
    first = job(*files, force=True, **options).run()
    assert np.array_equal(job(*files, **options).run().probability, first.probability)  # it is paid for


@pytest.mark.long
def test_private_rows_as_public_ones_are_refused(tmp_path, files):
    pd.read_csv(files[0]).drop(columns=["ill", "who"]).to_csv(files[1], index=False)
    with pytest.raises(InvalidInputError, match="--overlap-is-public"):
        job(*files)
    release = job(*files, overlap_is_public=True).run()
    assert next(a for a in release.statement.assumptions if a.name == "public rows").by == "curator"


# The ledger ----------------------------------------------------------------------------------------------------


def test_the_plan_says_that_it_takes_less_than_was_asked_for(files, tmp_path):
    path = tmp_path / "l.sqlite"
    ledger = Ledger(path, total=Budget(2.0, 1e-4))
    assert "that the ledger has left" not in str(job(*files, ledger=path).plan)
    with pytest.warns(PrivacyParameterWarning, match="epsilon = 3 was asked for, .* only epsilon = 2"):
        plan = job(*files, ledger=path, budget=Budget(3.0, 1e-4)).plan
    assert "all that the ledger has left of its total, epsilon = 2" in dict(plan.lines())["will spend"]
    assert str(ledger.remaining()).startswith("left: 100.0% of the total")


@pytest.mark.long
@pytest.mark.parametrize("grouped", [False, True])
def test_the_same_again_is_free_and_the_same_and_another_is_refused(tmp_path, files, grouped):
    options = {"ledger": tmp_path / "l.sqlite", **({"group": "who"} if grouped else {})}
    first = job(*files, **options).run()
    spent = Ledger(options["ledger"]).spent
    again = job(*files, **options)
    assert "will spend nothing more: an earlier run paid for (1, 0.0001)-DP" in again.plan.text()
    release = again.run()
    assert np.array_equal(release.probability, first.probability)
    assert (release.guarantee, release.charge) == (first.guarantee, first.charge)
    assert Ledger(options["ledger"]).spent == spent
    people(N_PUBLIC, 5)[0].to_csv(files[1], index=False)  # other public rows: another question, and nothing is left
    with pytest.raises(BudgetExceededError, match="the ledger has less left than 1%"):
        job(*files, **options)
    assert Ledger(options["ledger"]).spent == spent


@pytest.mark.long
def test_what_is_left_is_shared_by_teachers_and_records_and_taken_up_again(tmp_path, files):
    """A recipe chosen for what was left is found again although less is left now."""
    options = {"ledger": tmp_path / "l.sqlite", "budget": Budget(2.0, 1e-4)}
    job(*files, **options, n_teachers=50, teacher="naive-bayes", mechanism=GNMax(30.0), n_queries=5).run()
    with pytest.warns(PrivacyParameterWarning, match="takes all that is left"):
        work = job(*files, **options)
    assert 0 < work.plan.guarantee.epsilon < 2.0
    first = work.run()
    again = job(*files, **options)
    assert again.plan.is_paid
    assert np.array_equal(again.run().probability, first.probability)
    held = Ledger(options["ledger"])
    assert [row.kind for row in held.releases()] == ["labels", "ballot session"]
    assert held.spent <= held.remaining().terms.limit
    assert held.verify().ok


@pytest.mark.long
def test_a_file_of_another_name_is_no_fresh_budget(tmp_path, files):
    job(*files, ledger=tmp_path / "l.sqlite").run()
    with pytest.raises(InvalidInputError, match=r"holds the private data set of the ledger .*l.sqlite"):
        job(*files, ledger=tmp_path / "other.sqlite").run()
    assert Ledger(tmp_path / "other.sqlite").releases() == []
    job(*files, ledger=tmp_path / "other.sqlite", new_ledger=True).run()


@pytest.mark.long
def test_the_maps_are_kept_beside_the_labels(tmp_path, files):
    options = {"checkpoint_dir": tmp_path / "kept", "ledger": tmp_path / "l.sqlite"}
    first = job(*files, **options).run()
    times = {p: p.stat().st_mtime_ns for p in (tmp_path / "kept").iterdir()}
    assert len(times) == 1
    assert np.array_equal(job(*files, **options).run().probability, first.probability)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "kept").iterdir()} == times


@pytest.mark.long
def test_nothing_private_is_written(tmp_path):
    private, public = written(tmp_path, mixed=True)
    frame = pd.read_csv(private)
    frame.loc[5, "town"] = "Secretville"
    frame.loc[6, "a"] = 98765.4321
    frame.to_csv(private, index=False)
    work = job(private, public, ledger=tmp_path / "out" / "l.sqlite", checkpoint_dir=tmp_path / "out" / "kept")
    release = work.run()
    work.write(release, tmp_path / "out" / "labels.csv")
    found = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(found) >= 6
    for path in found:
        assert b"Secretville" not in path.read_bytes()
        assert b"98765" not in path.read_bytes()
    for text in (str(work.plan), work.plan.text(), repr(work.plan), repr(work), repr(release)):
        assert "Secretville" not in text
        assert "98765" not in text


# Kinds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "heads"), [({}, 60), ({"group": "who"}, 100), ({"n_teachers": 30}, 30)])
def test_how_many_heads(files, options, heads):
    assert job(*files, voters="heads", budget=Budget(3.0, 1e-4), **options).plan.n_teachers == heads


def test_heads_of_one_record_are_refused(files):
    with pytest.raises(InvalidInputError, match=r"half the number of records \(900\).*Take 60 teachers"):
        job(*files, voters="heads", n_teachers=700, budget=Budget(1e3, 1e-4))


def test_heads_on_shards(files):
    work = job(*files, voters="heads", n_teachers=30, budget=Budget(1e6, 1e-4), mechanism=NoisyHistogram(0.1))
    assert "30 x head" in work.plan.text()
    release = work.run()
    assert np.mean(np.array(release.values()) == truth()[work.queries_]) > 0.8
    assert next(a for a in release.statement.assumptions if a.name == "preprocessing").by == "pate"


@pytest.mark.long
@pytest.mark.parametrize("colour", [False, True])
def test_folders_of_images(tmp_path, colour):
    """Small images are tables of pixels; colours are brought plane by plane."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for i in range(440):
        dark = i % 2
        pixels = rng.integers(0, 90, size=(6, 5, 3) if colour else (6, 5)) + 150 * (1 - dark)
        place = f"private/{['light', 'dark'][dark]}/{i}.png" if i < 400 else f"public/{i:03}.png"
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(pixels.astype(np.uint8)).save(tmp_path / place)
    budget = Budget(4.0, 1e-4)
    work = LabelJob(tmp_path / "private", tmp_path / "public", classes=["dark", "light"], budget=budget)
    assert work._source.image_shape == ((3, 6, 5) if colour else (6, 5))
    release = work.run()
    assert np.mean(np.array(release.values()) == np.tile(["light", "dark"], 20)) > 0.9
    paths = work.write(release, tmp_path / "labels.csv")
    assert pd.read_csv(paths[0])["file"].tolist() == [f"{i:03}.png" for i in range(400, 440)]


def test_planes_are_the_colours():
    pixels = np.arange(2 * 4 * 3 * 3).reshape(2, 4, 3, 3)  # n, height, width, colour
    found = in_planes(pixels.reshape(2, -1), (3, 4, 3)).reshape(2, 3, 4, 3)
    assert np.array_equal(found, pixels.transpose(0, 3, 1, 2))
    assert in_planes(pixels, None) is pixels


@pytest.mark.long
@pytest.mark.parametrize("most_held", [0, 1 << 30])
def test_records_are_mapped_in_blocks_once_where_memory_allows_it(tmp_path, monkeypatch, most_held):
    """Beyond so many bytes nothing is held that grows with the table, and each round maps records again."""
    monkeypatch.setattr("pate.models.recipes._run.MOST_HELD_BYTES", most_held)
    frame, ill = people(20_000, 3)
    frame.assign(ill=ill, who="x").to_csv(tmp_path / "private.csv", index=False)
    people(30, 1)[0].to_csv(tmp_path / "public.csv", index=False)
    work = job(tmp_path / "private.csv", tmp_path / "public.csv", budget=Budget(1.0, 1e-6))
    seen = []
    real = PublicMap.both

    def both(self, X, index, **options):
        seen.append(len(index))
        return real(self, X, index, **options)

    monkeypatch.setattr(PublicMap, "both", both)
    assert work.run().n_answered == 30
    assert max(seen) <= 8192
    # The last of them measures, and asks in blocks of one shape, the last of which is filled up.
    whole = 20_000 * (1 if most_held else len(work.plan.mechanisms))
    assert whole <= sum(n for n in seen if n > 30) < whole + 8192
