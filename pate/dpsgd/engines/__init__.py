"""Engines of DP-SGD: they compute the sum of clipped per-record gradients, behind one small interface."""

from __future__ import annotations

from pate.dpsgd.engines._book_keeping import BookKeepingEngine
from pate.dpsgd.engines._engine import Engine, PerRecordEngine
from pate.dpsgd.engines._engine import check_promise as check_promise
from pate.dpsgd.engines._engine import record_loss as record_loss
from pate.dpsgd.engines._engine import released as released
from pate.dpsgd.engines._engine import take_numbers as take_numbers

__all__ = [
    "BookKeepingEngine",
    "Engine",
    "PerRecordEngine",
]
