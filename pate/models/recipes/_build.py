"""Build the objects that a recipe names: the representation, the ballot space and the head."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD

from pate._core.checks import check_choice
from pate._core.types import FloatArray
from pate.data import (
    are_components,
    check_image_shape,
    check_n_pixels,
    heavy_tailed,
    is_frame,
    is_sparse,
    is_text_column,
    is_texts,
    of_one_unit,
    read_rows,
)
from pate.models.heads import DescentHead, LikelihoodHead
from pate.models.recipes._rule import Recipe
from pate.records.spaces import BallotSpace, SignedSpace, SoftSpace
from pate.representations import (
    Chain,
    FromTransformer,
    KernelPCA,
    PublicNeighbours,
    PublicPCA,
    Representation,
    TableMap,
    TextMap,
    cached,
    chain,
    check_representation,
)

# The default representation of images.

#: Components of scattering, and features of a network.
_SCATTERED, _SEEN = 512, 128
#: Neighbouring public rows that a row's features are averaged with.
_NEIGHBOURS = 10


def image_representation(
    X_public: Any, image_shape: tuple[int, ...] | None, *, random_state: int = 0, verbose: bool = False
) -> Representation:
    """Return the default representation of these public images, unfitted (docs/representations-images.md).

    Images made of strokes: a self-supervised network, then neighbouring public rows. All others: the largest
    components of wavelet scattering, which networks trained this briefly do not beat.
    """
    from pate.representations.images import SelfSupervised, views_of

    if views_of(X_public, image_shape) == "glyphs":
        network = SelfSupervised(n_features=_SEEN, image_shape=image_shape, random_state=random_state, verbose=verbose)
        return chain(network, PublicNeighbours(max(1, min(_NEIGHBOURS, int(np.shape(X_public)[0]) // 10))))
    return scattered(X_public, image_shape)


def scattered(X_public: Any, image_shape: tuple[int, ...] | None) -> Representation:
    """Return the largest components of wavelet scattering, unfitted: at most one fewer than public images."""
    from pate.representations.images import Scattering

    most = max(1, int(np.shape(X_public)[0]) - 1)
    return chain(Scattering(image_shape=image_shape), PublicPCA(min(_SCATTERED, most), alpha=0.0))


#: Smaller images are treated as tables of pixels: a network gains little on them.
_SMALL_IMAGE = 16
#: Components of the kernel, and how many of them soft votes use.
_COMPONENTS, _SOFT_DIMS = 600, 64
#: Where not all public rows are landmarks, the kernel has so many times the components of a ballot.
_SPARE = 1.5
#: Singular vectors of sparse rows.
_SPARSE_COMPONENTS = 256
#: Where more than this share of columns hold two public values, they count as encoded categories.
_MOSTLY = 0.5


def kind_of(X_public: Any, image_shape: tuple[int, ...] | None = None) -> str:
    """Return what kind of data these public rows are: "table", "mixed" (a table with categories), "image" or "text".

    A DataFrame of one column counts as texts where most cells have several words and few are equal; a column that is
    declared a category (``astype("category")``) holds categories.

    Parameters
    ----------
    X_public : array, DataFrame, sparse matrix or texts
    image_shape : tuple or None
        (height, width) or (channels, height, width) of rows that are flattened images; images of fewer than 16 pixels
        a side count as tables.

    Examples
    --------
    >>> (
    ...     kind_of(np.random.default_rng(0).normal(size=(9, 3))),
    ...     kind_of(np.zeros((9, 784)), (28, 28)),
    ... )
    ('table', 'image')
    """
    rows = read_rows(X_public, name="X_public")
    if is_texts(rows) or is_text_column(rows):
        return "text"
    shape = check_image_shape(image_shape)
    if shape is not None:
        check_n_pixels(shape, math.prod(np.shape(rows)[1:]))
    elif rows.ndim > 2:
        shape = tuple(np.shape(rows))[1:]
    if shape is not None:
        return "image" if min(shape[-2:]) >= _SMALL_IMAGE else "table"
    if is_sparse(rows):
        return "table"
    if is_frame(rows):
        few = [column.nunique(dropna=True) <= 2 for _, column in rows.items()]
        texts = any(dtype.kind not in "biuf" for dtype in rows.dtypes)
        return "mixed" if texts or np.mean(few) > _MOSTLY else "table"
    if rows.dtype.kind == "O":
        return "mixed"
    few = [len(np.unique(column[~np.isnan(column)])) <= 2 for column in np.asarray(rows, dtype=np.float64).T]
    return "mixed" if np.mean(few) > _MOSTLY else "table"


def fitted_representation(
    kind: str,
    X_public: Any,
    *,
    representation: Representation | None = None,
    image_shape: tuple[int, ...] | None = None,
    random_state: int = 0,
    max_categories: int = 50,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> Representation:
    """Return a representation (a map from rows to vectors) fitted on the public rows: the given one, or the default.

    A fitted one is returned as it is; ``max_categories`` is the most categories of a column of text
    (:class:`pate.representations.TableMap`). ``image_shape`` is as in :func:`kind_of`, ``random_state`` is public;
    with ``checkpoint_dir`` it is stored there once fitted, and reused (:func:`pate.representations.cached`).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> fitted_representation("table", X).transform(X).shape
    (50, 49)
    """
    if representation is None:
        rep = default_representation(
            kind,
            X_public,
            image_shape=image_shape,
            random_state=random_state,
            max_categories=max_categories,
            verbose=verbose,
        )
    else:
        rep = check_representation("representation", representation)
        if hasattr(rep, "n_features_out_"):
            return rep
    return clone(rep).fit(X_public) if checkpoint_dir is None else cached(rep, X_public, checkpoint_dir)


def default_representation(
    kind: str,
    X_public: Any,
    *,
    image_shape: tuple[int, ...] | None = None,
    random_state: int = 0,
    max_categories: int = 50,
    verbose: bool = False,
) -> Any:
    """Return the default representation of this kind of data, unfitted; it may depend on the public rows.

    Parameters are as in :func:`fitted_representation`.

    Examples
    --------
    >>> default_representation("table", np.zeros((9, 4)), image_shape=(2, 2))
    KernelPCA(n_components=600)
    """
    check_choice("kind", kind, ("table", "mixed", "image", "text"))
    if kind == "mixed":
        return TableMap(max_categories=max_categories)
    if kind == "text":
        return TextMap()
    if is_sparse(read_rows(X_public, name="X_public")):
        most = min(_SPARSE_COMPONENTS, *np.shape(X_public))
        return FromTransformer(TruncatedSVD(most, random_state=random_state))
    if kind == "image":
        return image_representation(X_public, image_shape, random_state=random_state, verbose=verbose)
    kernel = KernelPCA(_COMPONENTS, random_state=random_state)
    if image_shape is not None:  # pixels are of one unit: a common scale
        return kernel
    numbers = np.asarray(read_rows(X_public, name="X_public"), dtype=np.float64)
    if heavy_tailed(numbers):
        scaling = "quantile"
    elif are_components(numbers):
        return kernel
    else:
        scaling = "common" if of_one_unit(numbers) else "standard"
    return chain(TableMap(numeric=[scaling]), kernel)


def columns_before(representation: Representation, X_public: Any) -> Representation | None:
    """Return a map to a table's columns, where its representation is the default; None for any other."""
    if [type(part) for part in getattr(representation, "parts_", ())] != [TableMap, KernelPCA]:
        return None  # nor for pixels: trees lowered their accuracy
    return TableMap(numeric=["quantile"]).fit(X_public)  # standard scaling clips values, where trees may split


def narrowed(representation: Representation, n_components: int) -> Representation:
    """Return a default kernel map cut to so many components; any other representation as it is.

    Signed ballots take the first principal components of the kernel's: its own first components, where all public rows
    are landmarks. Where not all are, half as many again stay, in which those of all public rows are found. The others
    would take half of the mapping's time, and change little.
    """
    last = getattr(representation, "parts_", (representation,))[-1]
    if type(last) is not KernelPCA or last.n_components != _COMPONENTS:
        return representation
    wanted = n_components if len(last.landmarks_) == last.n_public_ else math.ceil(_SPARE * n_components)
    if wanted >= last.n_features_out_:
        return representation
    if last is representation:
        return last.first(wanted)
    return representation.ending_in(last.first(wanted)) if isinstance(representation, Chain) else representation


def make_space(recipe: Recipe, z: FloatArray, *, random_state: int = 0) -> BallotSpace:
    """Return the recipe's ballot space, unfitted, with at most as many components as these public rows allow."""
    if recipe.space == "signed":
        n = min(recipe.n_components, z.shape[1], max(len(z) - 1, 1))
        alpha, constant = recipe.alpha, recipe.constant
        return SignedSpace(n, alpha=0.8 if alpha is None else alpha, constant=constant or 0.0)
    n = max(2, min(recipe.n_components, len(z)))
    return SoftSpace(n, max(1, min(recipe.k or 8, n - 1)), n_dims=_SOFT_DIMS, random_state=random_state)


def make_head(recipe: Recipe, space: BallotSpace, classes: tuple[Any, ...]) -> LikelihoodHead | DescentHead:
    """Return the recipe's head for a fitted space: a descent head before any round, or an unfitted likelihood head."""
    if recipe.prior_scale is not None:
        return LikelihoodHead(tau=recipe.prior_scale, max_iter=60)
    n_rounds = sum(not r.of_student for r in recipe.rounds)
    return DescentHead(n_rounds=n_rounds, constant=bool(recipe.constant)).start(space.n_components_, classes)
