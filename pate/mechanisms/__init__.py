"""Mechanisms: the noise of a release and its privacy cost, in one frozen value.

``charge(n_queries)`` is what the answers cost in the worst case, a constant; ``sample(counts, noise)`` draws the noise,
by the exact samplers of :mod:`pate.privacy.noise`. :func:`pate.release_labels` charges first and samples afterwards. A
mechanism of your own derives from :class:`Mechanism` (docs/extend.md), and is audited by :mod:`pate.audit.testing`.
"""

from pate.mechanisms._ballot_sum import GaussianSum
from pate.mechanisms._base import ANSWERED, NOT_ASKED, REFUSED, Draw, Mechanism
from pate.mechanisms._noisy_max import (
    ConfidentGNMax,
    ExactLaw,
    GNMax,
    LNMax,
    NoisyBallots,
    NoisyHistogram,
    make_mechanism,
    named_mechanisms,
)
from pate.mechanisms._noisy_max import read_mechanisms as read_mechanisms
from pate.mechanisms._shares import DELTA_OF_CELL as DELTA_OF_CELL
from pate.mechanisms._shares import LEAST_SHARE as LEAST_SHARE
from pate.mechanisms._shares import MOST_STEPS as MOST_STEPS
from pate.mechanisms._shares import VIEWERS as VIEWERS
from pate.mechanisms._shares import SharedGaussian, SharedGNMax
from pate.mechanisms._shares import institution_charge as institution_charge
from pate.mechanisms._shares import rounds_charge as rounds_charge
from pate.mechanisms._vote_cap import VoteCap, VoteCapSession

__all__ = [
    "ANSWERED",
    "NOT_ASKED",
    "REFUSED",
    "ConfidentGNMax",
    "Draw",
    "ExactLaw",
    "GNMax",
    "GaussianSum",
    "LNMax",
    "Mechanism",
    "NoisyBallots",
    "NoisyHistogram",
    "SharedGNMax",
    "SharedGaussian",
    "VoteCap",
    "VoteCapSession",
    "make_mechanism",
    "named_mechanisms",
]
