"""Recipes: settings of record voters chosen from public facts, and plans that go from public rows to a model."""

from typing import Any

import lazy_loader

from pate._core.moved import renamed

_lazy, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
_former = renamed(__name__, {"chosen_road": "chosen_method"})

__all__ = [
    "Expectation",
    "MappedLinear",
    "PublicFacts",
    "Recipe",
    "RecordModel",
    "RecordsPlan",
    "Round",
    "choose",
    "chosen_method",
    "expected",
    "fitted_representation",
    "kind_of",
]


def __getattr__(name: str) -> Any:
    return _former(name) if name == "chosen_road" else _lazy(name)
