"""Students: classifiers that learn from released labels and unlabelled public rows."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "ImageStudent",
    "VoteSpreading",
    "default_student",
    "fit_student",
    "make_student",
    "named_students",
]
