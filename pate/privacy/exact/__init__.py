"""Exact privacy accounting of noisy-max votes: law, divergences, per-teacher sums, tight composition."""

from pate.privacy.exact._laws import ExactDivergences, exact_divergences, exact_rdp, log_probs, upper_bound
from pate.privacy.exact._per_teacher import per_teacher_rdp, vote_groups
from pate.privacy.exact._pld import PldEpsilon, composed_pld, per_teacher_pld_epsilon, pld_epsilon, pld_seconds
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
    "pld_seconds",
    "upper_bound",
    "vote_groups",
]
