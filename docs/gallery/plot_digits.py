"""
Digits: accuracy against epsilon
================================

You hold 1,200 images of digits with private labels, and 300 images without labels that
you may show to anyone. How good is a model that you may publish, and how much better
would it be without privacy?
"""

# %%
# The data ship with scikit-learn. They stand in the order of their writers, so they are
# shuffled first: public rows should be drawn as the private ones are.
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

X, y = load_digits(return_X_y=True)
X, y = shuffle(X / 16, y, random_state=0)
private, labels = X[:1200], y[:1200]
public = X[1200:1500]  # no labels are needed here
new, truth = X[1500:], y[1500:]  # to see how good the models are

# %%
# One fit is one release: it spends the budget that you give it, and asking the model
# afterwards is free. ``classes`` is public knowledge, never read off the private
# labels.
from pate import Budget, PATEClassifier


def fitted(epsilon):
    """Spend so much epsilon, once."""
    clf = PATEClassifier(
        budget=Budget(epsilon, delta=1e-5), classes=range(10), image_shape=(8, 8)
    )
    return clf.fit(private, labels, X_public=public)


clf = fitted(1.0)
print(clf.statement_.headline)
print(f"right on {clf.score(new, truth):.1%} of {len(new)} new images")

# %%
# Now the same for several budgets, five fits each, as noise is drawn anew in each fit.
# **Do not do this on records that matter**: every fit is a release, and all of them
# together cost more than any one. Digits are no secret.
epsilons = [0.3, 1, 3, 10]
scores = [[fitted(epsilon).score(new, truth) for _ in range(5)] for epsilon in epsilons]

from sklearn.linear_model import LogisticRegression

no_privacy = LogisticRegression(max_iter=1000).fit(private, labels).score(new, truth)
commonest = max(sum(truth == digit) for digit in range(10)) / len(truth)

# %%
# Each dot is one fit. The smaller epsilon is, the more of what 1,200 records know is
# hidden by noise; with more records you would lose less. More: :doc:`/docs/accuracy`.
import matplotlib.pyplot as plt
import numpy as np

mean = np.mean(scores, axis=1)
fig, ax = plt.subplots(layout="constrained")
ax.plot(epsilons, mean, color="C0", label="PATE, mean of five fits")
ax.plot(epsilons, scores, "o", color="C0", alpha=0.4)
ax.axhline(no_privacy, color="C1", label="logistic regression, no privacy")
ax.axhline(commonest, color="gray", linestyle=":", label="always the commonest digit")
ax.set(xscale="log", xlabel="epsilon (delta = 1e-5)", ylabel="right on new images")
ax.set(ylim=(0, 1), title="1,200 private images, 300 public ones")
ax.set_xticks(epsilons, [str(epsilon) for epsilon in epsilons])
ax.legend(loc="lower right")

assert mean[0] < mean[-1], "a larger budget is of use"
assert commonest + 0.2 < mean[1], "epsilon 1 teaches far more than nothing"
