"""Models computed from releases (noisy sums, labels, numbers), at no further privacy cost; and the model file."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__: list[str] = []
