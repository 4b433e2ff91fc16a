"""DP-SGD's accounting: what each accountant says of the run of the 2016 paper's figure, and of two libraries' examples.

    python experiments/reproduce/dpsgd_accounting.py

Add-or-remove, as published. No data is looked at. The whole curve is drawn by experiments/accountants.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from _table import Figure, main

from pate.privacy import dpsgd_epsilons

NAME = "dpsgd_accounting"
TITLE = "DP-SGD: one run, every accountant"
_ABADI = "Abadi et al. 2016, figure 2 and its text (q = 0.01, sigma = 4)"
_OPACUS = "Opacus, examples/mnist_README.md"
_TFP = "TF Privacy, README, table of parameters of the MNIST tutorial"
_OWN = "measured here"
_ROUNDED = "read off a figure's data: theirs go through fewer orders or coarser integrals"
_NO_BOUND = "the constants of their figure, which no theorem gives at this noise"
_BEST = "the least that is proved of this run"


@dataclass(frozen=True)
class Run:
    """A run of DP-SGD: noise over clipping norm, sampling rate, steps."""

    noise_multiplier: float
    sample_rate: float
    n_steps: int


@dataclass(frozen=True)
class Config:
    """The runs, delta, and the figures: their keys are a run's name and an accountant's."""

    runs: tuple[tuple[str, Run], ...] = (
        ("abadi 100", Run(4.0, 0.01, 100 * 100)),
        ("abadi 400", Run(4.0, 0.01, 400 * 100)),
        ("opacus", Run(1.3, 240 / 60_000, 15 * 250)),
        ("tfp 15", Run(1.3, 256 / 60_000, 15 * 60_000 // 256)),
        ("tfp 60", Run(1.1, 256 / 60_000, 60 * 60_000 // 256)),
        ("tfp 45", Run(0.7, 256 / 60_000, 45 * 60_000 // 256)),
    )
    delta: float = 1e-5
    seeds: tuple[int, ...] = (0,)
    figures: tuple[Figure, ...] = (
        Figure("abadi 100 moments", "100 epochs, moments accountant", _ABADI, 1.26, 0.01),
        Figure("abadi 100 strong composition, 2016", "100 epochs, strong composition as drawn", _ABADI, 9.34, 0.05,
               _NO_BOUND),
        Figure("abadi 100 strong composition", "100 epochs, strong composition as proved", _OWN),
        Figure("abadi 100 rdp", "100 epochs, Renyi", _OWN),
        Figure("abadi 100 pld", "100 epochs, privacy loss distributions", _OWN, why=_BEST),
        Figure("abadi 400 moments", "400 epochs, moments accountant", _ABADI, 2.55, 0.03, _ROUNDED),
        Figure("abadi 400 strong composition, 2016", "400 epochs, strong composition as drawn", _ABADI, 24.22, 0.05,
               _NO_BOUND),
        Figure("abadi 400 rdp", "400 epochs, Renyi", _OWN),
        Figure("abadi 400 pld", "400 epochs, privacy loss distributions", _OWN, why=_BEST),
        Figure("opacus moments", "Opacus' MNIST example, older conversion", _OPACUS, 1.16, 0.01),
        Figure("opacus rdp", "Opacus' MNIST example, Renyi by today's conversion", _OWN),
        Figure("opacus pld", "Opacus' MNIST example, privacy loss distributions", _OWN, why=_BEST),
        Figure("tfp 15 moments", "TF Privacy's tutorial, sigma 1.3, 15 epochs, older conversion", _TFP, 1.19, 0.02),
        Figure("tfp 15 pld", "the same by privacy loss distributions", _OWN, why=_BEST),
        Figure("tfp 60 moments", "TF Privacy's tutorial, sigma 1.1, 60 epochs, older conversion", _TFP, 3.01, 0.02),
        Figure("tfp 60 pld", "the same by privacy loss distributions", _OWN, why=_BEST),
        Figure("tfp 45 moments", "TF Privacy's tutorial, sigma 0.7, 45 epochs, older conversion", _TFP, 7.10, 0.05,
               "moments are integers here: a fraction is best at this epsilon"),
        Figure("tfp 45 pld", "the same by privacy loss distributions", _OWN, why=_BEST),
    )  # fmt: skip


SMOKE = replace(Config(), runs=Config().runs[:1], figures=Config().figures[:5])


def measure(config, seed):
    found = {}
    for name, run in config.runs:
        rows = dpsgd_epsilons(
            run.noise_multiplier, sample_rate=run.sample_rate, n_steps=run.n_steps, delta=config.delta
        )
        found |= {f"{name} {row.accountant}": row.epsilon for row in rows}
    return {f.key: found[f.key] for f in config.figures}


if __name__ == "__main__":
    main(NAME, TITLE, Config(), SMOKE, measure, __doc__)
