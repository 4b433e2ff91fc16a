"""Representations of images, fitted on public ones: pixels, wavelet scattering, self-supervised networks."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "Augmentation",
    "Pixels",
    "Scattering",
    "SelfSupervised",
]
