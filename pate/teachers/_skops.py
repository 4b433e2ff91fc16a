"""scikit-learn teachers as bytes: a skops file (no pickle) behind a seal.

Once the seal fits, skops builds only the types it deems safe and the ones named in :data:`TRUSTED_TYPES`, one by one.

The fitted trees of scikit-learn are in the list although skops leaves them out (indices in a crafted tree are followed
unchecked, and can crash the process): only files that pass the seal come that far.
"""

from __future__ import annotations

from typing import Any

from pate.core.skops import HARMLESS, pack_estimator, unpack_estimator
from pate.teachers._seal import DamagedCheckpointError, opened, sealed

#: Fitted state of scikit-learn's own classifiers and transformers beside what is harmless to everybody: data holders
#: and pure functions only, each by its full name.
TRUSTED_TYPES: tuple[str, ...] = (
    *HARMLESS,
    "pate.teachers._classes.OwnClasses",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.impute._iterative.IterativeImputer",
    "sklearn.impute._iterative._ImputerTriplet",
    "sklearn.metrics._classification.accuracy_score",
    "sklearn.metrics._dist_metrics.ChebyshevDistance64",
    "sklearn.metrics._dist_metrics.EuclideanDistance32",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.metrics._dist_metrics.MinkowskiDistance64",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.model_selection._split.StratifiedShuffleSplit",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
)


def pack(model: Any, key: bytes) -> bytes:
    """Return a fitted teacher as sealed bytes.

    Raises
    ------
    InvalidInputError
        The teacher holds something that could not be read back safely.
    """
    data = pack_estimator(
        model,
        trusted=TRUSTED_TYPES,
        refusal=f"checkpoint_dir cannot keep {type(model).__name__}",
        remedy="Use checkpoint_dir=None, or an estimator made of scikit-learn's own parts.",
    )
    return sealed(data, key)


def unpack(packed: bytes, key: bytes) -> Any:
    """Return the teacher in sealed bytes; the seal is checked before anything is parsed."""
    data = opened(packed, key)
    try:
        return unpack_estimator(data, trusted=TRUSTED_TYPES)
    except Exception as error:  # any way in which a parser may fail means the same thing here
        raise DamagedCheckpointError(f"skops refuses it ({type(error).__name__})") from None
