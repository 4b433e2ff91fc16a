"""Students: classifiers that learn from released labels and unlabelled public rows."""

from pate.models.students._fit import check_is_student as check_is_student
from pate.models.students._fit import default_student, fit_student, make_student, named_students
from pate.models.students._fit import mapped_student as mapped_student
from pate.models.students._fit import try_student as try_student
from pate.models.students._fit import uses_unlabelled as uses_unlabelled
from pate.models.students._image import ImageStudent
from pate.models.students._spreading import VoteSpreading

#: The names for users; what is imported ``as`` itself is for pate's other packages.
__all__ = [
    "ImageStudent",
    "VoteSpreading",
    "default_student",
    "fit_student",
    "make_student",
    "named_students",
]
