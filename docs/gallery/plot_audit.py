"""
Try to refute a claim
=====================

An epsilon is a promise with a proof, about what a program should do. An audit looks at
what it does: an attacker sees the releases of two neighbouring data sets, and tells
them apart as well as they can. If they succeed more often than epsilon allows, the
promise is false.
"""

# %%
# The promise: GNMax with noise 20 answers 100 queries. The worst case for it is a tie
# in every query, where one teacher decides: that pair of worlds is made up, so nothing
# here is private.
import numpy as np

from pate import GNMax
from pate.audit import game

n_queries, delta = 100, 1e-5
claim = GNMax(sigma=20.0).charge(n_queries)
one_world = np.tile([50, 50], (n_queries, 1))
other_world = np.tile([49, 51], (n_queries, 1))
print(f"promised: epsilon {claim.guarantee(delta).epsilon:.2f} at delta {delta:g}")

# %%
# Two programs claim to keep it. One draws the noise that it says. The other has a bug:
# its noise is 8, not 20. The attacker counts how often the second class wins.
SIGMA = {"honest": 20.0, "with a bug": 8.0}


def program(sigma):
    """Return a program that answers all queries, so many times over."""

    def run(counts, seed, size):
        noise = np.random.default_rng(seed).normal(0, sigma, (size, *counts.shape))
        return (counts + noise).argmax(axis=2)

    return run


def wins(answers):
    """Return the attacker's score of each run."""
    return answers.sum(axis=1)


found = {
    name: game(
        program(sigma),
        one_world,
        other_world,
        claim=claim,
        score=wins,
        n_runs=40_000,
        batch=2000,
        early_stop=False,
        random_state=0,
        published=True,
    )
    for name, sigma in SIGMA.items()
}
for name, result in found.items():
    print(f"{name}: the claim is {'refuted' if result.refuted else 'not refuted'}")

# %%
# The picture that ``result.plot()`` draws: whom the attacker accuses wrongly, against
# whom they find. The dashed line is the most that the claim allows. A curve above it by
# more than its band refutes the claim. A curve below it **proves nothing**: another
# attacker may do better. More: :doc:`/docs/audit`.
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
for ax, (name, result) in zip(axes, found.items(), strict=True):
    result.plot(ax=ax)
    ax.get_legend().remove()
    ax.set_title(f"{name}: {'refuted' if result.refuted else 'not refuted'}")
axes[0].legend(loc="lower right", fontsize="small")

assert not found["honest"].refuted, "false alarms: one in a million"
assert found["with a bug"].refuted, "such a bug is found"
