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
    rule="pate's rule for record voters, from public facts (docs/choosing.md)",
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
#: The paper's own noise, in votes of 250 teachers, was chosen on the paper's data; here it follows from the budget.
PATE_2018 = Tuning(
    rule="as many teachers, queries and as much noise as a public rule says (pate.comparison.contestants._shards)",
)
NOTHING = Tuning(rule="nothing to set")
