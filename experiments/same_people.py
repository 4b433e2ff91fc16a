"""How often does a ledger take other people for its own, and its own for others, when another ledger is begun beside it?

    python experiments/same_people.py

Pairs of tables of which the one stands in a ledger: disjoint halves of one population (other people), the same rows but
one or but a tenth, and unrelated tables whose ids both count from 0. "share" is what the ledger estimates; from a half
on it asks. Needs the named data sets.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pate.core.provenance import provenance
from pate.data import load_dataset, recognised_by
from pate.ledger._beside import LARGELY
from pate.ledger._registration import overlap, sealed_sketch

KEY = bytes(32)


@dataclass(frozen=True)
class Config:
    """Everything that decides the table."""

    datasets: tuple[str, ...] = ("adult", "diabetes130", "spambase", "pendigits", "optdigits", "mnist")
    n_splits: int = 20
    n_rows: int = 10_000


def known(rows, labels, owners=None):
    return recognised_by(rows, np.asarray(labels, dtype=np.int64), owners)["sketch"]


def pairs(X, y, rng):
    """Yield pairs of sketches by what they are of."""
    order, half = rng.permutation(len(y)), len(y) // 2
    one, two = order[:half], order[half : 2 * half]
    take = X.iloc if hasattr(X, "iloc") else X
    count = np.arange(half)
    yield "other people of one population", known(take[one], y[one]), known(take[two], y[two])
    yield "the same, both with ids from 0", known(take[one], y[one], count), known(take[two], y[two], count)
    yield "one row less", known(take[one], y[one]), known(take[one[1:]], y[one[1:]])
    tenth = rng.permutation(one)[half // 10 :]
    yield "nine tenths, shuffled", known(take[one], y[one]), known(take[tenth], y[tenth])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results") / "same_people.json")
    parser.add_argument("--smoke", action="store_true", help="one small data set, once: does it run?")
    given, config, rows = parser.parse_args(), Config(), []
    if given.smoke:
        config = Config(("spambase",), 1, 1000)
    for name in config.datasets:
        data = load_dataset(name)
        X, y = data.private.X, np.asarray(data.private.y)
        shares: dict[str, list[float]] = {}
        for seed in range(config.n_splits):
            rng = np.random.default_rng(seed)
            some = rng.permutation(len(y))[: config.n_rows]
            for what, a, b in pairs(X.iloc[some] if hasattr(X, "iloc") else X[some], y[some], rng):
                shares.setdefault(what, []).append(overlap(KEY, sealed_sketch(KEY, a), b))
        for what, found in shares.items():
            asked = sum(share >= LARGELY for share in found)
            rows.append({"dataset": name, "pair": what, "pairs": len(found), "asked": asked,
                         "least": min(found), "largest": max(found)})  # fmt: skip
            print(f"| {name} | {what} | {asked} of {len(found)} | {min(found):.3f} to {max(found):.3f} |")
    if not given.smoke:
        given.out.write_text(json.dumps({"config": asdict(config), "rows": rows, **provenance()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
