"""Classifiers, torch modules and anything that answers, one per disjoint shard, to votes on public rows."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "CallableTeachers",
    "CoordinatedVoter",
    "HeadTeacherEnsemble",
    "ShardEnsemble",
    "TeacherEnsemble",
    "make_ensemble",
    "make_teacher",
    "named_teachers",
]
