"""Exact samplers of noise: what is drawn has exactly the distribution that is charged."""

from pate.privacy.noise._endless import WordSource
from pate.privacy.noise.integers import discrete_gaussian, discrete_laplace, noisy_argmax, uniform_below
from pate.privacy.noise.reals import real_argmax, real_at_least, rounded_counts
from pate.privacy.noise.reals import rounded_up as rounded_up
from pate.privacy.noise.source import NoiseSource

__all__ = [
    "NoiseSource",
    "WordSource",
    "discrete_gaussian",
    "discrete_laplace",
    "noisy_argmax",
    "real_argmax",
    "real_at_least",
    "rounded_counts",
    "uniform_below",
]
