"""Record voters: every private record casts one bounded ballot in a space fitted on public rows."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
