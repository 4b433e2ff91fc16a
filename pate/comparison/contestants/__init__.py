"""Contestants by name, each set per budget by a public rule (docs/comparison.md).

Examples
--------
One's own beside them is a function of a public :class:`~pate.comparison.contract.Setting`:

>>> from pate import Budget, DPSGDClassifier, load_dataset
>>> from pate.comparison.contestants import named
>>> from pate.comparison.contract import Contestant, Setting, Tuning
>>> from pate.representations import PublicPCA
>>> def ours(setting):
...     return DPSGDClassifier(budget=setting.budget, classes=setting.classes, random_state=setting.seed,
...                            representation=setting.fitted(PublicPCA(16)))
>>> contestant = Contestant("ours", ours, side="DP-SGD", tuning=Tuning("16 components", n_tried=4, on="our 2024 data"))
>>> data = load_dataset("digits", n_private=300, n_public=100)
>>> setting = Setting.of(data, contestant, budget=Budget(1.0, 1e-4), seed=0)
>>> model = contestant.make(setting).fit(data.private.X, data.private.y, X_public=data.public.X)
>>> model.statement_.guarantee.epsilon <= 1.0, [c.name for c in (*named(["pate", "dpsgd"]), contestant)]
(True, ['pate', 'dpsgd', 'ours'])
"""

from pate.comparison.contestants._named import NAMES, default_contestants, named

__all__ = ["NAMES", "default_contestants", "named"]
