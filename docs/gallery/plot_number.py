"""
A number, with an interval for each row
=======================================

Days in hospital, a price, an age: ``PATERegressor`` predicts a number, and says between
which two numbers it lies for nine rows in ten.
"""

# %%
# Made-up records of ten columns, of which five matter. (scikit-learn's diabetes table
# has 442 records. They are few for an interval: one in ten is held out to measure it.)
from sklearn.datasets import make_friedman1

X, y = make_friedman1(n_samples=12_000, n_features=10, noise=2.0, random_state=0)
private, numbers, public = X[:9000], y[:9000], X[9000:10000]
new, truth = X[10000:], y[10000:]

# %%
# The range is public knowledge, never the smallest and largest private number. Too wide
# costs little.
from pate import Budget, PATERegressor

reg = PATERegressor(Budget(3.0, delta=1e-5), target_range=(-50, 100))
reg = reg.fit(private, numbers, X_public=public)
value, low, high = reg.predict(new, return_interval=True)
print(reg.statement_.headline)
print(reg.measured_)

# %%
# Nine in ten is meant over rows that are drawn as the private ones were, not of every
# row by itself. Here the new rows' numbers are known, so it can be seen:
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

inside = (low <= truth) & (truth <= high)
ceiling = HistGradientBoostingRegressor(random_state=0).fit(private, numbers)
error, open_error = (np.abs(p - truth).mean() for p in (value, ceiling.predict(new)))
mean_error = np.abs(numbers.mean() - truth).mean()
print(f"{inside.mean():.1%} of {len(new)} new rows lie in their interval")
print(f"mean error {error:.2f}; of boosted trees without privacy {open_error:.2f};")
print(f"of one who always says the private mean {mean_error:.2f}")

# %%
# To the left, sixty new rows in the order of their predictions, each with its interval.
# To the right, how often the interval holds, from the lowest predictions to the
# highest: a model that is too simple somewhere would show it here. More:
# :doc:`/docs/numbers`.
import matplotlib.pyplot as plt

some = np.argsort(value[:60])
fig, (left, side) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.vlines(range(60), low[some], high[some], color="C0", alpha=0.4, label="interval")
left.plot(value[some], "_", color="C0", label="predicted")
for mask, color, label in ((inside, "C2", "true, inside"), (~inside, "C3", "outside")):
    at = np.flatnonzero(mask[some])
    left.plot(at, truth[some][at], ".", color=color, label=label)
left.set(xlabel="sixty new rows, by prediction", ylabel="number")
left.legend(loc="upper left")
tenths = np.array_split(np.argsort(value), 10)
side.bar(range(1, 11), [inside[rows].mean() for rows in tenths])
side.axhline(0.9, color="black", linestyle="--", label="nine in ten")
side.set(xlabel="tenth of new rows, by prediction", ylabel="in its interval")
side.set(ylim=(0, 1.15))
side.legend(loc="upper right")

assert error < 0.8 * mean_error, "better than the mean of all records"
assert 0.75 < inside.mean() <= 1, "the interval is about right"
