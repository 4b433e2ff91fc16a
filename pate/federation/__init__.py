"""PATE across institutions: each keeps records, models and votes; only a noisy sum, or only labels, ever leave.

Needs the extra ``pate-privacy[federation]``.
"""

import lazy_loader

from pate._core.curator import need

need("mpyc", extra="federation", why="A run among institutions")
need("gmpy2", extra="federation", why="A run among institutions")
need("cryptography", extra="federation", why="A run among institutions")
__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)

# The others are for the commands.
__all__ = [name for name in _names if name not in ("RoundSession", "local_members", "plan_lines", "viewers_of")]
