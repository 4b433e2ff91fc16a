"""
Protect persons, not rows
=========================

A patient with twelve visits has twelve rows. If each row is protected for itself, the
patient is protected much less. ``groups=`` protects all of a person's rows together.
What does that cost?
"""

# %%
# 3,600 made-up private rows. They belong to 3,600 persons, or to 1,200 with three rows
# each, or to 300 with twelve.
import numpy as np
from sklearn.datasets import make_classification

X, y = make_classification(
    n_samples=6_000, n_features=10, n_informative=6, n_classes=4, random_state=1
)
private, labels, public = X[:3600], y[:3600], X[3600:4000]
new, truth = X[4000:], y[4000:]
rows_each = [1, 3, 12]

# %%
# Epsilon 1 for a row is not epsilon 1 for a person. The noise of record voters is
# Gaussian: with k rows of theirs replaced, the sum moves up to k times as far. So the
# privacy parameter mu of a row becomes k mu for the person.
from pate import Budget, PATEClassifier
from pate.privacy import gdp_from_budget, gdp_to_epsilon

delta = 1e-5
mu = gdp_from_budget(1.0, delta)
for_a_person = [gdp_to_epsilon(k * mu, delta) for k in rows_each]
for k, epsilon in zip(rows_each, for_a_person, strict=True):
    print(f"rows of a person: {k:2}; epsilon of the person: {epsilon:.1f}")


# %%
# With ``groups=`` a person has epsilon 1, however many rows they have: all their rows
# together are bounded as one ballot. (On records that matter you fit once: every fit is
# a release.)
def scores(groups):
    """Fit three times, and say how often each model is right on new rows."""
    budget = Budget(1.0, delta)
    fits = [PATEClassifier(budget=budget, classes=range(4)) for _ in range(3)]
    for clf in fits:
        clf.fit(private, labels, X_public=public, groups=groups)
    print(fits[0].statement_.headline)
    return [clf.score(new, truth) for clf in fits]


by_rows = scores(None)
by_persons = [scores(np.arange(3600) // k) for k in rows_each]

# %%
# Both models are useful. The one without ``groups`` looks better, since it promises
# less. More: :doc:`/docs/persons`.
import matplotlib.pyplot as plt

fig, (left, side) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
places = np.arange(len(rows_each))
left.plot(places, for_a_person, "s-", color="C1", label="rows protected")
left.plot(places, [1.0] * len(places), "o-", color="C0", label="persons protected")
left.set(yscale="log", ylabel="epsilon of a person", ylim=(0.5, None))
side.axhline(np.mean(by_rows), color="C1")
side.plot(places, np.mean(by_persons, axis=1), color="C0")
side.plot(places, by_persons, "o", color="C0", alpha=0.6)
side.axhline(0.25, color="gray", linestyle=":")
side.set(ylabel="right on new rows", ylim=(0, 1))
for ax in (left, side):
    ax.set_xticks(places, [str(k) for k in rows_each])
    ax.set_xlabel("rows of each person")
left.legend(loc="upper left")

assert np.mean(by_persons[-1]) > 0.35, "300 persons still teach more than a guess"
assert for_a_person[-1] > 10, "rows alone would leave these persons nearly unprotected"
