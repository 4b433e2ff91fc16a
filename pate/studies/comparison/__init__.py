"""Contestants over budgets and seeds, on one split, to tidy rows."""

from pate.studies.comparison._compare import compare
from pate.studies.comparison._report import Cell, ComparisonReport
from pate.studies.comparison._resume import plain_repr as plain_repr

__all__ = ["Cell", "ComparisonReport", "compare", "plain_repr"]
