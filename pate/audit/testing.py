"""Register a mechanism once, and it is audited like the package's own, with no further test code.

    from pate.testing import register
    register([MyMax(40.0)])                        # it has log_probs: that is its law
    register([MySum(3.0)], law=..., sample=...)    # releases of another kind

``pate audit`` and the package's test of laws go over :func:`registered`.
"""

from pate.audit.laws import Entry, Numbers, forget, register, registered

__all__ = ["Entry", "Numbers", "forget", "register", "registered"]
