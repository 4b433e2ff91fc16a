"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._by_dpsgd import (
    Ask as Ask,
    ByRecords as ByRecords,
    TrainingPlan as TrainingPlan,
    begun_run as begun_run,
    check_likeliest as check_likeliest,
    check_schema as check_schema,
    chosen_voters as chosen_voters,
    len_of as len_of,
    measured_with as measured_with,
    method_of as method_of,
    plan_records as plan_records,
    plan_training as plan_training,
    stand_ins as stand_ins,
)
from ._classifier import PATEClassifier as PATEClassifier
from ._multilabel import (
    PATEMultilabelClassifier as PATEMultilabelClassifier,
    about_labels as about_labels,
    registration_of_labels as registration_of_labels,
)
from ._public_model import digest_of as digest_of
from ._public_rows import (
    FEWEST_PUBLIC as FEWEST_PUBLIC,
    OVERLAP as OVERLAP,
    any_rows as any_rows,
    public_rows as public_rows,
    tiers_of as tiers_of,
)
from ._queries import Queries as Queries
from ._regressor import (
    PATERegressor as PATERegressor,
    about_numbers as about_numbers,
    registration_of_numbers as registration_of_numbers,
)
