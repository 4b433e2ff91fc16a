"""PATE: learn from private data by letting it vote on public rows, and know exactly what it cost.

Begin with :class:`PATEClassifier`, or for files with ``pate label --help``. :func:`release_labels` makes private labels
of votes. Noise and its cost are in :mod:`pate.mechanisms`, the sampling of noise in :mod:`pate.privacy.noise`, budgets
and sums of costs in :mod:`pate.privacy`, what was spent in :class:`Ledger`; :mod:`pate.audit` tries to refute claims.

Public names are loaded when first used, so that ``import pate`` stays light.

Examples
--------
>>> import pate
>>> pate.GNMax(sigma=40.0)
GNMax(sigma=40.0)
"""

from importlib import metadata

import lazy_loader

from pate._core.moved import redirect_imports

redirect_imports()
__version__ = metadata.version("pate")
__getattr__, _, _names = lazy_loader.attach_stub(__name__, __file__)
# Representations are a package of their own: their names are taken from it.
__all__ = [*(name for name in _names if name != "representations"), "__version__"]


def __dir__() -> list[str]:
    return __all__
