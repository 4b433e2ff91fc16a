"""DP-SGD set up for a named data set, and how many public rows one is cut with."""

from __future__ import annotations

from typing import Any

from pate.core.checks import check_choice
from pate.data import Dataset
from pate.privacy.budget import Budget

MODULES = ("auto", "linear", "tanh-mlp", "tanh-cnn", "none")

#: Steps of the baseline by module: the linear and mlp ones by its defaults, the cnn in fewer, larger batches.
_DPSGD: dict[str, dict[str, Any]] = {"tanh-cnn": {"epochs": 5, "expected_batch_size": 1024, "learning_rate": 0.5}}


#: Of a small data set more than the usual share is public: scikit-learn's digits have so many public rows here.
_PUBLIC_ROWS = {"digits": 400}


def public_rows(dataset: str) -> int | None:
    """Return how many public rows a data set is cut with where nobody says; None: :func:`pate.load_dataset`'s share.

    Examples
    --------
    >>> public_rows("digits"), public_rows("adult")
    (400, None)
    """
    return _PUBLIC_ROWS.get(dataset.replace("-", "_").lower())


def make_dpsgd(
    module: str, data: Dataset, budget: Budget, *, random_state: int | None = None, verbose: bool = False
) -> Any:
    """Return an unfitted DP-SGD classifier for class indices of a data set.

    Parameters
    ----------
    module : {"auto", "linear", "tanh-mlp", "tanh-cnn"}
        ``"auto"`` leaves everything to DP-SGD's own planner (:mod:`pate.dpsgd.recipes`), which wants the rows as they
        are and ``X_public``; the others take encoded rows, and defaults by module.
    data : Dataset
    budget : Budget
    random_state : int or None
    verbose : bool

    Examples
    --------
    >>> from pate import load_dataset
    >>> make_dpsgd("linear", load_dataset("digits"), Budget(1.0, 1e-5)).expected_batch_size
    256
    """
    check_choice("dpsgd", module, MODULES[:-1])
    # Imported here: a run without the baseline does not need torch.
    from pate.dpsgd import DPSGDClassifier

    if module == "auto":
        return DPSGDClassifier(
            budget=budget,
            classes=range(len(data.classes)),
            image_shape=data.image_shape,
            device="auto",
            random_state=random_state,
            verbose=verbose,
        )
    options = {"expected_batch_size": 256, **_DPSGD.get(module, {})}
    groups = data.private.groups
    n_units = len(data.private.y) if groups is None else len(set(groups))
    options["expected_batch_size"] = min(options["expected_batch_size"], n_units)
    return DPSGDClassifier(
        module,
        budget=budget,
        classes=range(len(data.classes)),
        device="auto",
        random_state=random_state,
        verbose=verbose,
        **options,
    )
