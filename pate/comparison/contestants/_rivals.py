"""Other people's private methods, set by their own public rules."""

from __future__ import annotations

from typing import Any

from pate.comparison.contestants._maps import quick_representation
from pate.comparison.contract import Setting
from pate.rivals import PrivateKNN, SparseVectorPATE


def private_knn(setting: Setting) -> PrivateKNN:
    """Return private kNN; images are compared by scattering."""
    return PrivateKNN(**_said(setting))


def sparse_vector(setting: Setting) -> SparseVectorPATE:
    """Return the sparse-vector scheme; images are seen by scattering."""
    return SparseVectorPATE(**_said(setting), n_jobs=setting.n_jobs)


def _said(setting: Setting) -> dict[str, Any]:
    return {
        "budget": setting.budget,
        "classes": setting.classes,
        "image_shape": setting.image_shape,
        "representation": quick_representation(setting),
        "random_state": setting.seed,
        "noise_seed": setting.noise_seed,
    }
