"""Ensembles of teachers: classifiers, torch modules or functions, one per disjoint shard, vote on public rows."""

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
