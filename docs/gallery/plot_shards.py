"""
Teachers on shards: votes, noise and what an answer costs
=========================================================

PATE as it was first published: the private records are cut into shards, one teacher is
trained on each, and teachers vote on public rows. Only the noisy winner leaves. This
example looks behind the scenes, where only the curator may look.
"""

# %%
# 150 teachers, each with eight digits of its own. ``Votes`` are sensitive: they do not
# show themselves.
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import shuffle

from pate import Budget, GNMax, TeacherEnsemble, account, release_labels

X, y = load_digits(return_X_y=True)
X, y = shuffle(X / 16, y, random_state=0)
teachers = TeacherEnsemble(KNeighborsClassifier(1), n_teachers=150, classes=range(10))
votes = teachers.fit(X[:1200], y[:1200]).vote(X[1200:1320])
truth = y[1200:1320]
print(votes)

# %%
# GNMax adds Gaussian noise to every count and releases the class that then leads. Its
# price is public: a constant of noise and number of answers, whatever the votes are.
mechanism = GNMax(sigma=20.0)
release = release_labels(votes, mechanism, budget=Budget(10.0, 1e-5), max_answers=120)
print(release.guarantee)
right = (release.labels == truth).mean()
print(f"right on {right:.1%} of {len(truth)} public rows")

# %%
# Where teachers agree, an answer says less about any one of them than the worst case.
# How much less depends on the votes, so **the data-dependent epsilon is private
# itself**: it is for the curator's own eyes, and is never the figure to publish. It
# comes wrapped, and ``reveal()`` says on purpose that you look. Digits are no secret.
numbers = [10, 20, 40, 60, 80, 100, 120]
reports = [account(votes.take(range(n)), mechanism, delta=1e-5) for n in numbers]
public = [report.public.epsilon for report in reports]
dependent = [report.data_dependent.reveal().epsilon for report in reports]

# %%
# To the left, the votes on the row where teachers agree most, and where least, before
# any noise. In the middle, by how many votes the winner leads on every row. To the
# right, what the answers cost. More: :doc:`/docs/teachers`.
import matplotlib.pyplot as plt
import numpy as np

ordered = np.sort(votes.counts, axis=1)
lead = ordered[:, -1] - ordered[:, -2]
fig, (left, middle, side) = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for place, row, label in (
    (-0.2, lead.argmax(), "agree"),
    (0.2, lead.argmin(), "doubt"),
):
    left.bar(np.arange(10) + place, votes.counts[row], 0.4, label=f"teachers {label}")
left.set(xlabel="digit", ylabel="votes", xticks=range(10), title="two public rows")
left.legend()
middle.hist(lead, bins=20)
middle.axvline(20 * np.sqrt(2), color="black", linestyle="--", label="noise of a lead")
middle.set(xlabel="votes by which the winner leads", ylabel="public rows")
middle.set_title("private: for the curator")
middle.legend()
side.plot(numbers, public, "o-", label="public: to be stated")
side.plot(numbers, dependent, "s--", label="data-dependent: private")
side.set(xlabel="answers", ylabel="epsilon at delta = 1e-5", ylim=(0, None))
side.set_title("what answers cost")
side.legend()

assert right > 0.4, "noisy winners are mostly right"
assert all(d <= p for d, p in zip(dependent, public, strict=True)), "never above"
