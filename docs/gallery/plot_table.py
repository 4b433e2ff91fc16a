"""
A table: probabilities, a threshold and a measured accuracy
===========================================================

You hold a table of patients whose diagnosis is private, and some rows without diagnosis
that you may show to anyone. You want a model, what it says of new patients, and how
often it is right, though you have no test rows that you may use.
"""

# %%
# A DataFrame goes in as it is. Here scikit-learn's breast cancer table plays the
# patients.
from sklearn.datasets import load_breast_cancer

table = load_breast_cancer(as_frame=True).frame.sample(frac=1, random_state=0)
diagnosis = table.pop("target").map({0: "malignant", 1: "benign"})
private, labels = table[:400], diagnosis[:400]
public = table[400:500]  # their diagnosis is not used
new, truth = table[500:], diagnosis[500:]

# %%
# ``measure=True`` asks the private records in the end how often the model is right
# about them: one noisy count, within the same budget.
from pate import Budget, PATEClassifier

clf = PATEClassifier(
    budget=Budget(3.0, delta=1e-4), classes=["benign", "malignant"], measure=True
)
clf = clf.fit(private, labels, X_public=public)
print(clf.statement_.headline)
print(clf.measured_)

# %%
# Probabilities are the released model's, so they are as public as the model. A
# threshold for a wanted recall comes from the public rows: it is an estimate, and free.
probability = clf.predict_proba(new)[:, list(clf.classes_).index("malignant")]
threshold = clf.threshold("malignant", recall=0.95)
found = (probability >= threshold)[truth == "malignant"].mean()
print(f"from probability {threshold:.2f} on: {found:.1%} of malignant ones are found")

# %%
# To the left, what the model says of new patients. To the right, the measured accuracy
# with its 95% interval. On real data you have that alone; here the new patients'
# diagnosis is known, and shows whether it is right. From files: :doc:`/docs/start`.
import matplotlib.pyplot as plt
import numpy as np

right = clf.score(new, truth)
majority = (truth == "benign").mean()
error = 1.96 * np.sqrt(right * (1 - right) / len(new))
measured = clf.measured_

fig, (left, side) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
parts = [probability[truth == name] for name in clf.classes_]
left.hist(parts, bins=np.linspace(0, 1, 21), stacked=True, label=list(clf.classes_))
left.axvline(threshold, color="black", linestyle="--", label="threshold for recall 95%")
left.set(xlabel="probability of malignant", ylabel="new patients")
left.legend(loc="upper center")
below, above = measured.estimate - measured.low, measured.high - measured.estimate
side.errorbar([0], [measured.estimate], [[below], [above]], fmt="o", capsize=6)
side.errorbar([1], [right], error, fmt="o", capsize=6)
side.axhline(majority, color="gray", linestyle=":", label="always benign")
side.set_xticks([0, 1], ["measured,\nwithin the budget", f"on {len(new)} new patients"])
side.set(xlim=(-0.5, 1.5), ylim=(0.5, 1.02), ylabel="right")
side.legend(loc="lower left")

assert right > majority + 0.05, "the model knows more than the commonest diagnosis"
assert measured.low - 0.1 < right < measured.high + 0.1, "what is measured is about so"
