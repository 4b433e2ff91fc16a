"""PATE: train models on private data by noisy votes on public rows, with exact accounting of the privacy cost.

Begin with :class:`PATEClassifier`, or for files with ``pate label --help``. :func:`release_labels` turns teachers'
votes into private labels. Noise and its cost are in :mod:`pate.mechanisms`, the sampling of noise in
:mod:`pate.privacy.noise`, budgets and sums of costs in :mod:`pate.privacy`. A :class:`Ledger` records what was spent;
:mod:`pate.audit` tries to refute claims. docs/concepts.md explains the terms.

Public names are loaded when first used, so that ``import pate`` is fast.

Examples
--------
>>> import pate
>>> pate.GNMax(sigma=40.0)
GNMax(sigma=40.0)
"""

import lazy_loader

from pate._core.moved import redirect_imports
from pate._core.version import VERSION

redirect_imports()
__version__ = VERSION
__getattr__, _, _names = lazy_loader.attach_stub(__name__, __file__)
# Representations are a package of their own: their names are taken from it.
__all__ = [*(name for name in _names if name != "representations"), "__version__"]


def __dir__() -> list[str]:
    return __all__
