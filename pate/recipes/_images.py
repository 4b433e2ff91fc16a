"""The representation of images where nobody names one."""

from __future__ import annotations

from typing import Any

import numpy as np

from pate.representations import PublicNeighbours, PublicPCA, Representation, chain

#: Components that are kept of scattering, and of what a network sees.
_SCATTERED, _SEEN = 512, 128
#: Public rows that a row is drawn to.
_NEIGHBOURS = 10


def image_representation(
    X_public: Any, image_shape: tuple[int, ...] | None, *, random_state: int = 0, verbose: bool = False
) -> Representation:
    """Return the representation for these public images, unfitted; their looks decide (docs/representations-images.md).

    Images made of strokes: a self-supervised network, and the public rows near what it sees. All others: the largest
    components of wavelet scattering, which networks trained so shortly do not beat.

    Parameters
    ----------
    X_public : array of shape (n_public, ...)
    image_shape : tuple or None
    random_state : int
    verbose : bool
    """
    from pate.representations.images import SelfSupervised, looks_of

    if looks_of(X_public, image_shape) == "glyphs":
        network = SelfSupervised(n_features=_SEEN, image_shape=image_shape, random_state=random_state, verbose=verbose)
        return chain(network, PublicNeighbours(max(1, min(_NEIGHBOURS, int(np.shape(X_public)[0]) // 10))))
    return scattered(X_public, image_shape)


def scattered(X_public: Any, image_shape: tuple[int, ...] | None) -> Representation:
    """Return the largest components of wavelet scattering, unfitted: as many as public images can tell apart.

    Parameters
    ----------
    X_public : array of shape (n_public, ...)
    image_shape : tuple or None
    """
    from pate.representations.images import Scattering

    most = max(1, int(np.shape(X_public)[0]) - 1)
    return chain(Scattering(image_shape=image_shape), PublicPCA(min(_SCATTERED, most), alpha=0.0))
