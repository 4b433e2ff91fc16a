"""Engines of DP-SGD: whatever computes the sum of clipped gradients of single records, behind one small contract."""

from __future__ import annotations

from pate.dpsgd.engines._book_keeping import BookKeepingEngine
from pate.dpsgd.engines._engine import Engine, PerRecordEngine, check_promise, record_loss

__all__ = ["BookKeepingEngine", "Engine", "PerRecordEngine", "check_promise", "record_loss"]
