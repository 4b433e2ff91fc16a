"""Torch modules as teachers, on CPU cores and GPUs; the ready modules are in :mod:`pate.networks`."""

from __future__ import annotations

from pate.teachers.torch._ensemble import TorchTeacherEnsemble

__all__ = ["TorchTeacherEnsemble"]
