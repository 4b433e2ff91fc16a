"""Public maps from rows to vectors: fitted on public rows only, for records that vote (docs/representations.md).

Examples
--------
>>> import numpy as np
>>> from pate.representations import RandomFourier, TableMap, chain
>>> public, private = np.random.default_rng(0).normal(size=(2, 100, 4))
>>> chain(TableMap(), RandomFourier(64)).fit(public).transform(private).shape
(100, 64)
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "AboveLeast",
    "Chain",
    "Combined",
    "FromModule",
    "FromTransformer",
    "GroupedRows",
    "KernelPCA",
    "PublicNeighbours",
    "PublicPCA",
    "PublicScale",
    "RandomFourier",
    "Representation",
    "RowMemory",
    "TableMap",
    "TextMap",
    "UnitRows",
    "cached",
    "chain",
    "combine",
    "load",
]
