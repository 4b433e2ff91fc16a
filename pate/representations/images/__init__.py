"""Representations of images, fitted on public ones: pixels, wavelet scattering, self-supervised networks."""

from __future__ import annotations

from pate.representations.images._augment import Augmentation, views_of
from pate.representations.images._pixels import Pixels, Scattering
from pate.representations.images._self_supervised import SelfSupervised

__all__ = ["Augmentation", "Pixels", "Scattering", "SelfSupervised", "views_of"]
