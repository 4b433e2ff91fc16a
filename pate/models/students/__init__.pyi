"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._fit import (
    check_is_student as check_is_student,
    default_student as default_student,
    fit_student as fit_student,
    make_student as make_student,
    mapped_student as mapped_student,
    named_students as named_students,
    try_student as try_student,
    uses_unlabelled as uses_unlabelled,
)
from ._image import ImageStudent as ImageStudent
from ._row_by_row import (
    as_public as as_public,
    copies as copies,
    measured_labels as measured_labels,
)
from ._serialised import keep_student as keep_student, made_of as made_of, read_student as read_student
from ._spreading import VoteSpreading as VoteSpreading
