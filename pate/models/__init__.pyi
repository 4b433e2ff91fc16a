"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._numbers import NumbersPlan as NumbersPlan
from ._regression import (
    AnswersNumbers as AnswersNumbers,
    MappedNumber as MappedNumber,
    NumberRelease as NumberRelease,
    RegressionModel as RegressionModel,
    RegressionPlan as RegressionPlan,
    as_frame as as_frame,
    keep_mapped_number as keep_mapped_number,
    keep_regression as keep_regression,
    made_of_mapped_number as made_of_mapped_number,
    made_of_regression as made_of_regression,
    read_mapped_number as read_mapped_number,
    read_regression as read_regression,
    write_kept as write_kept,
    write_number as write_number,
)
from ._labels import LabelsPlan as LabelsPlan
from ._several import (
    SeveralModel as SeveralModel,
    SeveralPlan as SeveralPlan,
    SeveralRelease as SeveralRelease,
    keep_several as keep_several,
    labels_frame as labels_frame,
    made_of_several as made_of_several,
    proba_names as proba_names,
    read_several as read_several,
)
from ._synthetic import SyntheticPlan as SyntheticPlan
