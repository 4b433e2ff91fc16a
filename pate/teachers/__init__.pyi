"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._base import ReadRows as ReadRows, ShardEnsemble as ShardEnsemble
from ._callables import CallableTeachers as CallableTeachers
from ._coordinated import CoordinatedVoter as CoordinatedVoter, public_race as public_race
from ._ensemble import TableTeachers as TableTeachers, TeacherEnsemble as TeacherEnsemble
from ._heads import HeadTeacherEnsemble as HeadTeacherEnsemble
from ._registry import (
    ensemble_curve as ensemble_curve,
    import_teacher as import_teacher,
    is_import_path as is_import_path,
    make_ensemble as make_ensemble,
    make_teacher as make_teacher,
    named_teachers as named_teachers,
)
from ._shards import (
    OwnClasses as OwnClasses,
    global_seed as global_seed,
    has_gaps as has_gaps,
    interruptible as interruptible,
    seeded_clone as seeded_clone,
    side_by_side as side_by_side,
)
from ._usable import (
    ClassScores as ClassScores,
    Owners as Owners,
    about_labels as about_labels,
    as_column as as_column,
    check_rows as check_rows,
    check_same_kind as check_same_kind,
    class_indices as class_indices,
    classes_in as classes_in,
    NOBODY as NOBODY,
    column_kinds as column_kinds,
    copy_input_tags as copy_input_tags,
    flat_labels as flat_labels,
    hash_rows as hash_rows,
    holds_objects as holds_objects,
    is_frame as is_frame,
    is_texts as is_texts,
    label_column as label_column,
    owned as owned,
    remember_columns as remember_columns,
    take_rows as take_rows,
    takes_missing as takes_missing,
    units_of as units_of,
    usable as usable,
)
