"""Contestants by name, each set per budget by a public rule (docs/comparison.md)."""

from pate.comparison.contestants._named import NAMES, default_contestants, named

__all__ = ["NAMES", "default_contestants", "named"]
