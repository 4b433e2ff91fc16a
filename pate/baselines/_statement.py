"""The privacy statement of one DP-SGD run."""

from __future__ import annotations

from importlib import metadata

from pate.baselines._calibration import ADJACENCIES
from pate.privacy.guarantee import Guarantee
from pate.privacy.statement import Assumption, PrivacyStatement, versions

_THEOREMS = {
    "replace-one": (
        "the replaced record is in or out of a step with its replacement, and their clipped gradients may be "
        "opposite; dominating pairs compose adaptively (Zhu, Dong, Wang 2022)"
    ),
    "add-or-remove": (
        "dominating pairs of the Poisson-subsampled Gaussian (Zhu, Dong, Wang 2022); not comparable with replace-one "
        "epsilons, which are up to twice as large at the same noise"
    ),
}


def dpsgd_statement(
    guarantee: Guarantee,
    *,
    n_records: int,
    n_steps: int,
    sample_rate: float,
    noise_multiplier: float,
    max_grad_norm: float,
    interval: float,
    classes_given: bool,
    seeded: bool,
) -> PrivacyStatement:
    """Return what was protected, from what, how, and at which price.

    Parameters
    ----------
    guarantee : Guarantee
    n_records, n_steps : int
    sample_rate, noise_multiplier, max_grad_norm : float
    interval : float
        Grid of the privacy loss that ``guarantee`` was computed on.
    classes_given : bool
        False when the set of classes was read off the private labels.
    seeded : bool

    Examples
    --------
    >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="pld")
    >>> dpsgd_statement(g, n_records=100, n_steps=5, sample_rate=0.1, noise_multiplier=2.0, max_grad_norm=1.0,
    ...     interval=1e-3, classes_given=True, seeded=True).headline
    'not private: seeded noise (for tests and experiments only)'
    """
    replace = guarantee.adjacency == "replace-one"
    assumptions = [
        Assumption(name="parameters", claim="the number of private records and all hyperparameters are public"),
        Assumption(name="preprocessing", claim="the features were scaled without statistics of the private records"),
        Assumption(name="one person", claim="each person is one record"),
        Assumption(
            name="arithmetic",
            claim="real arithmetic: attacks on rounding and on running time are outside the model",
            how="floating point was used",
            by="nobody",
        ),
        Assumption(
            name="sampling",
            claim="every step drew its records by Poisson sampling, as the accounting says",
            how="Opacus with a sampler of its own, no shuffling",
            by="pate",
        ),
        Assumption(
            name="noise",
            claim="nobody can predict or repeat the noise and the samples",
            how="a fixed seed: the assumption does NOT hold"
            if seeded
            else "drawn from the operating system's generator",
            by="nobody" if seeded else "pate",
        ),
        Assumption(
            name="classes",
            claim="the set of classes is public",
            how="it was named beforehand" if classes_given else "it was read off the labels, at no charge",
            by="curator" if classes_given else "nobody",
        ),
    ]
    used = {name: metadata.version(name) for name in ("torch", "opacus", "dp-accounting")}
    return PrivacyStatement(
        released="the parameters of a classifier trained by DP-SGD, and whatever is computed from them",
        unit="record",
        n_units=n_records if replace else None,
        guarantee=guarantee,
        mechanism=(
            f"DP-SGD: {n_steps} steps, Poisson sampling at rate {sample_rate:.6g}, gradients clipped to norm "
            f"{max_grad_norm:g}, noise multiplier {noise_multiplier:.6g}"
        ),
        accounting=(
            f"privacy loss distributions rounded towards a larger epsilon, {guarantee.adjacency}: "
            f"{_THEOREMS[guarantee.adjacency]}"
        ),
        noise_source=(
            "a fixed seed: NOT PRIVATE"
            if seeded
            else "the operating system's cryptographic generator, for the noise and for the Poisson samples"
        ),
        seeded=seeded,
        covered=("this training run, every intermediate step included",),
        not_covered=("choices made by looking at other runs on the same records", "scaling of the features"),
        assumptions=tuple(assumptions),
        verify=(
            f"dp_accounting: PLDAccountant({ADJACENCIES[guarantee.adjacency].name}, {interval:g}) composing {n_steps} "
            f"times PoissonSampledDpEvent({sample_rate!r}, GaussianDpEvent({noise_multiplier!r})), then "
            f"get_epsilon({guarantee.delta!r})"
        ),
        versions={**versions(), **used},
    )
