"""Models made of releases, at no further cost: of noisy sums, of labels, and of numbers; and the model file."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__: list[str] = []
