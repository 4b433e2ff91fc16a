"""Public maps from rows to vectors: fitted on public rows only, for records that vote (docs/representations.md).

Examples
--------
>>> import numpy as np
>>> from pate.representations import RandomFourier, TableMap, chain
>>> public, private = np.random.default_rng(0).normal(size=(2, 100, 4))
>>> chain(TableMap(), RandomFourier(64)).fit(public).transform(private).shape
(100, 64)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.representations._base import Representation as Representation
    from pate.representations._base import RowMemory as RowMemory
    from pate.representations._files import cached as cached
    from pate.representations._files import load as load
    from pate.representations.join import Chain as Chain
    from pate.representations.join import Combined as Combined
    from pate.representations.join import PublicPCA as PublicPCA
    from pate.representations.join import RandomFourier as RandomFourier
    from pate.representations.join import chain as chain
    from pate.representations.join import combine as combine
    from pate.representations.kernel import KernelPCA as KernelPCA
    from pate.representations.kernel import PublicNeighbours as PublicNeighbours
    from pate.representations.module import FromModule as FromModule
    from pate.representations.own import FromTransformer as FromTransformer
    from pate.representations.tables import AboveLeast as AboveLeast
    from pate.representations.tables import GroupedRows as GroupedRows
    from pate.representations.tables import PublicScale as PublicScale
    from pate.representations.tables import TableMap as TableMap
    from pate.representations.tables import UnitRows as UnitRows
    from pate.representations.text import TextMap as TextMap

#: Loaded when first used: scikit-learn takes a second.
_HOME = {
    "AboveLeast": "tables",
    "Chain": "join",
    "Combined": "join",
    "FromModule": "module",
    "FromTransformer": "own",
    "GroupedRows": "tables",
    "KernelPCA": "kernel",
    "PublicNeighbours": "kernel",
    "PublicPCA": "join",
    "PublicScale": "tables",
    "RandomFourier": "join",
    "Representation": "_base",
    "RowMemory": "_base",
    "TableMap": "tables",
    "TextMap": "text",
    "UnitRows": "tables",
    "cached": "_files",
    "chain": "join",
    "combine": "join",
    "load": "_files",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
