"""The privacy statement of one DP-SGD run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from pate.dpsgd._calibration import ADJACENCIES, dpsgd_epsilon, rounding_slack, unsampled_mu
from pate.dpsgd._plan import Plan
from pate.ledger import Ledger
from pate.statement.model import Assumption, PrivacyStatement
from pate.statement.promises import CURVE_DELTAS

_THEOREMS = {
    "replace-one": (
        "the replaced record is in or out of a step with its replacement, and their clipped gradients may be "
        "opposite; dominating pairs compose adaptively (Zhu, Dong, Wang 2022)"
    ),
    "add-or-remove": ("dominating pairs of the Poisson-subsampled Gaussian (Zhu, Dong, Wang 2022)"),
}
_UNSAMPLED = (
    "every record is in every step: exact Gaussian composition (Dong, Roth, Su 2022), converted exactly (Balle, Wang "
    "2018)"
)


def mechanism_of(plan: Plan, max_grad_norm: float) -> str:
    """Return the run in words, alike in a statement and in a ledger.

    Examples
    --------
    >>> from pate import Budget
    >>> from pate.dpsgd._plan import make_plan
    >>> plan = make_plan(Budget(1.0, 1e-5), n_records=100, expected_batch_size=10, epochs=1, noise_multiplier=9.0,
    ...     adjacency="replace-one")
    >>> mechanism_of(plan, 1.0)
    'DP-SGD: 10 steps, Poisson sampling at rate 0.1, gradients clipped to norm 1, noise multiplier 9'
    """
    return (
        f"DP-SGD: {plan.n_steps} steps, Poisson sampling at rate {plan.sample_rate:.6g}, gradients clipped to norm "
        f"{max_grad_norm:g}, noise multiplier {plan.noise_multiplier:.6g}"
    )


def dpsgd_statement(
    plan: Plan,
    *,
    max_grad_norm: float,
    classes_given: bool,
    seeded: bool,
    apart: str,
    ledger: Ledger | None = None,
    releases: Iterable[int] = (),
) -> PrivacyStatement:
    """Return what was protected, from what, how, and at which price; a function of public numbers alone.

    Parameters
    ----------
    plan : Plan
    max_grad_norm : float
    classes_given : bool
        False when the set of classes was read off the private labels.
    seeded : bool
    apart : str
        How the engine saw to it that no record moved another one's gradient.
    ledger : Ledger or None
    releases : iterable of int
        The numbers under which the run was charged there.

    Examples
    --------
    >>> from pate import Budget
    >>> from pate.dpsgd._plan import make_plan
    >>> plan = make_plan(Budget(1.0, 1e-5), n_records=100, expected_batch_size=10, epochs=1, noise_multiplier=None,
    ...     adjacency="replace-one")
    >>> dpsgd_statement(plan, max_grad_norm=1.0, classes_given=True, seeded=True, apart="by hand").headline
    'not private: seeded noise (for tests and experiments only)'
    """
    guarantee, sigma, q = plan.guarantee, plan.noise_multiplier, plan.sample_rate
    replace = guarantee.adjacency == "replace-one"
    releases = tuple(releases)
    mu = unsampled_mu(sigma, plan.n_steps, guarantee.adjacency) if q == 1 and not seeded else None
    return PrivacyStatement(
        released="the parameters of a classifier trained by DP-SGD, and whatever is computed from them",
        unit="record",
        n_units=plan.n_records if replace else None,
        guarantee=dataclasses.replace(guarantee, kind="seeded") if seeded else guarantee,
        mechanism=mechanism_of(plan, max_grad_norm)
        + ("" if replace else f"; rate and steps from a nominal number of {plan.n_records:,} records"),
        accounting=(
            f"{guarantee.adjacency}: {_UNSAMPLED}"
            if q == 1
            else f"privacy loss distributions rounded towards a larger epsilon, {guarantee.adjacency}: "
            f"{_THEOREMS[guarantee.adjacency]}"
        )
        + ("" if replace or seeded else _beside_replace_one(plan)),
        noise_source=(
            "a fixed seed: NOT PRIVATE"
            if seeded
            else "the operating system's cryptographic generator, for the noise and for the Poisson samples"
        ),
        seeded=seeded,
        covered=("this training run, every intermediate step included",),
        not_covered=(
            "choices made by looking at other runs on the same records",
            "scaling of the features",
            "whether training failed, and how long it took",
        ),
        assumptions=_assumptions(plan, replace=replace, classes_given=classes_given, seeded=seeded, apart=apart),
        verify=_verify(plan),
        ledger_head="" if ledger is None or not releases else ledger.head_of(releases),
        ledger_releases=releases,
        mu=mu,
        rho=None if mu is None else mu * mu / 2,
        curve=() if seeded else _curve(plan),
    )


def _beside_replace_one(plan: Plan) -> str:
    """Return what the same run would say under this package's adjacency: no rule of thumb leads there."""
    other = dpsgd_epsilon(
        plan.noise_multiplier,
        delta=plan.guarantee.delta,
        sample_rate=plan.sample_rate,
        n_steps=plan.n_steps,
        interval=plan.interval,
    )
    return (
        f"; not comparable with replace-one epsilons: with the same noise, rate and steps that would be {other:.4g} "
        f"at delta {plan.guarantee.delta:g}"
    )


def _assumptions(plan: Plan, *, replace: bool, classes_given: bool, seeded: bool, apart: str) -> tuple[Assumption, ...]:
    number = "the number of private records" if replace else f"the nominal number of records ({plan.n_records:,})"
    return (
        Assumption(name="parameters", claim=f"{number} and all hyperparameters are public"),
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
            how="a sampler of its own, no shuffling",
            by="pate",
        ),
        Assumption(
            name="clipping",
            claim="no record moves another one's gradient",
            how=apart,
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
            how="they were passed as classes=" if classes_given else "it was read off the labels, at no charge",
            by="curator" if classes_given else "nobody",
        ),
    )


def _verify(plan: Plan) -> str:
    guarantee, sigma = plan.guarantee, plan.noise_multiplier
    if plan.sample_rate == 1:
        apart = "2" if guarantee.adjacency == "replace-one" else "1"
        exact = f"mu = {apart} sqrt({plan.n_steps}) / {sigma!r}"
        return f"{exact}, then epsilon at delta {guarantee.delta!r} (Balle, Wang 2018)"
    slack = f"{rounding_slack(plan.n_steps):.3g}"
    return (
        f"dp_accounting: PLDAccountant({ADJACENCIES[guarantee.adjacency].name}, {plan.interval:g}) composing "
        f"{plan.n_steps} times PoissonSampledDpEvent({plan.sample_rate!r}, GaussianDpEvent({sigma!r})), then "
        f"get_epsilon({guarantee.delta!r} - {slack}): the rest of delta pays for rounding. Or by "
        "Renyi divergence, where that says less"
    )


def _curve(plan: Plan) -> tuple[tuple[float, float], ...]:
    settings = {"sample_rate": plan.sample_rate, "n_steps": plan.n_steps, "interval": plan.interval}
    return tuple(
        (
            delta,
            dpsgd_epsilon(plan.noise_multiplier, delta=delta, adjacency=plan.guarantee.adjacency, **settings),  # type: ignore[arg-type]
        )
        for delta in CURVE_DELTAS
    )
