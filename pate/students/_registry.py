"""Students by name, for the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pate.core.checks import check_choice
from pate.students._image import ImageStudent
from pate.students._spreading import LabelSpreads, VoteSpreading
from pate.teachers import make_teacher, named_teachers

_SEMI_SUPERVISED: dict[str, Callable[[], Any]] = {
    "vote-spreading": VoteSpreading,
    "label-spreading": lambda: LabelSpreads(kernel="knn", n_neighbors=7, alpha=0.2, max_iter=200),
    "image": ImageStudent,
}


def named_students() -> tuple[str, ...]:
    """Return the names that :func:`make_student` knows: every classifier's, and semi-supervised ones.

    Examples
    --------
    >>> "label-spreading" in named_students()
    True
    """
    return (*_SEMI_SUPERVISED, *named_teachers(torch=False))


def make_student(name: Any) -> Any:
    """Return an unfitted student by name; a classifier is returned as it is.

    ``label-spreading`` (Zhou et al. 2004) passes the released labels on to public rows that resemble one another, and
    so learns from the rows without an answer too; ``vote-spreading`` does so with the noisy counts, and ``image`` (for
    rows that are square images) with a convolutional network.

    Raises
    ------
    InvalidInputError
        The name is not known.

    Examples
    --------
    >>> make_student("label-spreading").kernel
    'knn'
    """
    if not isinstance(name, str) and hasattr(name, "fit"):
        return name
    known = check_choice("student", name, named_students())
    return _SEMI_SUPERVISED[known]() if known in _SEMI_SUPERVISED else make_teacher(known)
