"""Replay audits: run a pipeline on two neighbouring data sets with the same randomness, compare inner states."""

from pate.audit.replays._neighbours import KINDS, Neighbour, neighbours
from pate.audit.replays._replay import replay, replay_search

__all__ = ["KINDS", "Neighbour", "neighbours", "replay", "replay_search"]
