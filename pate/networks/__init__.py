"""Built-in torch networks, and what is required of any torch module, for teachers and for DP-SGD.

Every module here is made as ``Module(n_features=..., n_classes=..., **module_kwargs)`` and maps a float tensor of shape
(batch, n_features), or (batch, channels, side, side) for images, to logits of shape (batch, n_classes). That is the
whole protocol of a custom one. Flattened images are channels first.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "MLP",
    "Linear",
    "PapernotCNN",
    "PapernotDeepCNN",
    "SmallCNN",
    "SmallResNet",
    "TanhCNN",
    "make_module",
    "named_modules",
]
