"""How the contestants' rules were found: counted where there is something to count (docs/comparison.md)."""

from __future__ import annotations

from pate.comparison.contract import Tuning

#: Settings named in docs/research-log.md on whose account the records' rule is as it is, section by section; what was
#: tried and not written down is not in it.
_RECORDS = {
    "ballots": 19,
    "representations": 27,
    "heads": 20,
    "residual rounds": 13,
    "self-supervision": 4,
    "trees": 50,
    "students": 63,
}
#: "Best of a dozen" for linear DP-SGD on scattering (docs/accuracy.md); six for digits (experiments/README.md).
#: How many kernels and components were tried for the table presets was not written down.
_DPSGD = {"scattering": 12, "digits": 6}

RECORDS = Tuning(
    rule="pate's rule for record voters, from public facts (docs/record-recipes.md)",
    n_tried=sum(_RECORDS.values()),
    on="splits of training parts (digits, optdigits, pendigits, spambase, Adult, MNIST, Fashion-MNIST) and made "
    "tables; at least so many, as far as the research log names them",
)
DPSGD = Tuning(
    rule="DP-SGD's planner, from public facts (docs/dpsgd-recipes.md)",
    n_tried=sum(_DPSGD.values()),
    on="splits of private parts of digits, Adult, pendigits, MNIST and Fashion-MNIST, and digits itself; at least so "
    "many, as far as they were written down",
)
#: 4, 10 or 20 records to a teacher, noise of 0.16 or 0.3 of the votes, label spreading or the teachers' kind.
_SHARDS = 10
PATE_2018 = Tuning(
    rule="the rows of pate plan at the paper's share of noise, 250 teachers or one for every 20 records",
    n_tried=_SHARDS,
    on="one split each of the private parts of digits and pendigits, epsilon 1 and 3",
)
#: As many components as the evidence bears, or all.
_ON_PUBLIC = 2
DPSGD_ON_PUBLIC = Tuning(
    rule="DP-SGD's planner, from public facts, on PATE's representation",
    n_tried=sum(_DPSGD.values()) + _ON_PUBLIC,
    on=f"what DP-SGD's presets were tried on; {_ON_PUBLIC} ways to take PATE's representation on one split each of the "
    "private parts of digits and pendigits, epsilon 0.5, 1 and 3",
)
#: The rule for images or for tables, with a student or without.
_WITHOUT_NETWORKS = 3
FAST = Tuning(
    rule=RECORDS.rule,
    n_tried=RECORDS.n_tried + _WITHOUT_NETWORKS,
    on=f"{RECORDS.on}; {_WITHOUT_NETWORKS} ways to take scattering on one split each of 23,000 private rows of "
    "MNIST and Fashion-MNIST, epsilon 0.1, 0.5, 1 and 3",
)
#: Of the settings of private kNN; those of the sparse vector come from a law of distances (docs/rivals.md).
_RIVALS = 451
RIVALS = Tuning(
    rule="a rule of its own, from public facts (docs/rivals.md)",
    n_tried=_RIVALS,
    on="splits of training parts of digits, optdigits and pendigits; combinations of data set and setting, for private "
    "kNN and the sparse vector together",
)
NOTHING = Tuning(rule="nothing to set")
