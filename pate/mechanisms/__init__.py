"""Mechanisms: noise and its cost in one frozen value."""

from pate.mechanisms._base import ANSWERED, NOT_ASKED, REFUSED, Draw, Mechanism
from pate.mechanisms._registry import make_mechanism, named_mechanisms
from pate.mechanisms.noisy_max import ConfidentGNMax, GNMax, LNMax, NoisyHistogram

__all__ = [
    "ANSWERED",
    "NOT_ASKED",
    "REFUSED",
    "ConfidentGNMax",
    "Draw",
    "GNMax",
    "LNMax",
    "Mechanism",
    "NoisyHistogram",
    "make_mechanism",
    "named_mechanisms",
]
