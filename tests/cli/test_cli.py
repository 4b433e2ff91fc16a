"""The command line as a person uses it, on files."""

import io
import json
import os
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pate import Budget, Ledger, load_dataset

CODE = "import sys; from pate.cli import main; sys.argv[0] = 'pate'; main()"


def pate(*arguments, cwd=None):
    """Run a command here and now: starting an interpreter each time would take most of the tests' time."""
    from pate.cli import main

    out, err = io.StringIO(), io.StringIO()
    before, argv, show = os.getcwd(), sys.argv, warnings.showwarning
    with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("default")
        try:
            os.chdir(cwd or before)
            sys.argv = ["pate", *map(str, arguments)]
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            os.chdir(before)
            sys.argv, warnings.showwarning = argv, show
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n).round(),
            "weight": rng.normal(70, 10, n).round(3),
            "town": rng.choice(["Oslo", "Rome", "Bonn"], n),
            "patient": np.repeat(np.arange(n // 2), 2),
        }
    )
    frame["ill"] = np.where(frame["age"] + 20 * (frame["town"] == "Rome") > 55, "yes", "no")
    frame.iloc[:260].to_csv(tmp_path / "private.csv", index=False)
    frame.iloc[260:].drop(columns=["ill", "patient"]).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def label(folder, *extra, epsilon=2, out="labels.csv"):
    classes = [] if "--classes" in extra else ["--classes", "no,yes"]
    return pate(
        "label", "--private", "private.csv", "--target", "ill", "--group", "patient", "--public", "public.csv",
        *classes, "--epsilon", epsilon, "--delta", "1e-3", "--teachers", 20, "--queries", 10,
        "--out", out, "--jobs", 1, *extra, cwd=folder,
    )  # fmt: skip


def test_help_is_quick_and_light():
    done = subprocess.run([sys.executable, "-c", CODE, "--help"], capture_output=True, text=True, check=True)
    for command in ("demo", "run", "label", "account", "compare"):
        assert command in done.stdout


@pytest.mark.long
def test_label_writes_labels_statement_and_ledger(tables):
    done = label(tables)
    assert done.returncode == 0, done.stderr
    # what it will spend stands there before it is spent
    assert done.stdout.index("will spend") < done.stdout.index("questions answered")
    frame = pd.read_csv(tables / "labels.csv")
    assert list(frame.columns) == ["row", "label", "status", "margin", "confidence"]
    assert frame["row"].tolist() == list(range(40))
    answered = frame[frame["status"] == "answered"]
    assert 1 <= len(answered) <= 10
    assert set(answered["label"]) <= {"no", "yes"}
    assert frame.loc[frame["status"] == "not asked", "label"].isna().all()
    statement = json.loads((tables / "labels.statement.json").read_text())
    assert statement["unit"] == "group"
    assert statement["n_units"] == 130
    assert statement["guarantee"]["epsilon"] <= 2
    assert "PRIVACY STATEMENT" in (tables / "labels.statement.txt").read_text()
    ledger = Ledger(tables / "private.csv.ledger.sqlite")
    assert len(ledger.releases()) == 1
    assert ledger.total == Budget(2, 1e-3)


@pytest.mark.long
def test_label_again_costs_nothing_and_gives_the_same(tables):
    assert label(tables).returncode == 0
    again = label(tables, out="again.csv")
    assert again.returncode == 0, again.stderr
    assert "answered before: free" in again.stdout
    a, b = pd.read_csv(tables / "labels.csv"), pd.read_csv(tables / "again.csv")
    pd.testing.assert_frame_equal(a, b)
    assert len(Ledger(tables / "private.csv.ledger.sqlite").releases()) == 1
    # other queries do not fit any more: the whole budget is spent
    more = label(tables, "--seed", 5, "--mechanism", "gnmax", "--sigma", 20,
                 out="more.csv")  # fmt: skip
    assert more.returncode == 2
    assert "buys 0 of these" in more.stderr
    assert not (tables / "more.csv").exists()


@pytest.mark.long
def test_plan_spends_nothing(tables):
    done = label(tables, "--plan")
    assert done.returncode == 0, done.stderr
    assert "will spend" in done.stdout
    assert sorted(p.name for p in tables.iterdir()) == ["private.csv", "public.csv"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("extra", "text"),
    [
        (["--target", "sick"], "'sick' is not in private.csv"),
        (["--teachers", "500"], "--teachers must be at most the number of groups (130)"),
        (["--classes", "no"], "at least two"),
        (["--epsilon", "0"], "--epsilon must be"),
        (["--delta", "1"], "--delta must be"),
        (["--teacher", "oracle"], "--teacher must be one of"),
        (["--public", "nowhere.csv"], "there is no file"),
        (["--sigma", "5"], "without a mechanism"),
        (["--mechanism", "gnmax"], "missing: --sigma"),
        (["--mechanism", "gnmax", "--sigma", "1"], "buys 0 of these"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_label_refuses_bad_input_and_loses_nothing(tables, extra, text):
    done = label(tables, *extra)
    assert done.returncode == 2, done.stdout
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tables / "labels.csv").exists()
    assert not Ledger(tables / "private.csv.ledger.sqlite").releases()


def test_label_with_other_columns_or_an_existing_file(tables):
    public = pd.read_csv(tables / "public.csv")
    public.rename(columns={"age": "years"}).to_csv(tables / "public.csv", index=False)
    done = label(tables)
    assert done.returncode == 2
    assert "lacks 'age'" in done.stderr
    (tables / "labels.csv").write_text("precious")
    done = label(tables)
    assert done.returncode == 2
    assert "never overwritten" in done.stderr
    assert (tables / "labels.csv").read_text() == "precious"


@pytest.mark.long
def test_classes_left_out_leak_and_that_is_said(tables):
    command = ["label", "--private", "private.csv", "--target", "ill", "--drop", "patient", "--public", "public.csv",
               "--epsilon", 2, "--delta", "1e-3", "--teachers", 20, "--out", "labels.csv", "--jobs", 1]  # fmt: skip
    done = pate(*command, cwd=tables)
    assert (done.returncode, "--classes is missing" in done.stderr) == (2, True)
    assert "--classes-from-private reads them off the private labels instead" in done.stderr
    done = pate(*command, "--classes-from-private", cwd=tables)
    assert done.returncode == 0, done.stderr
    assert "--classes was not given" in done.stderr
    assert "One thing left without any protection" in (tables / "labels.statement.html").read_text()
    statement = json.loads((tables / "labels.statement.json").read_text())
    assert any("set of classes" in line for line in statement["not_covered"])
    assert not any("set of classes" in line["claim"] for line in statement["assumptions"])


@pytest.mark.long
def test_weak_delta_warns(tables):
    done = label(tables, "--delta", "0.05")
    assert "not below 1/n" in done.stderr


def test_account_prints_public_and_hides_private(tmp_path):
    counts = np.random.default_rng(0).multinomial(100, [0.8, 0.15, 0.05], size=50)
    np.save(tmp_path / "votes.npy", counts)
    command = ["account", tmp_path / "votes.npy", "--mechanism", "gnmax", "--sigma", 20, "--delta", "1e-5"]
    done = pate(*command)
    assert done.returncode == 0, done.stderr
    assert "public" in done.stdout
    assert "hidden" in done.stdout
    shown = pate(*command, "--reveal").stdout
    assert "hidden" not in shown
    assert "never publish" in shown
    assert "rdp of the exact law per query" in shown
    assert "pld of the exact law per query" in shown
    assert "pld of" not in pate(*command, "--reveal", "--no-pld").stdout


@pytest.mark.long
def test_account_draws_only_what_was_asked_for(tmp_path):
    counts = np.random.default_rng(0).multinomial(100, [0.8, 0.15, 0.05], size=50)
    np.save(tmp_path / "votes.npy", counts)
    command = ["account", tmp_path / "votes.npy", "--mechanism", "gnmax", "--sigma", 20, "--delta", "1e-5"]
    picture = tmp_path / "curves.png"
    done = pate(*command, "--plot", picture)
    assert done.returncode == 2
    assert "--reveal" in done.stderr
    assert not picture.exists()
    done = pate(*command, "--reveal", "--plot", tmp_path / "curves.pdf")
    assert done.returncode == 2
    done = pate(*command, "--reveal", "--plot", picture)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_mode & 0o777 == 0o600
    assert "sensitive" in done.stdout


@pytest.mark.long
def test_account_sanitises_once_and_from_a_ledger(tmp_path):
    np.save(tmp_path / "votes.npy", np.random.default_rng(0).multinomial(100, [0.8, 0.15, 0.05], size=50))
    command = ["account", tmp_path / "votes.npy", "--mechanism", "gnmax", "--sigma", 20, "--delta", "1e-5", "--no-pld"]
    sanitise = ["--sanitise", "8,0.0125,4"]
    paid_by = ["--ledger", tmp_path / "ledger.sqlite"]
    refused = [
        (sanitise, "--sanitise needs --ledger"),
        (paid_by, "are for --sanitise only"),
        ([*sanitise, *paid_by], "there is no ledger"),
        (["--sanitise", "8,0.0125", *paid_by, "--new-ledger", 9], "must be 'usual', ORDER,BETA,NOISE"),
    ]
    for options, why in refused:
        done = pate(*command, *options)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "ledger.sqlite").exists()
    first = pate(*command, *sanitise, *paid_by, "--new-ledger", 9)
    assert first.returncode == 0, first.stderr
    assert "too low with probability at most 1e-06 (within delta)" in first.stdout
    for same in (sanitise, ["--sanitise", "usual"]):
        assert pate(*command, *same, *paid_by).stdout == first.stdout
    assert "sanitised epsilon of 50 queries" in pate("ledger", "show", tmp_path / "ledger.sqlite").stdout
    assert "exists" in pate(*command, *sanitise, *paid_by, "--new-ledger", 9).stderr


@pytest.mark.long
def test_account_grants_the_same_votes_no_second_ledger_unasked(tmp_path):
    counts = np.random.default_rng(0).multinomial(100, [0.8, 0.15, 0.05], size=50)
    np.save(tmp_path / "votes.npy", counts)
    np.save(tmp_path / "renamed.npy", counts[::-1])
    how = ["--mechanism", "gnmax", "--sigma", 20, "--delta", "1e-5", "--no-pld", "--sanitise", "8,0.0125,4"]
    done = pate("account", tmp_path / "votes.npy", *how, "--ledger", tmp_path / "one.sqlite", "--new-ledger", 9)
    assert done.returncode == 0, done.stderr
    for name, rows in (("votes.npy", []), ("renamed.npy", []), ("votes.npy", ["--rows", 49])):
        second = ["--ledger", tmp_path / "two.sqlite", "--new-ledger", 9, *rows]
        done = pate("account", tmp_path / name, *how, *second)
        assert (done.returncode, "one.sqlite" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "two.sqlite").exists()


def test_account_never_takes_class_ids_for_counts(tmp_path):
    labels = np.random.default_rng(0).integers(0, 3, size=(40, 50))
    np.save(tmp_path / "labels.npy", labels)
    command = ["account", tmp_path / "labels.npy", "--mechanism", "gnmax", "--sigma", 20, "--delta", "1e-5"]
    done = pate(*command)
    assert done.returncode == 2
    assert "--kind" in done.stderr
    done = pate(*command, "--kind", "counts")
    assert done.returncode == 2
    assert "its rows" in done.stderr
    done = pate(*command, "--kind", "labels", "--classes", 3)
    assert done.returncode == 0, done.stderr
    assert "50 queries, 3 classes, 40 teachers" in done.stdout


@pytest.mark.long
def test_account_reproduces_the_published_figures(data_home):
    done = pate(
        "account", data_home / "pate2018_mnist_votes.npz", "--key", "counts", "--rows", 640,
        "--mechanism", "confident-gnmax", "--sigma", 40, "--threshold", 200, "--sigma-threshold", 150,
        "--delta", "1e-5", "--reveal",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for figure in ("1.9988", "282.7", "0.928993"):
        assert figure in done.stdout


@pytest.mark.long
def test_run_and_its_folder(tmp_path):
    command = ["run", "--dataset", "digits", "--epsilon", 8, "--teachers", 10, "--dpsgd", "none", "--jobs", 1,
               "--out", tmp_path / "run"]  # fmt: skip
    done = pate(*command)
    assert done.returncode == 0, done.stderr
    names = sorted(p.name for p in (tmp_path / "run").iterdir())
    assert names == ["labels.csv", "report.html", "results.json", "statement.json", "statement.txt"]
    again = pate(*command)
    assert again.returncode == 2
    assert "is not empty" in again.stderr
    unknown = pate("run", "--dataset", "imagenet", "--epsilon", 8, "--out", tmp_path / "x")
    assert unknown.returncode == 2
    assert "'digits'" in unknown.stderr


def test_absent_data_says_where_it_was_looked_for(tmp_path):
    code = (
        "import pate\n"
        "try: pate.load_dataset('mnist', download=False)\n"
        "except pate.PateError as e: print(type(e).__name__, e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATE_DATA_HOME": str(tmp_path)},
    )
    for word in ("DatasetNotFoundError", "mnist.npz", str(tmp_path), "PATE_DATA_HOME"):
        assert word in done.stdout


@pytest.mark.long
def test_compare_resumes(tmp_path):
    command = ["compare", "--dataset", "digits", "--contestants", "gnmax,records-same", "--epsilons", "3,8",
               "--repeats", 1, "--private", 400, "--public", 100, "--jobs", 1, "--sensitive-report",
               "--out", tmp_path / "c"]  # fmt: skip
    done = pate(*command)
    assert done.returncode == 0, done.stderr
    assert "Open" in done.stdout
    cells = (tmp_path / "c" / "cells.jsonl").read_text()
    assert pate(*command).returncode == 0
    assert (tmp_path / "c" / "cells.jsonl").read_text() == cells
    assert {p.name for p in (tmp_path / "c").iterdir()} >= {"report.html", "results.json", "sensitive.html"}
    assert "_seconds" not in cells
    other = pate(*command, "--seed", 9)
    assert other.returncode == 2
    assert "Traceback" not in other.stderr
    assert "Choose another folder for --out, or delete" in other.stderr


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (["--epsilons", "one"], "--epsilons must be numbers"),
        (["--contestants", "pate,dpsdg"], "Did you mean 'dpsgd'"),
        (["--contestants", "pate,pate"], "each once"),
        (["--contestants", "dpsgd-tempered-cnn"], "images"),
        (["--by", "sex"], "--by must be None"),
        (["--repeats", 0], "--repeats must be a whole number >= 1"),
    ],
)
def test_compare_refuses_what_it_does_not_know(tmp_path, options, reported):
    done = pate("compare", "--dataset", "digits", "--private", 400, "--public", 100, "--epsilons", 3, *options,
                "--jobs", 1, "--out", tmp_path / "d")  # fmt: skip
    assert done.returncode == 2, done.stdout
    assert reported in done.stderr
    assert not (tmp_path / "d" / "cells.jsonl").exists()


@pytest.mark.long
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_is_clean_and_resumable(tables):
    """SIGINT while teachers train: exit 130, no traceback, finished teachers kept, the same command goes on."""
    import signal
    import time

    command = [
        sys.executable, "-c", CODE, "label", "--private", "private.csv", "--target", "ill", "--public", "public.csv",
        "--drop", "patient", "--classes", "no,yes", "--epsilon", "2", "--delta", "1e-3", "--teachers", "15",
        "--queries", "10", "--out", "labels.csv", "--jobs", "1", "--teacher", "random-forest",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=tables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    folder = Path(tables / "labels.private" / "teachers")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(list(folder.glob("[!.]*.skops"))) < 2 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert not (tables / "labels.csv").exists()
    kept = len(list(folder.glob("[!.]*.skops")))
    assert 2 <= kept < 15
    done = subprocess.run(command, cwd=tables, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert (tables / "labels.csv").exists()


@pytest.mark.long
@pytest.mark.sample
def test_the_demo_shows_teachers_records_and_dpsgd_beside_no_privacy(tmp_path):
    done = pate("demo", "--repeats", 2, "--out", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    names = ["PATE with teachers", "PATE with records", "DP-SGD"]
    # Without a terminal there is a line for each fit, and no other one of progress.
    lines = [line for line in done.stderr.splitlines() if re.match(r"repeat|teachers|rounds|DP-SGD steps|fits", line)]
    shares = [re.fullmatch(r"repeat (\d) of 2: (.+) (\d\d?\.\d)%", line) for line in lines]
    assert [(share[1], share[2]) for share in shares] == [(n, name) for n in "12" for name in names]
    rows = json.loads((tmp_path / "demo" / "results.json").read_text())["rows"]
    told = {(row["contestant"], row["seed"]): f"{100 * row['accuracy']:.1f}" for row in rows}
    assert [told[share[2], int(share[1]) - 1] for share in shares] == [share[3] for share in shares]
    table = [line for line in done.stdout.splitlines() if line.startswith("│")]
    for line, parts in zip(
        table,
        [(names[0], "3", "GNMax"), (names[1], "3", "GaussianSum"), (names[2], "3"), ("SVC", "none")],
        strict=False,
    ):
        assert all(part in line for part in parts), line
    means = {name: np.mean([r["accuracy"] for r in rows if r["contestant"] == name]) for name in names}
    assert min(means.values()) > 0.6
    assert max(means.values()) < max(row["accuracy"] for row in rows if row["role"] == "ceiling")
    assert {row["epsilon"] for row in rows if row["role"] == "private"} == {3.0}


@pytest.mark.long
def test_the_demo_at_an_epsilon_that_buys_nothing_says_so(tmp_path):
    done = pate("demo", "--repeats", 1, "--epsilon", "0.005", "--out", tmp_path / "demo")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: budget must buy something of DP-SGD: ")


@pytest.mark.long
def test_the_first_screen_of_the_demo_has_public_images_with_the_labels_that_were_released(tmp_path):
    out = tmp_path / "demo"
    assert pate("demo", "--repeats", 1, "--out", out).returncode == 0
    first = (out / "report.html").read_text(encoding="utf-8").partition("<details>")[0]
    shown = re.findall(r"aria-label='an image labelled (\w)'", first)
    labels = pd.read_csv(out / "labels.csv")["label"].dropna().astype(int).astype(str)
    assert len(shown) == 12
    assert shown == labels.tolist()[:12]
    data = load_dataset("digits", random_state=0, n_public=400)
    rows = pd.read_csv(out / "labels.csv")["row"][:12]
    images = [example["image"] for example in json.loads((out / "results.json").read_text())["examples"]]
    for row, image in zip(rows, images, strict=True):
        pixels = np.rint(9 * data.public.X[row] / data.public.X[rows].max()).astype(int).reshape(8, 8)
        assert image == ["".join(map(str, line)) for line in pixels]


def test_an_unknown_analysis_is_refused(tmp_path):
    done = pate("compare", "--dataset", "digits", "--analysis", "votes", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "--analysis" in done.stderr
    assert "data-dependent" in done.stderr
    assert not (tmp_path / "out").exists()
