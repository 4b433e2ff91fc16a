"""PATE: learn from private data by asking an ensemble of teachers, and know exactly what it cost.

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
