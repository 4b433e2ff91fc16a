"""Canaries: one replaced record (or person) at a time, and what the exact laws say that its replacement shows."""

from pate.audit.canaries._asked import QUERIES
from pate.audit.canaries._chain import canary
from pate.audit.canaries._replaced import CANARIES

__all__ = ["CANARIES", "QUERIES", "canary"]
