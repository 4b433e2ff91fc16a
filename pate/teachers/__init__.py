"""Any scikit-learn classifier, trained once per disjoint shard, to votes on public rows."""

from __future__ import annotations

from pate.teachers._imports import import_teacher, is_import_path
from pate.teachers._registry import make_teacher, named_teachers
from pate.teachers.ensemble import TeacherEnsemble

__all__ = ["TeacherEnsemble", "import_teacher", "is_import_path", "make_teacher", "named_teachers"]
