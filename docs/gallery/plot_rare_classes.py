"""
Rare classes: which share of them is found
==========================================

One record in twenty is of a class that matters. A model that never names that class is
right 95% of the time, and useless. What does ``decide="balanced"`` change, and what
does a small budget cost the rare ones?
"""

# %%
# Made-up records of three classes: 80%, 15% and 5% of all.
from sklearn.datasets import make_classification

X, y = make_classification(
    n_samples=8_000,
    n_features=10,
    n_informative=6,
    n_classes=3,
    weights=[0.8, 0.15, 0.05],
    class_sep=0.9,
    random_state=3,
)
names = ["common", "seldom", "rare"]
private, labels, public = X[:5000], y[:5000], X[5000:5500]
new, truth = X[5500:], y[5500:]

# %%
# ``"likeliest"`` takes the most probable class, ``"balanced"`` the one whose
# probability is largest relative to its mean over the public rows. Both cost the same.
# ``measure="by class"`` also releases the recall of each class, counted on the private
# records with noise.
from sklearn.metrics import recall_score

from pate import Budget, PATEClassifier

budgets, ways = [0.5, 4.0], ["likeliest", "balanced"]
recall, overall, measured = {}, {}, {}
for epsilon in budgets:
    for decide in ways:
        clf = PATEClassifier(
            budget=Budget(epsilon, delta=1e-5),
            classes=range(3),
            decide=decide,
            measure="by class",
        ).fit(private, labels, X_public=public)
        case = epsilon, decide
        recall[case] = recall_score(truth, clf.predict(new), average=None)
        overall[case] = clf.score(new, truth)
        measured[case] = clf.measured_
        print(f"epsilon {epsilon:g}, {decide}: right on {overall[case]:.1%} of all")

# %%
# What the private records say of the last model, in its own words:
print(measured[4.0, "balanced"])
for one in measured[4.0, "balanced"].by_class:
    print(one)

# %%
# Bars: recall on new rows. ``"balanced"`` finds more of the rare class and fewer of the
# common one; the legend says which share of all rows is right. It is for you to
# choose before you look. More: :doc:`/docs/imbalance`.
import matplotlib.pyplot as plt
import numpy as np

fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, epsilon in zip(axes, budgets, strict=True):
    for place, decide in zip((-0.2, 0.2), ways, strict=True):
        label = f"{decide}, right on {overall[epsilon, decide]:.0%}"
        ax.bar(np.arange(3) + place, recall[epsilon, decide], width=0.4, label=label)
    ax.set_xticks(range(3), names)
    ax.set(ylim=(0, 1.25), title=f"epsilon {epsilon:g}")
    ax.legend(loc="upper right")
axes[0].set_ylabel("share found (recall)")

assert recall[4.0, "balanced"][2] > recall[4.0, "likeliest"][2], "more rare ones found"
assert overall[4.0, "balanced"] > 0.5, "and still right mostly"
