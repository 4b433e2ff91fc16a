"""Canaries: one replaced record (or person) at a time, and what the exact laws say that its replacement shows."""

from pate.audit.canaries._chain import canary
from pate.audit.canaries._voters import CANARIES, QUERIES

__all__ = ["CANARIES", "QUERIES", "canary"]
