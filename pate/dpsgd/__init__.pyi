"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._calibration import SMALLEST_NOISE_MULTIPLIER as SMALLEST_NOISE_MULTIPLIER
from ._canaries import Canaries as Canaries, CanaryScores as CanaryScores
from ._checkpoint import Checkpoint as Checkpoint, FILE as FILE, FORM as FORM, paid_facts as paid_facts
from ._classifier import DPSGDClassifier as DPSGDClassifier
from ._fit import (
    facts_of as facts_of,
    fit_privately as fit_privately,
    linear_weights as linear_weights,
    made_up as made_up,
)
from ._measured import with_counts as with_counts
from ._optimizers import (
    DPAdamBC as DPAdamBC,
    ExponentialAveraging as ExponentialAveraging,
    LearningRateSchedule as LearningRateSchedule,
    Optimizer as Optimizer,
    TailAveraging as TailAveraging,
)
from ._regressor import DPSGDRegressor as DPSGDRegressor
from ._rows import check_apart as check_apart, read_records as read_records
from ._run import TrainingStep as TrainingStep
from ._settings import (
    along as along,
    check_recipe as check_recipe,
    check_settings as check_settings,
    filled as filled,
    is_planned as is_planned,
    read_clipping as read_clipping,
    read_mechanism as read_mechanism,
    resolve as resolve,
    shape_of as shape_of,
)
from ._statement import Plan as Plan, dpsgd_statement as dpsgd_statement, make_plan as make_plan, priced as priced
from ._target import with_sums as with_sums
from ._units import ImageAugmentation as ImageAugmentation
from ._values import Device as Device, SampledGaussian as SampledGaussian, flat as flat, valued as valued
