"""Replay audits: run a pipeline on two neighbouring data sets with the same randomness, compare inner states."""

from pate.audit.replays._neighbours import KINDS as KINDS
from pate.audit.replays._neighbours import Neighbour as Neighbour
from pate.audit.replays._neighbours import neighbours as neighbours
from pate.audit.replays._replay import replay as replay
from pate.audit.replays._replay import replay_search as replay_search
