"""Students: learn from released labels and unlabelled public data."""

from pate.models.students._fit import (
    check_is_student,
    default_student,
    fit_student,
    make_student,
    mapped_student,
    named_students,
    try_student,
    uses_unlabelled,
)
from pate.models.students._image import ImageStudent
from pate.models.students._spreading import VoteSpreading

__all__ = [
    "ImageStudent",
    "VoteSpreading",
    "check_is_student",
    "default_student",
    "fit_student",
    "make_student",
    "mapped_student",
    "named_students",
    "try_student",
    "uses_unlabelled",
]
