"""``pate label`` from files to files: every kind of file, options from a file, teachers by name and by path."""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from test_cli import pate

from pate import InvalidInputError, Ledger, read_table
from pate._core.frames import guarded_cell, unguarded_cell
from pate.cli import _label as label_command
from pate.cli._label import LabelOptions
from pate.cli._options import read_job_file, uses_of
from pate.jobs._writing import as_csv
from pate.privacy.convert import format_up


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {"age": rng.normal(50, 10, n).round(3), "code": rng.choice(["1", "2", "V7"], n), "weight": rng.normal(70, 9, n)}
    )
    frame.loc[rng.random(n) < 0.1, "weight"] = np.nan
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame[:260].to_csv(tmp_path / "private.csv", index=False)
    frame[260:].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


BASE = {
    "private": "private.csv", "public": "public.csv", "target": "ill", "classes": "no,yes", "epsilon": 4,
    "delta": "1e-3", "teachers": 15, "queries": 10, "out": "labels.csv", "jobs": 1, "teacher": "naive-bayes",
}  # fmt: skip


def run(folder, *flags, **options):
    merged = {k: v for k, v in (BASE | options).items() if v is not None}
    arguments = [part for k, v in merged.items() for part in (f"--{k.replace('_', '-')}", v)]
    return pate("label", *arguments, *flags, cwd=folder)


def refused(done, text):
    assert done.returncode == 2, done.stdout
    assert text in done.stderr
    assert "Traceback" not in done.stderr


# Kinds of input -------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", [".csv.gz", ".parquet", ".npz"])
def test_kinds_of_tables(tables, kind):
    for name in ("private", "public"):
        frame = pd.read_csv(tables / f"{name}.csv")
        if kind == ".csv.gz":
            (tables / f"{name}.csv.gz").write_bytes(gzip.compress((tables / f"{name}.csv").read_bytes()))
        elif kind == ".parquet":
            frame.to_parquet(tables / f"{name}.parquet", index=False)
        else:
            np.savez(tables / f"{name}.npz", **{c: frame[c].to_numpy().astype(frame[c].dtype if frame[c].dtype.kind == "f" else str) for c in frame})  # fmt: skip # noqa: E501
    done = run(tables, private=f"private{kind}", public=f"public{kind}")
    assert done.returncode == 0, done.stderr
    frame = pd.read_csv(tables / "labels.csv")
    assert (frame["status"] == "answered").sum() == 10


@pytest.mark.long
def test_matrices(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    np.savez(tmp_path / "private.npz", X=X[:260], y=(X[:260, 0] > 0).astype(int))
    np.save(tmp_path / "public.npy", X[260:])
    done = run(tmp_path, private="private.npz", public="public.npy", target=None, classes="0,1")
    assert done.returncode == 0, done.stderr
    assert set(pd.read_csv(tmp_path / "labels.csv")["label"].dropna()) <= {0, 1}


@pytest.mark.long
def test_codes_that_look_like_numbers(tables):
    """In the private file no V7 happens to stand: it is the same column of codes, as the public file says."""
    frame = pd.read_csv(tables / "private.csv", dtype={"code": str})
    frame[frame["code"] != "V7"].to_csv(tables / "private.csv", index=False)
    for reported, options in ((True, {}), (False, {"text": "code", "out": "again.csv"})):
        done = run(tables, **options)
        assert done.returncode == 0, done.stderr
        assert ("'code' holds numbers alone" in done.stderr) == reported


@pytest.mark.long
@pytest.mark.parametrize("column", ["age", "weight", "ill", "who"])
def test_one_persons_odd_or_missing_cell_stops_nothing(tables, column):
    """Of any column: the same plan and the same statement, and a word to the curator that quotes nothing."""
    frame = pd.read_csv(tables / "private.csv", dtype=str).assign(who=[f"p{i // 2}" for i in range(260)])
    said = []
    for name, cell in (("usual", frame.loc[17, column]), ("odd", "Jane Doe"), ("missing", "")):
        frame.loc[17, column] = cell
        (tables / name).mkdir()
        frame.to_csv(tables / name / "private.csv", index=False)
        done = run(tables, private=f"{name}/private.csv", group="who", out=f"{name}/labels.csv")
        assert done.returncode == 0, done.stderr
        assert "Jane" not in done.stdout + done.stderr
        statement = json.loads((tables / name / "labels.statement.json").read_text())
        said.append([statement[key] for key in ("guarantee", "mechanism", "unit", "assumptions")])
    assert said[0] == said[1] == said[2]


@pytest.mark.long
def test_categories_without_end_and_unseen_ones(tables):
    """Ids of private rows make no columns; how many public ones do is an option."""
    private, public = (pd.read_csv(tables / f"{n}.csv") for n in ("private", "public"))
    private.assign(visit=[f"p{i}" for i in range(260)]).to_csv(tables / "private.csv", index=False)
    public.assign(visit=[f"v{i}" for i in range(40)]).to_csv(tables / "public.csv", index=False)
    done = run(tables, "--plan", max_categories=5)
    assert "4 columns become 11 numbers" in done.stdout  # age, weight, weight missing, 3 codes, 5 visits
    assert run(tables, max_categories=5).returncode == 0


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(120):
        dark = i % 2
        pixels = rng.integers(0, 90, size=(5, 6)) + 150 * (1 - dark)
        place = f"private/{['light', 'dark'][dark]}/p{i // 4}_{i}.png" if i < 90 else f"public/=img{i}.png"
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / place)
    return tmp_path


IMAGES = {"private": "private", "public": "public", "target": None, "classes": "dark,light"}


def test_folders_of_images(pictures):
    done = run(pictures, **IMAGES, group="prefix", epsilon=20, select="cluster", teachers=6)
    assert done.returncode == 0, done.stderr
    frame = pd.read_csv(pictures / "labels.csv")
    assert frame.columns.tolist() == ["file", "label", "status", "margin", "confidence"]
    assert frame["file"].tolist() == [f"'={p.name[1:]}" for p in sorted((pictures / "public").iterdir())]
    answered = frame[frame["status"] == "answered"]
    even = answered["file"].str.extract(r"(\d+)")[0].astype(int) % 2 == 0
    assert (np.where(even, "light", "dark") == answered["label"]).mean() > 0.7
    statement = json.loads((pictures / "labels.statement.json").read_text())
    assert (statement["unit"], statement["n_units"]) == ("group", 23)
    assert (pictures / "private.ledger.sqlite").exists()


@pytest.mark.long
def test_one_persons_odd_image_stops_nothing(pictures):
    (pictures / "private" / "dark" / "p0_1.png").write_bytes(b"no image")
    Image.new("L", (9, 9)).save(pictures / "private" / "light" / "janedoe.png")
    done = run(pictures, **IMAGES, group="prefix", epsilon=20, teachers=6)
    assert done.returncode == 0, done.stderr
    assert "2 of 91 images" in done.stderr
    assert "janedoe" not in done.stdout + done.stderr
    assert json.loads((pictures / "labels.statement.json").read_text())["n_units"] == 23


@pytest.mark.long
def test_folders_that_do_not_fit(pictures):
    refused(run(pictures, **{**IMAGES, "target": "ill"}), "target is for tables")
    refused(run(pictures, **{**IMAGES, "public": "private/dark/p0_1.png"}), "both be folders of images")
    refused(run(pictures, **IMAGES, size="5"), "size must be WIDTHxHEIGHT")
    refused(run(pictures, **IMAGES, size="3x3"), "is not 3 x 3 pixels")
    refused(run(pictures, **IMAGES, group="patient"), "group must be one of 'prefix'")
    done = run(pictures, "--resize", **IMAGES, size="3x3", color="rgb")
    assert done.returncode == 0, done.stderr
    assert "images of 27 numbers" in done.stdout


def test_images_options_are_not_for_tables(tables):
    refused(run(tables, size="3x3"), "size is for folders of images")


# Plan, choice, output -------------------------------------------------------------------------------------------


def test_the_plan_trains_and_writes_nothing(tables):
    done = run(tables, "--plan", select="uncertain", rounds=2)
    assert done.returncode == 0, done.stderr
    for text in (
        "15, each of 17 to 18 of the 260 records",
        "15 x naive-bayes",
        "NoisyHistogram(sigma=",
        "2 rounds of 5, 5",
        "buys 10 answers",
        "will spend (4, 0.001)-DP, public",
    ):
        assert text in done.stdout
    assert sorted(p.name for p in tables.iterdir()) == ["private.csv", "public.csv"]


@pytest.mark.long
def test_a_plan_does_not_look_at_values(tables):
    """Other private values, labels and all, of the same shape: the same plan, word for word."""
    first = run(tables, "--plan").stdout
    frame = pd.read_csv(tables / "private.csv")
    frame["age"], frame["ill"] = 1.0, "no"
    frame.to_csv(tables / "private.csv", index=False)
    assert run(tables, "--plan").stdout == first


@pytest.mark.long
@pytest.mark.parametrize("select", ["first", "spread", "cluster", "uncertain"])
def test_choices(tables, select):
    done = run(tables, select=select)
    assert done.returncode == 0, done.stderr
    assert Ledger(tables / "private.csv.ledger.sqlite").releases()[0].n_queries <= 10
    again = run(tables, select=select, out="again.csv")
    assert again.returncode == 0, again.stderr
    assert "answered before: free" in again.stdout
    pd.testing.assert_frame_equal(pd.read_csv(tables / "labels.csv"), pd.read_csv(tables / "again.csv"))
    assert len(Ledger(tables / "private.csv.ledger.sqlite").releases()) == 1


@pytest.mark.long
def test_cells_that_a_spreadsheet_would_run(tables):
    frame = pd.read_csv(tables / "private.csv")
    frame["ill"] = frame["ill"].map({"no": "=cmd|calc", "yes": "-yes"})
    frame.to_csv(tables / "private.csv", index=False)
    assert run(tables, classes="=cmd|calc,-yes").returncode == 0
    assert set(pd.read_csv(tables / "labels.csv")["label"].dropna()) == {"'=cmd|calc", "'-yes"}
    assert set(read_table(tables / "labels.csv").X["label"].dropna()) == {"=cmd|calc", "-yes"}
    verified = pate("verify", "labels.csv", "labels.statement.json", cwd=tables)
    assert verified.stdout.count("as stated") == 2
    assert run(tables, "--raw-csv", classes="=cmd|calc,-yes", out="raw.csv").returncode == 0
    assert set(pd.read_csv(tables / "raw.csv")["label"].dropna()) == {"=cmd|calc", "-yes"}
    assert pate("predict", "public.csv", "--model", "labels.pate", "--out", "p.csv", cwd=tables).returncode == 0
    assert set(pd.read_csv(tables / "p.csv")["label"]) <= {"'=cmd|calc", "'-yes"}
    # Labels that pate wrote are the private column of the next release, and give the classes as they were.
    frame["ill"] = "'" + frame["ill"]
    frame.to_csv(tables / "guarded.csv", index=False)
    again = run(
        tables, private="guarded.csv", classes="=cmd|calc,-yes", out="again.csv", ledger="private.csv.ledger.sqlite"
    )
    assert again.returncode == 0, again.stderr  # the ledger knows these records: no label of theirs is another
    assert (tables / "again.csv").read_bytes() == (tables / "labels.csv").read_bytes()


@pytest.mark.parametrize("start", list("=+-@\t\r\n"))
def test_every_start_of_a_formula(start):
    for text in (f"{start}x", f"'{start}x", f"''{start}"):
        assert guarded_cell(text) == f"'{text}"
        assert unguarded_cell(guarded_cell(text)) == text
    for text in (f"x{start}", "-1", "+1.5e-3", "-.5", "'-1", "'", "'tis", "", 5, -1.5, None):
        assert guarded_cell(text) == text
        assert text is None or not isinstance(text, str) or unguarded_cell(text) == text


def test_columns_that_are_named_as_formulas_are_read_back_by_their_names(tmp_path):
    frame = pd.DataFrame({"=a": ["-x", "'@y", "tis"], "-1": [-1.5, 2.0, -3.0], "+b": ["-1", "2", "3"]})
    (tmp_path / "a.csv").write_bytes(as_csv(frame, id_name="row"))
    assert (tmp_path / "a.csv").read_text().splitlines()[:2] == ["'=a,-1,'+b", "'-x,-1.5,-1"]
    shown = read_table(tmp_path / "a.csv", text=["+b"])
    assert shown.X.to_dict("list") == frame.to_dict("list")
    held = read_table(tmp_path / "a.csv", like=shown, text=["+b"])
    assert held.X.to_dict("list") == frame.to_dict("list")
    (tmp_path / "raw.csv").write_bytes(as_csv(frame, id_name="row", raw_csv=True))
    assert (tmp_path / "raw.csv").read_text().splitlines()[0] == "=a,-1,+b"


def test_an_existing_output_is_refused_before_any_work(tables):
    (tables / "labels.statement.txt").write_text("precious")
    refused(run(tables), "never overwritten")
    (tables / "gone.csv").symlink_to("nowhere")
    refused(run(tables, out="gone.csv"), "never overwritten")


# Teachers -------------------------------------------------------------------------------------------------------

MODULE = """
from sklearn.tree import DecisionTreeClassifier
open({mark!r}, "w").write("ran")
class Mine(DecisionTreeClassifier):
    pass
def make():
    return DecisionTreeClassifier(max_depth=2)
def odd(parameter):
    return None
text = "not a classifier"
"""


@pytest.fixture
def module(tables, monkeypatch):
    (tables / "code").mkdir()
    (tables / "code" / "pate_test_teachers.py").write_text(MODULE.format(mark=str(tables / "ran")))
    monkeypatch.syspath_prepend(str(tables / "code"))
    yield tables / "ran"
    sys.modules.pop("pate_test_teachers", None)


@pytest.mark.long
@pytest.mark.parametrize("name", ["random-forest", "hist-gradient-boosting", "mlp", "svm", "decision-tree"])
def test_teachers_by_name(tables, name):
    assert run(tables, teacher=name, teachers=4, queries=5, epsilon=50).returncode == 0


@pytest.mark.long
def test_an_import_path_needs_the_flag_and_nothing_runs_without(tables, module):
    refused(run(tables, teacher="pate_test_teachers:make"), "--allow-import")
    assert not module.exists()
    done = run(tables, "--allow-import", teacher="pate_test_teachers:make")
    assert done.returncode == 0, done.stderr
    assert module.exists()
    assert "15 x pate_test_teachers:make" in done.stdout


@pytest.mark.long
def test_a_class_of_ones_own_is_used_and_not_kept(tables, module):
    done = run(tables, "--allow-import", teacher="pate_test_teachers:Mine")
    assert done.returncode == 0, done.stderr
    assert "cannot be read back safely" in done.stderr
    assert not (tables / "labels.private").exists()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pate_test_teachers:odd", "cannot be made without parameters"),
        ("pate_test_teachers:text", "cannot be made without parameters"),
        ("pate_test_teachers:missing", "Check the name after the colon"),
        ("pate_no_such_module:make", "PYTHONPATH"),
        ("os:getcwd", "not a scikit-learn classifier"),
        ("os;x:y", "teacher must be one of"),
    ],
)
def test_import_paths_that_lead_nowhere(tables, module, path, text):
    refused(run(tables, "--allow-import", teacher=path), text)


# The epsilon at the teachers' very votes, for the curator alone.

CONFIDENT = {"mechanism": "confident-gnmax", "sigma": 2, "threshold": 10, "sigma_threshold": 3, "epsilon": 60}


def public_files(folder):
    """Every file but the private folder's and the tables."""
    return [p for p in folder.rglob("*") if p.is_file() and "labels.private" not in p.parts and p.suffix != ".key"]


@pytest.mark.long
@pytest.mark.parametrize("flag", [None, "--json", "--quiet", "--verbose"])
def test_the_cost_at_the_votes_is_told_to_the_curator_alone(tables, flag):
    done = run(tables, *([flag] if flag else []), **CONFIDENT)
    assert done.returncode == 0, done.stderr
    path = tables / "labels.private" / "account.json"
    assert path.stat().st_mode & 0o777 == 0o600
    found = json.loads(path.read_text())
    private = found["private"]["data_dependent"]
    statement = json.loads((tables / "labels.statement.json").read_text())
    assert found["public"]["epsilon"] == statement["guarantee"]["epsilon"] > private["epsilon"] > 0
    assert found["uses"]["data_dependent"].startswith("private")
    said = "For the curator alone, never to be published: labels.private/account.json has"
    assert (said in done.stderr) is (flag != "--quiet")
    assert "account.json" not in done.stdout
    if flag == "--json":
        assert "private" not in json.loads(done.stdout)
    numbers = [one["epsilon"] for one in found["private"].values() if isinstance(one, dict)]
    numbers += [found["private"]["expected_answers"]]
    assert len(numbers) == 3
    for number in numbers:
        text = f"{number:.12g}"[:6]
        assert text not in done.stdout + done.stderr
        for file in public_files(tables):
            data = file.read_bytes()
            assert text.encode() not in data, file
            assert np.float64(number).tobytes() not in data, file
    shown = pate("show", "labels.pate", cwd=tables)
    assert shown.returncode == 0
    assert f"{numbers[0]:.12g}"[:6] not in shown.stdout


@pytest.mark.long
@pytest.mark.parametrize(("flag", "tells"), [(None, True), ("--json", False), ("--quiet", False)])
def test_a_person_at_a_terminal_is_shown_the_epsilon(tables, monkeypatch, flag, tells):
    monkeypatch.setattr(label_command, "is_interactive", lambda: True)
    done = run(tables, "--yes", *([flag] if flag else []), **CONFIDENT)
    assert done.returncode == 0, done.stderr
    found = json.loads((tables / "labels.private" / "account.json").read_text())
    said = f"at this terminal: epsilon = {format_up(found['private']['data_dependent']['epsilon'])} at these votes"
    assert (said in done.stderr) is tells
    assert "at these votes" not in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"teachers": None, "queries": None, "teacher": None, "voters": "records"}])
def test_where_no_cost_is_lower_at_the_votes_there_is_no_such_file(tables, options):
    (tables / "labels.private").mkdir()
    (tables / "labels.private" / "account.json").write_text("of other labels")
    done = run(tables, **options)
    assert done.returncode == 0, done.stderr
    assert "account.json" not in done.stderr
    assert not (tables / "labels.private" / "account.json").exists()


@pytest.mark.long
def test_no_checkpoints(tables):
    assert run(tables, "--no-checkpoints").returncode == 0
    assert not (tables / "labels.private").exists()
    assert run(tables, out="more.csv").returncode == 0
    assert (tables / "more.private" / "teachers").is_dir()


# Options from a file --------------------------------------------------------------------------------------------

JOB = """
private = "private.csv"
public = "public.csv"
target = "ill"
classes = ["no", "yes"]
epsilon = 4
delta = 1e-3
teachers = 15
queries = 10
out = "labels.csv"
teacher = "naive-bayes"
raw-csv = true
max_categories = 20
jobs = 1
"""


@pytest.mark.long
def test_a_file_holds_the_same_options(tables, tmp_path):
    (tables / "sub").mkdir()
    for name in ("private.csv", "public.csv"):
        (tables / name).rename(tables / "sub" / name)
    (tables / "sub" / "job.toml").write_text(JOB)
    done = pate("label", "--config", "sub/job.toml", cwd=tables)
    assert done.returncode == 0, done.stderr
    assert (tables / "sub" / "labels.csv").exists()  # paths in the file start at its folder
    again = pate("label", "--config", "sub/job.toml", "--out", "mine.csv", "--queries", 8, "--plan",
                 "--ledger", "fresh.sqlite", "--new-ledger", cwd=tables)  # fmt: skip
    assert "8 of 40 public rows" in again.stdout  # the command line wins, and its paths start here
    assert not (tables / "mine.csv").exists()


@pytest.mark.long
def test_the_order_of_options_does_not_matter(tables):
    (tables / "job.toml").write_text(JOB)
    for arguments in (["--queries", 7, "--config", "job.toml"], ["--config", "job.toml", "--queries", 7]):
        done = pate("label", *arguments, "--plan", cwd=tables)
        assert "7 of 40 public rows" in done.stdout, done.stderr


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("epsilom = 1", "unknown option 'epsilom'. Did you mean 'epsilon'?"),
        ("max-answer = 1", "Did you mean 'max-answers'?"),
        ("[label]\nepsilon = 1", "unknown option 'label'"),
        ("queries = '10'", "queries must be a whole number, got '10'"),
        ("queries = true", "queries must be a whole number"),
        ("queries = 1.5", "queries must be a whole number"),
        ("epsilon = '3'", "epsilon must be a number"),
        ("epsilon = nan", "epsilon must be"),
        ("classes = [0, 1]", "Put each in quotes"),
        ("classes = 'no,yes'", "classes must be a list of texts"),
        ("raw-csv = 'yes'", "raw-csv must be true or false"),
        ("private = 7", "private must be a text (a path)"),
        ("teacher = {import = 'os:system'}", "teacher must be a text"),
        ("allow-import = true", "must not hold 'allow-import'"),
        ("config = 'other.toml'", "must not hold 'config'"),
        ("new-ledger = true", "must not hold 'new-ledger'"),
        (
            "select = 'best'",
            "job.toml: select must be one of 'auto', 'random', 'first', 'spread', 'cluster', 'uncertain'",
        ),
        ("on-exhausted = 1", "on-exhausted must be a text"),
        ("max-answers = 1\nmax_answers = 2", "twice"),
        ("epsilon = ", "job.toml is not readable as TOML"),
        ("x" + ".x" * 201 + " = 1", "a line has more than 200 dots. Write NAME = VALUE lines"),
        ("x = " + "[" * 5000, "job.toml is not readable as TOML"),
        ("epsilon = 1\nepsilon = 2", "job.toml is not readable as TOML"),
    ],
)
def test_bad_files(tables, line, text):
    (tables / "job.toml").write_text(line)
    refused(pate("label", "--config", "job.toml", cwd=tables), text)


def test_files_that_are_not(tables):
    (tables / "job.yaml").write_text("epsilon: 1")
    refused(pate("label", "--config", "job.yaml", cwd=tables), "must be a TOML file")
    refused(pate("label", "--config", "none.toml", cwd=tables), "none.toml cannot be read (No such file")
    (tables / "big.toml").write_text("#" * 1_000_001)
    refused(
        pate("label", "--config", "big.toml", cwd=tables), "big.toml is no job file: it is larger than 1000000 bytes"
    )
    (tables / "job.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="not readable as TOML"):
        read_job_file(tables / "job.toml", uses_of(LabelOptions))


@pytest.mark.long
def test_a_file_runs_nothing(tables, module):
    """An import path in a file still needs the flag on the command line."""
    (tables / "job.toml").write_text(JOB.replace('"naive-bayes"', '"pate_test_teachers:make"'))
    refused(pate("label", "--config", "job.toml", cwd=tables), "--allow-import")
    assert not module.exists()
    done = pate("label", "--config", "job.toml", "--allow-import", cwd=tables)
    assert done.returncode == 0, done.stderr


def test_every_option_may_stand_in_a_file_but_these():
    keys = uses_of(LabelOptions)
    assert {name for name, key in keys.items() if key.not_in_file} == {
        "allow_import", "classes_from_private", "new_ledger", "config", "yes", "help_all",
    }  # fmt: skip


@pytest.mark.long
def test_what_a_new_ledger_counts_in_can_be_said_and_holds(tables):
    options = {"mechanism": "gnmax", "sigma": "9", "ledger": "book.sqlite"}
    done = run(tables, accounting_unit="renyi:12.5", **options)
    assert done.returncode == 0, done.stderr
    assert Ledger(tables / "book.sqlite").currency == "renyi:12.5"
    refused(run(tables, accounting_unit="gdp", **options | {"out": "more.csv"}), "counts in renyi:12.5, not in gdp")
    refused(run(tables, accounting_unit="euro", **options | {"out": "more.csv"}), "--accounting-unit must be left out")
