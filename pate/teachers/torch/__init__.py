"""Torch modules as teachers, on CPU cores and GPUs; the ready modules are in :mod:`pate.networks`."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "TorchTeacherEnsemble",
]
