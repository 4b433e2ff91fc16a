"""``pate label --target A,B``: label, predict, show; what is wrong is one line, and nothing is spent."""

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(RNG.normal(size=(900, 2)).round(4), columns=["a", "b"])
LABELS = pd.DataFrame({"ill": np.where(ROWS["a"] > 0, "yes", "no"), "old": ROWS["b"] > 0})


@pytest.fixture
def label(tmp_path):
    ROWS[:800].join(LABELS[:800]).to_csv(tmp_path / "private.csv", index=False)
    ROWS[800:].to_csv(tmp_path / "public.csv", index=False)

    def run(*more, target="ill,old"):
        given = ["--private", "private.csv", "--public", "public.csv", "--target", target, "--epsilon", "4",
                 "--delta", "1e-4", "--out", "out.csv", "--yes", *more]  # fmt: skip
        return pate("label", *given, cwd=tmp_path)

    return run


@pytest.mark.long
def test_label_predict_show(label, tmp_path):
    done = label()
    assert done.returncode == 0, done.stderr
    assert "2 labels of 100 public rows." in done.stdout
    assert "Label old" in done.stdout
    predicted = pate("predict", "public.csv", "--model", "out.pate", "--out", "again.csv", cwd=tmp_path)
    assert predicted.returncode == 0, predicted.stderr
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "again.csv").read_text()
    shown = pate("show", "out.pate", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "ill, old" in shown.stdout
    plan = label("--plan", "--out", "more.csv")
    assert "all labels of all 100 public rows" in plan.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "more", "text"),
    [
        ("ill,young", (), "young"),
        ("ill,old", ("--classes", "no,yes"), "--classes has no effect on several labels"),
        ("ill,old", ("--teachers", "9"), "--teachers has no effect on several labels"),
    ],
)
def test_what_is_wrong_is_said_and_costs_nothing(label, tmp_path, target, more, text):
    done = label(*more, target=target)
    assert done.returncode == 2, done.stdout
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.sqlite*"))
