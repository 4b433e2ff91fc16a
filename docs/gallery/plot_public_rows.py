"""
How many public rows do you need?
=================================

Private records vote on public rows, so someone has to find such rows. How many are
enough, and what can you do if there are none?
"""

# %%
# 1,200 private digits, and up to 400 public ones without labels.
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

X, y = load_digits(return_X_y=True)
X, y = shuffle(X, y, random_state=0)
private, labels, public = X[:1200], y[:1200], X[1200:1600]
new, truth = X[1600:], y[1600:]

# %%
# With few public rows a warning says so, and here we keep it to show it. Below 20
# public rows records cannot vote, and DP-SGD learns from the records instead, by a
# public rule: ``voters_`` says who was chosen.
import warnings

from pate import Budget, PATEClassifier


def fitted(**public_side):
    """Spend epsilon 3 on the same records, with other public knowledge."""
    clf = PATEClassifier(budget=Budget(3.0, delta=1e-5), classes=range(10))
    return clf.fit(private, labels, **public_side)


numbers, scores, voters, said = [10, 20, 50, 100, 400], [], [], []
for n in numbers:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        fits = [fitted(X_public=public[:n]) for _ in range(2)]
    said += [
        str(one.message) for one in heard if "public rows make" in str(one.message)
    ]
    scores.append([clf.score(new, truth) for clf in fits])
    voters.append(fits[0].voters_)
print(said[0])

# %%
# **No public rows at all**: say what the columns may hold, as you know it without these
# records. A pixel here is a number from 0 to 16. Noisy sums over the private records
# then give synthetic rows, and the records vote on those, all within the same budget.
alone = fitted(schema=(0, 16))
without = alone.score(new, truth)
print(f"{alone.voters_} voted on {len(alone.synthetic_)} synthetic rows")

# %%
# Each dot is one fit. (On records that matter you fit once: every fit is a release.)
# More: :doc:`/docs/public-rows`.
import matplotlib.pyplot as plt
import numpy as np

mean, places = np.mean(scores, axis=1), np.arange(1, len(numbers) + 1)
fig, ax = plt.subplots(layout="constrained")
ax.plot(places, mean, color="C0")
for who, color in (("dpsgd", "C2"), ("records", "C0")):
    for k in [k for k, voter in enumerate(voters) if voter == who]:
        label = {"dpsgd": "DP-SGD", "records": "records vote on public rows"}[who]
        label = label if voters.index(who) == k else None
        ax.plot([places[k]] * 2, scores[k], "o", color=color, alpha=0.6, label=label)
ax.plot([0], [without], "s", color="C1", label="records vote on synthetic rows")
ax.axhline(without, color="C1", linestyle=":", linewidth=1)
ax.set_xticks([0, *places], ["none, a schema", *map(str, numbers)])
ax.set(xlabel="public rows", ylabel="right on new images", ylim=(0, 1))
ax.set_title("epsilon 3, 1,200 private images")
ax.legend(loc="lower right")

assert mean[-1] > mean[1], "400 public rows are better than 20"
assert without > 0.3, "a schema alone teaches far more than a guess, which is 0.1"
