"""How often is a ledger wrong about whether the people of another one are its own.

    python experiments/same_people.py

Pairs of tables of which the one stands in a ledger: disjoint halves of one population (other people), the same rows but
one or but a tenth, and halves whose ids both count from 0. "share" is what the ledger estimates; from a half on it
asks which ledger is meant. Every table has as many records of every class as the other one. Needs the named data sets.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pate import Budget, Ledger
from pate._core.provenance import provenance
from pate.data import load_dataset, recognised_by
from pate.ledger import Registration


@dataclass(frozen=True)
class Config:
    """Everything that decides the table."""

    datasets: tuple[str, ...] = ("adult", "diabetes130", "spambase", "pendigits", "optdigits", "mnist")
    n_splits: int = 20
    n_rows: int = 4_000


def known(rng, rows, owners=None):
    """Return what a ledger is given of these records, half of them of either class, in any order."""
    n = len(rows)
    found = recognised_by(rows, rng.permutation(np.arange(n) % 2), owners)
    return Registration("record" if owners is None else "group", (0, 1), n_units=n, **found)


def compared(folder, one, two):
    """Return the share that a ledger of the one estimates of the other, and whether a second ledger asks."""
    ledger = Ledger(folder / "one.sqlite", total=Budget(1.0, 1e-5))
    ledger.register(one)
    return ledger.overlap(two), bool(Ledger(folder / "two.sqlite").check_beside("two", two))


def pairs(X, rng):
    """Yield pairs of data sets by what they are."""
    order, half = rng.permutation(len(X)), len(X) // 2
    one, two = order[:half], order[half : 2 * half]
    take = X.iloc if hasattr(X, "iloc") else X
    count = np.arange(half)
    yield "other people of one population", known(rng, take[one]), known(rng, take[two])
    yield "other people, both with ids from 0", known(rng, take[one], count), known(rng, take[two], count)
    yield "one row less", known(rng, take[one]), known(rng, take[one[1:]])
    tenth = rng.permutation(one)[half // 10 :]
    yield "nine tenths, shuffled", known(rng, take[one]), known(rng, take[tenth])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results") / "same_people.json")
    parser.add_argument("--smoke", action="store_true", help="one small data set, once: does it run?")
    given, config, rows = parser.parse_args(), Config(), []
    if given.smoke:
        config = Config(("spambase",), 1, 1000)
    for name in config.datasets:
        X = load_dataset(name).private.X
        found: dict[str, list[tuple[float, bool]]] = {}
        for seed in range(config.n_splits):
            rng = np.random.default_rng(seed)
            some = rng.permutation(len(X))[: config.n_rows]
            for what, one, two in pairs(X.iloc[some] if hasattr(X, "iloc") else X[some], rng):
                with tempfile.TemporaryDirectory() as folder:
                    found.setdefault(what, []).append(compared(Path(folder), one, two))
        for what, pair in found.items():
            shares, asked = [share for share, _ in pair], sum(ask for _, ask in pair)
            rows.append({"dataset": name, "pair": what, "pairs": len(pair), "asked": asked,
                         "least": min(shares), "largest": max(shares)})  # fmt: skip
            print(f"| {name} | {what} | {asked} of {len(pair)} | {min(shares):.3f} to {max(shares):.3f} |")
    if not given.smoke:
        given.out.write_text(json.dumps({"config": asdict(config), "rows": rows, **provenance()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
