"""
Several labels at once
======================

Patients have several diagnoses, articles several tags. One model for each label would
share the budget among them. ``PATEMultilabelClassifier`` takes one bounded ballot of
each record for all labels together.
"""

# %%
# Made-up records with six labels, some of them common and some rare.
import numpy as np

rng = np.random.default_rng(0)
names = ["A", "B", "C", "D", "E", "F"]
X = rng.normal(size=(9_000, 8))
weights = rng.normal(size=(8, 6))
noise = rng.normal(size=(9_000, 6))
Y = (X @ weights / 2 + 0.5 * noise > [0.0, 0.3, 0.6, 1.0, 1.3, 1.6]).astype(int)
private, labels, public = X[:6000], Y[:6000], X[6000:7000]
new, truth = X[7000:], Y[7000:]

# %%
# Two fits, to compare budgets. On records that matter you make one: each is a release.
# How good the labels are is measured on a tenth of the records, which is held out of
# the rest: F1 of each label, with a standard error.
from sklearn.metrics import f1_score

from pate import Budget, PATEMultilabelClassifier

models = {
    epsilon: PATEMultilabelClassifier(Budget(epsilon, delta=1e-5), labels=names).fit(
        private, labels, X_public=public
    )
    for epsilon in (1.0, 4.0)
}
print(models[4.0].measured_quality_)

# %%
# Ceiling and floor: a logistic regression for each label without any privacy, and
# labels given at random, as often as they occur (their F1 is the label's share).
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

open_model = MultiOutputClassifier(LogisticRegression()).fit(private, labels)
f1 = {
    f"epsilon {epsilon:g}": f1_score(truth, clf.predict(new), average=None)
    for epsilon, clf in models.items()
}
f1["no privacy"] = f1_score(truth, open_model.predict(new), average=None)
common = truth.mean(axis=0)

# %%
# Bars: F1 on new rows. Black: what was measured within the budget of epsilon 4, with
# twice its standard error; that is all you have where no labelled rows are left over.
# More: :doc:`/docs/labels`.
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for k, (name, values) in enumerate(f1.items()):
    ax.bar(np.arange(6) + 0.27 * (k - 1), values, width=0.27, label=name)
measured = models[4.0].measured_quality_.labels
known = [k for k, one in enumerate(measured) if one.f1 is not None]
ax.errorbar(
    known,
    [measured[k].f1 for k in known],
    [2 * measured[k].f1_error for k in known],
    fmt="ko",
    capsize=4,
    label="measured at epsilon 4",
)
ax.plot(common, "v", color="gray", label="at random")
ax.set_xticks(range(6), [f"{n}\n{c:.0%}" for n, c in zip(names, common, strict=True)])
ax.set(ylim=(0, 1.3), ylabel="F1", xlabel="label, and how many rows have it")
ax.legend(ncols=3, loc="upper center")

assert f1["epsilon 4"].mean() > common.mean() + 0.2, "better than at random"
assert f1["epsilon 4"].mean() > f1["no privacy"].mean() - 0.2, (
    "not far from the ceiling"
)
