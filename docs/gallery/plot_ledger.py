"""
Several releases from one budget
================================

A private table has one budget for its whole life. A ledger is a file that keeps it:
each release pays from it before anything is drawn, and what does not fit is refused.
"""

# %%
# Say the total before the first release. It can never be raised.
import tempfile
import warnings
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from pate import Budget, Ledger

X, y = load_digits(return_X_y=True)
X, y = shuffle(X / 16, y, random_state=0)
private, labels, public = X[:1200], y[:1200], X[1200:1500]

folder = tempfile.TemporaryDirectory()
ledger = Ledger(Path(folder.name) / "digits.ledger.sqlite", total=Budget(2.0, 1e-5))

# %%
# Then ask for one thing after another. What you ask may depend on what you have seen
# released. Both classifiers pay from the same file.
from pate import BudgetExceededError, DPSGDClassifier, PATEClassifier
from pate.exceptions import PrivacyParameterWarning

same = {"classes": range(10), "ledger": ledger}
asked = {
    "PATE, epsilon 0.5": PATEClassifier(budget=Budget(0.5, 1e-5), **same),
    "PATE, epsilon 1": PATEClassifier(budget=Budget(1.0, 1e-5), **same),
    "DP-SGD, epsilon 1": DPSGDClassifier(budget=Budget(1.0, 1e-5), **same),
    "PATE, epsilon 1.5": PATEClassifier(budget=Budget(1.5, 1e-5), **same),
    "the first again": PATEClassifier(budget=Budget(0.5, 1e-5), **same),
    "DP-SGD, epsilon 0.2": DPSGDClassifier(budget=Budget(0.2, 1e-5), **same),
}
spent, right, refused = [0.0], {}, {}
with warnings.catch_warnings(record=True, action="always") as told:
    for name, clf in asked.items():
        try:
            clf.fit(private, labels, X_public=public)
            right[name] = clf.score(X[1500:], y[1500:])
        except BudgetExceededError as error:
            refused[name] = str(error)
        spent.append(ledger.used_fraction)

# %%
# The fourth asks for more than is left. It is warned before anything is spent, and
# gets what is left. The same question again is answered from the ledger, for free. A
# new one is refused, and nothing is spent by that:
print(*[w.message for w in told if w.category is PrivacyParameterWarning])
print(*refused.values())

# %%
# Epsilons are not simply added: several releases cost less than the sum of theirs.
# More: :doc:`/docs/ledger`.
import matplotlib.pyplot as plt

print(f"the ledger is whole: {ledger.verify().ok}; {ledger.used_fraction:.0%} is used")
fig, ax = plt.subplots(figsize=(8.5, 4), layout="constrained")
for k, name in enumerate(asked):
    width = spent[k + 1] - spent[k]
    ax.barh(k, spent[k], color="lightgray")
    ax.barh(k, width, left=spent[k], color="C0")
    said = f"right on {right[name]:.0%}" if name in right else "refused"
    ax.text(spent[k + 1] + 0.01, k, said, va="center")
ax.axvline(1.0, color="black", linestyle="--")
ax.set_yticks(range(len(asked)), list(asked))
ax.invert_yaxis()
ax.set(xlim=(0, 1.3), xlabel="share of the total (epsilon 2); gray: spent before")

assert ledger.verify().ok
assert 0.5 < ledger.used_fraction <= 1, "never more than the total"
assert list(refused) == ["DP-SGD, epsilon 0.2"], "a new question does not fit any more"
folder.cleanup()
