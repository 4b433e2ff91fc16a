"""``pate audit``: what it audits of each target, its exit status, its files, and refusals in its own words."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pate import Budget, GaussianSum, GNMax, PATEClassifier, Queries, Votes, account, release_labels
from pate._core.files import write_json
from pate.audit import Audit, audit_mechanism, audit_statement, audit_votes, pair
from pate.audit import _audited as audited
from pate.cli import app
from pate.exceptions import InvalidInputError
from pate.privacy.words import Guarantee
from pate.release.statement.files import read_statement
from pate.release.statement.model import PrivacyStatement

COUNTS = np.random.default_rng(0).multinomial(50, [0.6, 0.3, 0.1], size=12)
#: Few releases and runs: that the layers find what they should is tested where they are.
QUICK = ("--releases", "200", "--runs", "50")
GNMAX = ("--mechanism", "gnmax", "--sigma", "8")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("votes.npy", COUNTS)
    return tmp_path


def run(*words):
    """The command in this process, which need not import numpy and matplotlib each time."""
    done = CliRunner().invoke(app, ["audit", *map(str, words)])
    if isinstance(done.exception, InvalidInputError):
        return 2, str(done.exception)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def statement():
    return release_labels(Votes.from_counts(COUNTS), GNMax(8.0), budget=Budget(9.0, 1e-5)).statement


@pytest.mark.long
def test_votes_are_audited_and_what_is_private_stays_inside(here):
    code, said = run("votes.npy", *GNMAX, *QUICK)
    assert code == 0
    assert "No claim was refuted by 5 audits (law, pair and game)." in said
    assert "itself an access to private data" in said
    folder = here / "votes.audit"
    assert sorted(p.name for p in folder.iterdir()) == [
        "audit.html", "audit.json", "audit.sensitive.html", "audit.sensitive.json",
    ]  # fmt: skip
    inside = Audit.load(folder / "audit.sensitive.json")
    (chain,) = [r for r in inside.results if r.sensitive]
    public, inner, pair = chain.figures
    assert (public.name, inner.name, pair.name) == ("public epsilon", "data-dependent epsilon", "epsilon of the pair")
    assert 0 < pair.value <= inner.value <= public.value
    for name in ("audit.html", "audit.json"):
        text = (folder / name).read_text(encoding="utf-8")
        assert "data-dependent epsilon" not in text
        assert str(pair.value)[:8] not in text
        assert "the worst neighbour of the given votes on 12 queries" in text
    assert stat.S_IMODE((folder / "audit.sensitive.html").stat().st_mode) == 0o600


@pytest.mark.long
def test_a_false_claim_ends_with_one(here):
    code, said = run("votes.npy", *GNMAX, *QUICK, "--epsilon", 0.2, "--out", "out", "--json")
    assert code == 1
    document = json.loads(said[said.index("{") :])
    assert document["refuted"] is True
    (found,) = [r for r in document["results"] if r["refuted"]]
    assert (found["layer"], found["claim"]) == ("pair", "(0.2, 1e-05)-DP")
    assert "where 0.2 is claimed" in found["finding"]
    assert not [r for r in document["results"] if r["sensitive"]]
    assert [c["stood"] for c in document["citations"]] == [True]
    assert "A claim was refuted" in (here / "out" / "audit.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_a_canary_of_the_votes_and_published_ones(here):
    other = COUNTS.copy()
    other[:, 0], other[:, 1] = other[:, 0] - 1, other[:, 1] + 1
    np.save("prime.npy", other)
    code, said = run("votes.npy", *GNMAX, *QUICK, "--canary", "prime.npy", "--published", "--out", "out")
    assert code == 0
    assert "itself an access" not in said
    assert sorted(p.name for p in (here / "out").iterdir()) == ["audit.html", "audit.json"]
    found = Audit.load(here / "out" / "audit.json")
    assert [r.layer for r in found.results] == ["law", "law", "pair", "game", "pair", "pair"]
    reached = {f.of: f.value for r in found.results for f in r.figures if f.name == "epsilon of the pair"}
    assert reached["canary"] <= reached["the worst neighbour of the votes"] * (1 + 1e-9)
    other[0] = [49, 1, 0]
    np.save("prime.npy", other)
    code, said = run("votes.npy", *GNMAX, *QUICK, "--canary", "prime.npy", "--out", "again")
    assert (code, "differ in" in said) == (2, True)
    assert not (here / "again").exists()


@pytest.mark.long
def test_a_statement_a_run_and_a_model_are_audited_alike(here):
    write_json("labels.statement.json", statement().to_dict())
    code, said = run("labels.statement.json", *QUICK, "--cite", "audited.json")
    assert (code, "4 audits (law, pair and game)" in said) == (0, True)
    cited = read_statement(here / "audited.json")
    assert [(a.layer, a.stood) for a in cited.audits] == [(x, True) for x in ("law", "law", "pair", "game")]
    assert "Audited:" in cited.text()
    assert not (here / "labels.statement.audit" / "audit.sensitive.html").exists()

    (here / "run").mkdir()
    (here / "run.audit").mkdir()
    (here / "run.audit" / "audit.html").touch()  # taken: the next one has a number
    weak = statement()
    weak = PrivacyStatement.from_dict({**weak.to_dict(), **_claiming(weak, 0.1)})
    write_json(here / "run" / "statement.json", weak.to_dict())
    code, said = run("run", *QUICK)
    assert (code, "Refuted: GNMax(sigma=8.0), 12 queries" in said) == (1, True)
    assert (here / "run.audit-2" / "audit.html").is_file()

    X, y = np.arange(40.0).reshape(40, 1), np.repeat([0, 1], 20)
    clf = PATEClassifier(
        n_teachers=4, mechanism=GNMax(2.0), queries=Queries(3, force=True), budget=Budget(50, 1e-5), classes=[0, 1]
    )
    clf.fit(X, y, X_public=X[::4] + 0.5).save(here / "model.pate")
    code, said = run("model.pate", *QUICK)
    assert (code, "GNMax(sigma=2.0)" in said) == (0, True)


def _claiming(made, epsilon):
    """What a statement with another epsilon says: anybody can compute its digest again."""
    from dataclasses import replace

    return replace(made, guarantee=replace(made.guarantee, epsilon=epsilon)).to_dict()


def test_rounds_of_ballots_are_audited_in_closed_form():
    total = GaussianSum(5.0).charge(2)
    promise = total.guarantee(1e-5)
    made = PrivacyStatement(
        released="sums", unit="record", n_units=9, guarantee=promise, accounting="gdp",
        mechanism="GaussianSum, 2 rounds, noise multiplier 5, 5: every record casts one bounded ballot per round",
        verify="mu^2 = 1/5.0^2 + 1/5.0^2, then epsilon at delta 1e-05",
    )  # fmt: skip
    found = audit_statement(made, max_releases=200)
    assert [(r.layer, r.refuted) for r in found.results] == [("law", False), ("law", False), ("pair", False)]
    assert found["pair"]["epsilon of the pair"].value == pytest.approx(promise.epsilon, rel=1e-9)
    less = PrivacyStatement.from_dict({**made.to_dict(), **_claiming(made, 0.9 * promise.epsilon)})
    assert audit_statement(less, max_releases=50)["pair"].refuted


def test_what_a_statement_does_not_say_is_left_out():
    promise = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
    other = PrivacyStatement(released="m", unit="record", n_units=9, guarantee=promise, accounting="",
                             mechanism="DP-SGD: 10 steps")  # fmt: skip
    found = audit_statement(other)
    assert found.results == ()
    assert any("no mechanism whose law is known" in text for text in found.left_out)
    assert not found.refuted
    assert "nothing was tried." in repr(found)
    assert "Not tried: law: " in repr(found)


def test_an_audit_that_tried_nothing_does_not_end_like_one_that_found_nothing(here):
    promise = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
    other = PrivacyStatement(released="m", unit="record", n_units=9, guarantee=promise, accounting="",
                             mechanism="DP-SGD: 10 steps")  # fmt: skip
    write_json(Path("other.json"), other.to_dict())
    code, said = run("other.json")
    assert code == 3
    assert "Nothing was tried." in said


@pytest.fixture
def job(here):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(130, 2)), columns=["a", "b"])
    rows["ill"] = np.where(rows.a > 0, "yes", "no")
    rows.iloc[:100].to_csv("private.csv", index=False)
    rows.iloc[100:, :2].to_csv("public.csv", index=False)
    lines = ["private = 'private.csv'", "public = 'public.csv'", "target = 'ill'", "classes = ['no', 'yes']",
             "epsilon = 1.0", "delta = 1e-3", "force = true"]  # fmt: skip

    def write(*more):
        Path("job.toml").write_text("\n".join([*lines, *more]), encoding="utf-8")
        return here

    return write


@pytest.mark.long
@pytest.mark.parametrize("more", [("teachers = 5", "queries = 4", "teacher = 'naive-bayes'"), ()])
def test_a_job_is_replayed_and_nothing_is_charged(job, more):
    folder = job(*more)
    before = sorted(p.name for p in folder.iterdir())
    code, said = run("job.toml", "--pairs", 3)
    assert code == 0
    assert "No claim was refuted by 1 audit (replay)." in said
    assert sorted(p.name for p in folder.iterdir()) == sorted([*before, "job.audit"])  # no ledger, no key, no labels
    (found,) = Audit.load(folder / "job.audit" / "audit.sensitive.json").results
    assert found.sensitive
    assert found.tried == "the job replayed on up to 3 pairs of neighbouring tables, inner states compared"
    assert Audit.load(folder / "job.audit" / "audit.json").results == ()


@pytest.mark.long
def test_a_job_that_leaks_ends_with_one(job, monkeypatch):
    """A scaler fitted on all private rows, planted in the job."""
    from pate.jobs import LabelJob

    honest = LabelJob.run

    def leaky(self):
        X = self._source.X
        object.__setattr__(self._source, "X", (X - X.mean()) / X.std())
        return honest(self)

    monkeypatch.setattr(LabelJob, "run", leaky)
    folder = job("teachers = 5", "queries = 4", "teacher = 'naive-bayes'", "preprocess = 'none'")
    code, said = run("job.toml", "--pairs", 3)
    assert code == 1
    assert "teachers" not in said.split("Refuted:")[1].split("Not tried")[0]  # what was found is private
    assert "moved" in Audit.load(folder / "job.audit" / "audit.sensitive.json").results[0].finding


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("none.npy", *GNMAX), "there is no file or folder 'none.npy'"),
        (("votes.npy",), "--mechanism is missing"),
        (("votes.npy", "--mechanism", "gnmax"), "needs --sigma"),
        (("votes.npy", *GNMAX, "--cite", "a.json"), "--cite has no effect on votes"),
        (("votes.npy", *GNMAX, "--pairs", 3), "--pairs has no effect on votes"),
        (("labels.statement.json", "--sigma", 3), "--sigma has no effect on what has a statement"),
        (("labels.statement.json", "--cite", "labels.statement.json"), "--cite must be a new .json file"),
        (("job.toml", "--epsilon", 3), "--epsilon has no effect on a job file"),
        (("job.toml",), "must name private, and public"),
        (("empty",), "holds no statement.json"),
        (("note.txt",), "TARGET must be a run's folder"),
        (("votes.npy", *GNMAX, "--out", "empty/.."), "is taken"),
        (("votes.npy", *GNMAX, "--delta", 2), "delta"),
    ],
)
def test_refusals_name_options_and_write_nothing(here, words, reported):
    (here / "empty").mkdir()
    (here / "note.txt").write_text("x")
    (here / "job.toml").write_text("epsilon = 1.0")
    write_json("labels.statement.json", statement().to_dict())
    before = sorted(p.name for p in here.rglob("*"))
    code, said = run(*words)
    assert (code, reported in said) == (2, True), said
    assert sorted(p.name for p in here.rglob("*")) == before


@pytest.mark.long
def test_a_folder_may_be_named_by_a_dot(here, monkeypatch):
    folder = here / "run"
    folder.mkdir()
    write_json(folder / "statement.json", statement().to_dict())
    monkeypatch.chdir(folder)
    assert run(".", *QUICK)[0] == 0
    assert sorted(p.name for p in here.iterdir() if p.is_dir()) == ["run", "run.audit"]
    assert Audit.load(here / "run.audit" / "audit.json").title.endswith(": run")
    code, said = run("/")
    assert code == 2
    assert "no run's folder" in said


def test_a_citation_does_not_write_over_the_audit(here):
    write_json(here / "s.json", statement().to_dict())
    for cite in ("new/audit.json", "new/cited.json", "s.audit/audit.json"):
        code, said = run("s.json", *QUICK, "--cite", cite, *(() if "s.audit" in cite else ("--out", "new")))
        assert code == 2
        assert "outside of the audit's folder" in said
    full = statement().with_audits([{"layer": "law", "claim": "c", "tried": "t", "stood": True}] * 40)
    write_json(here / "full.json", full.to_dict())
    code, said = run("full.json", *QUICK, "--cite", "c.json")
    assert code == 2
    assert "at most 40 audits" in said
    assert sorted(p.name for p in here.iterdir()) == ["full.json", "s.json", "votes.npy"]


def test_a_sanitised_statement_is_not_refuted_by_votes_that_were_not_cast():
    made = statement()
    low = replace(made, guarantee=replace(made.guarantee, kind="sanitised", epsilon=0.7))
    found = audit_statement(low, max_releases=200, n_runs=50)
    assert not found.refuted
    assert {r.layer for r in found.results} == {"law"}
    assert any("sanitised" in why for why in found.left_out)


@pytest.mark.parametrize(
    "change",
    [{"verify": "x.charge(10000000000000, None)"}, {"mechanism": "GNMax(sigma=8.0), 50 teachers, 1 classes"},
     {"mechanism": "GNMax(sigma=8.0), 50 teachers, 100000000000 classes"},
     {"mechanism": "GNMax(sigma=8.0), 0 teachers, 3 classes"}],
)  # fmt: skip
def test_a_statement_of_impossible_sizes_is_refused(change):
    with pytest.raises(InvalidInputError, match=r"n_queries|n_classes|n_teachers"):
        audit_statement(replace(statement(), **change), max_releases=200, n_runs=50)


def test_a_data_dependent_claim_never_comes_out():
    votes, other = Votes.from_counts(COUNTS), COUNTS.copy()
    other[:, 0] -= 1
    other[:, 1] += 1
    inner = account(votes, GNMax(8.0), delta=1e-5).data_dependent.reveal()
    with pytest.raises(InvalidInputError, match="whatever the votes are"):
        audit_votes(votes, GNMax(8.0), claim=inner)
    with pytest.raises(InvalidInputError, match="whatever the votes are"):
        audit_mechanism(GNMax(8.0), claim=replace(inner, kind="sanitised"))
    assert pair(votes, other, GNMax(8.0), claim=inner, published=True).sensitive


@pytest.mark.long
@pytest.mark.parametrize("feature", ["target", "group"])
def test_a_job_keeps_columns_that_bear_our_own_names(tmp_path, monkeypatch, feature):
    rows = pd.DataFrame({"age": np.arange(120) % 60, feature: np.arange(120) / 7, "who": np.arange(120) // 2,
                         "ill": ["no", "yes"] * 60})  # fmt: skip
    rows.to_csv(tmp_path / "private.csv", index=False)
    rows[["age", feature]].iloc[::4].to_csv(tmp_path / "public.csv", index=False)
    seen = []

    class Watched(audited.LabelJob):
        def __init__(self, private, *args, **kwargs):
            seen.append(pd.read_csv(private))
            super().__init__(private, *args, **kwargs)

    monkeypatch.setattr(audited, "LabelJob", Watched)
    job = {"private": tmp_path / "private.csv", "public": tmp_path / "public.csv", "target": "ill", "group": "who",
           "classes": ["no", "yes"], "budget": Budget(1.0, 1e-4), "n_teachers": 10, "n_queries": 5,
           "force": True}  # fmt: skip
    audited.audit_job(job, n_pairs=1, published=True)
    np.testing.assert_allclose(seen[0][feature], rows[feature])


def test_a_statement_of_seeded_noise_is_no_place_to_cite_what_stood(here):
    made = release_labels(Votes.from_counts(COUNTS), GNMax(8.0), budget=Budget(9.0, 1e-5), noise_seed=1).statement
    write_json(here / "s.json", made.to_dict())
    code, said = run("s.json", *QUICK, "--cite", "c.json")
    assert code == 2
    assert "promises nothing" in said
    assert sorted(p.name for p in here.iterdir()) == ["s.json", "votes.npy"]


def test_what_a_statement_cites_is_about_new_releases():
    found = audit_statement(statement(), max_releases=200, n_runs=50)
    assert {one["layer"] for one in found.cited() if "on new releases, not what was released" in one["tried"]} == {
        "law", "game",
    }  # fmt: skip


@pytest.fixture
def numbers(here):
    """A job whose target is a number, and one without public rows, on the same records."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(rng.normal(size=(160, 2)).clip(-4, 4), columns=["a", "b"])
    rows["price"], rows["ill"] = 3 * rows.a + 10, np.where(rows.a > 0, "yes", "no")
    rows["day"] = pd.date_range("2020-01-01", periods=160).strftime("%d.%m.%Y")
    rows.loc[3, "price"] = np.nan
    rows.iloc[:120].to_csv("private.csv", index=False)
    rows.iloc[120:, :2].to_csv("public.csv", index=False)
    both = "private = 'private.csv'\nepsilon = 20.0\ndelta = 1e-3\nforce = true\n"
    Path("number.toml").write_text(
        f"{both}public = 'public.csv'\ntarget = 'price'\nnumeric = true\nrange = ['0,20']\ndrop = ['ill', 'day']\n"
    )
    Path("schema.toml").write_text(
        'rows = "table"\n[[column]]\nname = "a"\nkind = "numeric"\nrange = [-4, 4]\n'
        '[[column]]\nname = "day"\nkind = "date:day-first"\nrange = [18000, 18500]\n'
    )
    Path("train.toml").write_text(
        f"{both}ranges = 'schema.toml'\ntarget = 'ill'\nclasses = ['no', 'yes']\nvoters = 'records'\n"
    )
    return here


@pytest.mark.long
@pytest.mark.parametrize("name", ["number.toml", "train.toml"])
def test_numbers_and_synthetic_rows_are_replayed_and_nothing_is_charged(numbers, name):
    before = sorted(p.name for p in numbers.iterdir())
    code, said = run(name, "--pairs", 2, "--published")
    assert code == 0, said
    assert "No claim was refuted by 1 audit (replay)." in said
    folder = name.replace("toml", "audit")
    assert sorted(p.name for p in numbers.iterdir()) == sorted([*before, folder])
    (found,) = Audit.load(numbers / folder / "audit.json").results
    # Cells of a histogram move as far as they may, and every pair ran.
    assert 0.99 < found["sum moved, of what it may"].value <= 1
    assert (found["pairs refused"].value, found["pairs refused"].of) == (0, "2 pairs")


@pytest.mark.long
@pytest.mark.parametrize("name", ["number.toml", "train.toml"])
def test_a_job_whose_people_are_counted_record_by_record_is_found(numbers, monkeypatch, name):
    """The owners of records are lost before the sums."""
    from pate.records import _vectors as vectors

    rows = pd.read_csv("private.csv")
    rows.assign(who=np.arange(len(rows)) // 3).to_csv("private.csv", index=False)
    with Path(name).open("a") as file:
        file.write("group = 'who'\n")
    honest = vectors.count_cells

    def by_record(units, *args, **said):
        return honest(replace(units, owners=None), *args, **said)

    for place in ("_regression", "_synthetic"):
        monkeypatch.setattr(f"pate.models.{place}.count_cells", by_record)
    code, said = run(name, "--pairs", 1)
    assert code == 1, said
    folder = numbers / name.replace("toml", "audit")
    assert "times as far as one unit may move it" in Audit.load(folder / "audit.sensitive.json").results[0].finding


@pytest.mark.long
def test_models_of_numbers_and_of_synthetic_rows_are_audited_by_their_statement(numbers):
    from pate.data import Schema
    from pate.jobs import LabelJob, NumberJob

    budget = Budget(2.0, 1e-3)
    number = NumberJob("private.csv", "public.csv", target="price", target_range=(0, 20), budget=budget, force=True,
                       drop=("ill", "day"))  # fmt: skip
    number.model(number.run()).save("number.pate")
    train = LabelJob("private.csv", schema=Schema.read("schema.toml"), target="ill", classes=["no", "yes"],
                     budget=budget, force=True, voters="records")  # fmt: skip
    train.model(train.run()).save("train.pate")
    for name, n_pairs in (("number.pate", 2), ("train.pate", 1)):
        code, said = run(name, *QUICK)
        assert code == 0, said
        found = Audit.load(numbers / name.replace("pate", "audit") / "audit.json")
        closed = [r for r in found.results if r.layer == "pair"]
        # Two parts of the units, each with a price: both are computed again.
        assert len(closed) == n_pairs
        reached = [r["epsilon of the pair"].value for r in closed]
        assert all(0 < one <= 2 * (1 + 1e-6) for one in reached)
        assert max(reached) == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize("part", ["training", "held-out"])
def test_a_part_that_costs_more_than_is_claimed_is_refuted(part):
    """Of two parts the larger one counts; a statement that says the smaller one's epsilon is found."""
    from pate.records import Units, count_cells
    from pate.release import open_ballot_session

    units = Units.of(np.arange(60.0), share=0.5)
    said = {"n_units": units.n, "fingerprint": units.unit_owners.fingerprint(), "force": True, "n_held_out": 1}
    with open_ballot_session(Budget(1.0, 1e-5), shares=[1.0, 1.0], classes=None, **said) as session:
        asked = count_cells(units, units.cells([0, 30, 60]), [2], what="", query="", part="training")
        made = session.ask_vectors(asked).statement
    assert not audit_statement(made, max_releases=20).refuted
    noise = f"{session.mechanisms[0].noise_multiplier!r}"
    before, mark, after = made.verify.partition(" (training units) and ")
    low = {"training": (before.replace(noise, "2.0"), after), "held-out": (before, after.replace(noise, "2.0"))}[part]
    found = audit_statement(replace(made, verify=mark.join(low)), max_releases=20)
    assert [r.refuted for r in found.results if r.layer == "pair"] == [part == "training", part == "held-out"]
