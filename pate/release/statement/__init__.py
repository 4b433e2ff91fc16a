"""What may be said of a release: the statement, its assumptions, its words and its file."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = []
