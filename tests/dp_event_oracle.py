"""What our charges are to dp_accounting, for cross-checks: its events know no rho*, so they cost at least as much."""

import math

import dp_accounting as dpa

from pate.mechanisms import ConfidentGNMax, LNMax, VoteCap


def mechanism_event(mechanism, n_queries, max_answers=None):
    """The released noisy counts, of which an argmax is post-processing; noise over the distance of two neighbours."""
    if isinstance(mechanism, VoteCap):  # a whole run is one Gaussian of squared shift 2 B
        return dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(mechanism.sigma / math.sqrt(2)), mechanism.max_votes)
    if isinstance(mechanism, LNMax):  # two counts move by one each, and their noises are independent
        return dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(mechanism.scale), 2 * n_queries)
    label = dpa.GaussianDpEvent(mechanism.sigma / math.sqrt(2))
    if isinstance(mechanism, ConfidentGNMax):
        test = dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(mechanism.sigma_threshold), n_queries)
        return dpa.ComposedDpEvent([test, dpa.SelfComposedDpEvent(label, max_answers or n_queries)])
    return dpa.SelfComposedDpEvent(label, n_queries)


def per_value(event):
    """The same mechanism's event with noise over the norm of one value: two values are at most twice that apart."""
    if isinstance(event, dpa.SelfComposedDpEvent):
        return dpa.SelfComposedDpEvent(per_value(event.event), event.count)
    if isinstance(event, dpa.ComposedDpEvent):
        return dpa.ComposedDpEvent([per_value(part) for part in event.events])
    return type(event)(2 * event.noise_multiplier)


def dominating_event(charge):
    """A Gaussian of the same mu under replace-one, rounded up (Dong, Roth, Su 2022)."""
    multiplier = 2 / math.sqrt(charge.mu_squared)
    while (2 / multiplier) ** 2 < charge.mu_squared:
        multiplier = math.nextafter(multiplier, 0)
    return dpa.GaussianDpEvent(multiplier)
