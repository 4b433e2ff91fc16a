"""Tables as people's programs write them: encodings, thousands, empty columns; ``label``, ``train`` and ``predict``."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

N = 1200
SCHEMA = """
[[column]]
name = "town"
kind = "category"
categories = ["Köln", "Zürich"]

[[column]]
name = "age"
kind = "numeric"
range = [0, 120]
"""


@pytest.fixture
def towns(tmp_path):
    """Files in which the town decides, with a letter beyond ASCII in each."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": rng.choice(["Köln", "Zürich"], N), "age": rng.integers(18, 90, N)})
    frame["ill"] = np.where(frame["town"] == "Köln", "ja", "öfter")
    frame[:1000].to_csv(tmp_path / "private.csv", index=False, encoding="cp1252")
    rows = frame[1000:].drop(columns="ill")
    rows.to_csv(tmp_path / "public.csv", index=False, encoding="cp1252")
    for name in ("cp1252", "utf-8", "utf-8-sig", "utf-16"):
        rows.to_csv(tmp_path / f"rows {name}.csv", index=False, encoding=name)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


GIVEN = ("--private", "private.csv", "--target", "ill", "--classes", "ja,öfter", "--epsilon", 4, "--delta", 1e-4)


@pytest.mark.long
@pytest.mark.parametrize("how", ["label", "train"])
def test_predict_finds_the_encoding_of_its_rows(towns, how):
    if how == "label":
        done = pate("label", *GIVEN, "--public", "public.csv", "--out", "m.csv", cwd=towns)
    else:
        more = ("--schema", "schema.toml", "--encoding", "cp1252", "--model", "m.pate")
        done = pate("train", *GIVEN, *more, cwd=towns)
    assert done.returncode == 0, done.stderr
    expected = np.where(pd.read_csv(towns / "rows utf-8.csv")["town"] == "Köln", "ja", "öfter")
    made = []
    for name in ("cp1252", "utf-8", "utf-8-sig", "utf-16"):
        done = pate("predict", f"rows {name}.csv", "--model", "m.pate", "--out", f"{name}.csv", cwd=towns)
        assert done.returncode == 0, done.stderr
        assert "letters of another encoding" not in done.stderr
        made.append((towns / f"{name}.csv").read_bytes())
        assert (pd.read_csv(towns / f"{name}.csv")["label"] == expected).mean() > 0.95
    assert len(set(made)) == 1
    # A model in any encoding: the file's own bytes say that it is UTF-8, unless a person says otherwise.
    done = pate(
        "predict", "rows cp1252.csv", "--model", "m.pate", "--out", "said.csv", "--encoding", "cp1250", cwd=towns
    )
    assert done.returncode == 0
    assert (towns / "said.csv").read_bytes() == made[0]  # ö and ü stand at the same places there


@pytest.mark.long
def test_one_broken_letter_of_a_utf8_file_does_not_change_the_others(towns):
    for name in ("private", "public"):
        text = (towns / f"{name}.csv").read_bytes().decode("cp1252")
        (towns / f"{name}.csv").write_text(text, encoding="utf-8")
    assert pate("label", *GIVEN, "--public", "public.csv", "--out", "m.csv", cwd=towns).returncode == 0
    text = (towns / "rows utf-8.csv").read_bytes()
    (towns / "broken.csv").write_bytes(text + b"K\xf6ln,40\n")
    (towns / "other.csv").write_bytes(text.decode().encode("mac_roman"))
    for name in ("rows utf-8.csv", "broken.csv"):
        assert pate("predict", name, "--model", "m.pate", "--out", f"p {name}", cwd=towns).returncode == 0
    whole, broken = (pd.read_csv(towns / f"p {name}") for name in ("rows utf-8.csv", "broken.csv"))
    pd.testing.assert_frame_equal(broken[:-1], whole)
    done = pate("predict", "other.csv", "--model", "m.pate", "--encoding", "mac_roman", "--out", "o.csv", cwd=towns)
    assert done.returncode == 0
    pd.testing.assert_frame_equal(pd.read_csv(towns / "o.csv"), whole)
