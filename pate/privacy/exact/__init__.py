"""Exact privacy accounting of noisy-max votes: law, divergences, per-teacher sums, tight composition."""

from pate.privacy.exact._histograms import Groups as Groups
from pate.privacy.exact._histograms import distinct_histograms as distinct_histograms
from pate.privacy.exact._histograms import group_counts as group_counts
from pate.privacy.exact._histograms import group_ranks as group_ranks
from pate.privacy.exact._laws import ExactDivergences, exact_divergences, exact_rdp, log_probs, upper_bound
from pate.privacy.exact._pair_law import PairLaw as PairLaw
from pate.privacy.exact._pair_law import all_laws as all_laws
from pate.privacy.exact._per_teacher import per_teacher_rdp
from pate.privacy.exact._per_teacher import vote_groups as vote_groups
from pate.privacy.exact._pld import PldEpsilon, composed_pld, per_teacher_pld_epsilon, pld_epsilon
from pate.privacy.exact._pld import pld_seconds as pld_seconds
from pate.privacy.exact.noise import GaussianNoise, LaplaceNoise, ThresholdTest

__all__ = [
    "ExactDivergences",
    "GaussianNoise",
    "LaplaceNoise",
    "PldEpsilon",
    "ThresholdTest",
    "composed_pld",
    "exact_divergences",
    "exact_rdp",
    "log_probs",
    "per_teacher_pld_epsilon",
    "per_teacher_rdp",
    "pld_epsilon",
    "upper_bound",
]
