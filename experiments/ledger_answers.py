"""How many answers one budget buys: without a ledger, with one, and with one that counts mu^2.

    python experiments/ledger_answers.py

Public numbers only: no votes are looked at. "one release" asks for everything at once; "tens" asks for ten at a time,
each batch decided after the last (the adaptive use that a ledger is for), until the ledger says no.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from pate import Budget, ConfidentGNMax, GNMax, Ledger, LNMax, NoisyHistogram, quote
from pate._core.provenance import provenance


@dataclass(frozen=True)
class Config:
    """Everything that decides the table."""

    epsilons: tuple[float, ...] = (0.5, 1.0, 2.598, 8.0)
    delta: float = 1e-5
    batch: int = 10
    #: Name, mechanism, how many queries one would like to ask (Confident: of 640, the cap is what the budget buys).
    plans: tuple = (
        ("NoisyHistogram(40)", NoisyHistogram(40.0), 5000),
        ("GNMax(40)", GNMax(40.0), 5000),
        ("LNMax(20)", LNMax(20.0), 1000),
        ("ConfidentGNMax(200, 150, 40) of 640", ConfidentGNMax(200, 150, 40), 640),
    )


def one_release(mechanism, n, budget, folder, currency):
    """Return what one release buys: (answers without a ledger, answers with a fresh one, its currency)."""
    terms = {"budget": budget, "on_exhausted": "abstain"}
    alone = quote(n, mechanism, **terms)
    ledger = Ledger(Path(folder) / f"{currency}-one.sqlite", currency=currency)
    price = quote(n, mechanism, ledger=ledger, **terms)
    if price.n_queries:
        ledger.open_total(budget)
        ledger.record(price.charge, mechanism=str(mechanism), n_queries=price.n_queries)
    return alone.max_answers, price.max_answers, ledger.currency


def tens(mechanism, batch, budget, folder, currency):
    """Return how many answers batches of ``batch`` add up to before the ledger refuses one."""
    ledger = Ledger(Path(folder) / f"{currency}-tens.sqlite", total=budget, currency=currency)
    charge, left, paid = mechanism.charge(batch), ledger.remaining(), 0
    if left.allows(charge):
        ledger.record(charge, mechanism=str(mechanism), n_queries=batch)
        left, paid = ledger.remaining(), 1
        # The rest in memory, by the same rule: thousands of commits say nothing more.
        terms, prices = left.terms, list(left.prices)
        while not terms.refusal(prices, (), charge):
            prices.append(terms.currency.price(charge))
            paid += 1
    return paid * batch, ledger.currency


def table(config):
    """Return one row per mechanism and budget."""
    rows = []
    for name, mechanism, n in config.plans:
        for epsilon in config.epsilons:
            budget = Budget(epsilon, config.delta)
            with tempfile.TemporaryDirectory() as folder:
                alone, with_ledger, currency = one_release(mechanism, n, budget, folder, None)
                _, by_gdp, _ = one_release(mechanism, n, budget, folder, "gdp")
                row = {"mechanism": name, "asked": n, "epsilon": epsilon, "without": alone, "with": with_ledger}
                row |= {"currency": currency, "counting_mu_squared": by_gdp}
                if not mechanism.may_refuse:
                    in_tens, their_currency = tens(mechanism, config.batch, budget, folder, None)
                    tens_by_gdp, _ = tens(mechanism, config.batch, budget, folder, "gdp")
                    row |= {"tens": in_tens, "tens_currency": their_currency, "tens_counting_mu_squared": tens_by_gdp}
                rows.append(row)
    return rows


def show(rows):
    head = (
        f"{'mechanism':<37}{'eps':>7}{'without':>9}{'with':>7}  {'currency':<10}{'by mu^2':>8}{'tens':>7}{'by mu^2':>9}"
    )
    print(head)
    for r in rows:
        tens_cells = f"{r['tens']:>7}{r['tens_counting_mu_squared']:>9}" if "tens" in r else ""
        print(
            f"{r['mechanism']:<37}{r['epsilon']:>7g}{r['without']:>9}{r['with']:>7}  {r['currency'] or '-':<10}"
            f"{r['counting_mu_squared']:>8}{tens_cells}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one budget: does it run?")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results") / "ledger_answers.json")
    given = parser.parse_args()
    config = Config(epsilons=(1.0,)) if given.smoke else Config()
    rows = table(config)
    show(rows)
    if given.smoke:
        return
    settings = {**asdict(config), "plans": [[name, str(mechanism), n] for name, mechanism, n in config.plans]}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"config": settings, "rows": rows, **provenance()}, indent=2) + "\n")
    print(f"\nWrote {given.out}")


if __name__ == "__main__":
    main()
