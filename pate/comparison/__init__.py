"""Contestants over budgets and seeds, on one split, to tidy rows."""

from pate.comparison._compare import compare
from pate.comparison._report import Cell, ComparisonReport

__all__ = ["Cell", "ComparisonReport", "compare"]
