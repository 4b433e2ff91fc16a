"""The representation of images where nobody names one."""

from __future__ import annotations

from typing import Any


def image_representation(image_shape: tuple[int, ...] | None, *, random_state: int = 0, verbose: bool = False) -> Any:
    """Return scattering and a self-supervised network side by side, unfitted.

    Examples
    --------
    >>> len(image_representation((28, 28)).parts)
    2
    """
    from pate.representations import combine
    from pate.representations.images import Scattering, SelfSupervised

    return combine(
        SelfSupervised(image_shape=image_shape, random_state=random_state, verbose=verbose),
        Scattering(image_shape=image_shape),
    )
