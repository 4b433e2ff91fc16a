"""Layer 1 of the audit: inner states of one pipeline on two neighbouring data sets, with the same randomness."""

from pate.audit.replays._neighbours import KINDS, Neighbour, neighbours
from pate.audit.replays._replay import replay, replay_search

__all__ = ["KINDS", "Neighbour", "neighbours", "replay", "replay_search"]
