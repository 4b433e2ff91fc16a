"""Classifiers, torch modules and anything that answers, one per disjoint shard, to votes on public rows."""

from __future__ import annotations

from pate.teachers._base import ShardEnsemble
from pate.teachers._callables import CallableTeachers
from pate.teachers._ensemble import TeacherEnsemble
from pate.teachers._heads import HeadTeacherEnsemble
from pate.teachers._registry import (
    ensemble_curve,
    import_teacher,
    is_import_path,
    make_ensemble,
    make_teacher,
    named_teachers,
)
from pate.teachers._usable import class_indices

__all__ = [
    "CallableTeachers",
    "HeadTeacherEnsemble",
    "ShardEnsemble",
    "TeacherEnsemble",
    "class_indices",
    "ensemble_curve",
    "import_teacher",
    "is_import_path",
    "make_ensemble",
    "make_teacher",
    "named_teachers",
]
