"""The exact law of a noisy maximum and its divergences, as methods of the mechanisms that have one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from pate.privacy.convert import DEFAULT_ORDERS

if TYPE_CHECKING:
    from pate.privacy.exact import GaussianNoise, LaplaceNoise, ThresholdTest


class ExactParameters(TypedDict):
    """What the functions of :mod:`pate.privacy.exact` need to know of a mechanism."""

    noise: GaussianNoise | LaplaceNoise
    threshold: ThresholdTest | None


class ExactLaw(ABC):
    """Mixin of the mechanisms that let out only the name of a winner, whose law is known exactly.

    Guarantees
    ----------
    Adjacency: one vote is replaced. Every number here is a function of the votes, hence private: no method of this
    class may be called on votes outside the curator's walls.

    Examples
    --------
    >>> from pate import GNMax, NoisyHistogram
    >>> isinstance(GNMax(sigma=40.0), ExactLaw), isinstance(NoisyHistogram(sigma=40.0), ExactLaw)
    (True, False)
    """

    @abstractmethod
    def exact_parameters(self) -> ExactParameters:
        """Return noise and threshold test, as keyword arguments for :mod:`pate.privacy.exact`."""

    def exact_rdp(self, counts: npt.ArrayLike, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
        """Return the exact Renyi divergence of each query: the largest over all neighbours and both directions.

        Source: the project's accounting page, sections A and C; :mod:`pate.privacy.exact`. For
        :class:`~pate.ConfidentGNMax` it is the divergence of the joint mechanism of n_classes + 1 outcomes.

        Parameters
        ----------
        counts : int array of shape (n_queries, n_classes)
            Votes per class. **Sensitive**, and so is what is returned.
        orders : array-like of shape (n_orders,)
            Renyi orders above 1.

        Returns
        -------
        array of shape (n_queries, n_orders)
            In nats, accurate to 1e-9 relative. Sums over fixed queries bound the run; for a guarantee pass
            them through :func:`pate.privacy.exact.upper_bound`, as :func:`pate.account` does.

        Raises
        ------
        InvalidInputError
            Counts that are not whole numbers >= 0 of at least two classes, or orders not above 1.

        Examples
        --------
        >>> from pate import GNMax
        >>> GNMax(sigma=40.0).exact_rdp([[250, 0], [125, 125]], [2.0, 8.0]).round(9)
        array([[1.55000e-07, 8.96000e-07], [7.95760e-04, 3.16549e-03]])
        """
        from pate.privacy.exact import exact_rdp

        return exact_rdp(counts, orders, **self.exact_parameters())

    def log_probs(self, counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the exact log probability of every outcome.

        Parameters
        ----------
        counts : int array of shape (n_queries, n_classes)
            **Sensitive**, and so is what is returned.

        Returns
        -------
        array of shape (n_queries, n_classes), or (n_queries, n_classes + 1) for a mechanism that may refuse
            Natural logarithms; the refusal stands last. Good to 1e-12 relative in the probabilities.

        Raises
        ------
        InvalidInputError
            Counts that are not whole numbers >= 0 of at least two classes.

        Examples
        --------
        >>> from pate import ConfidentGNMax
        >>> np.exp(ConfidentGNMax(threshold=2, sigma_threshold=1.0, sigma=1.0).log_probs([[2, 2]])).round(6)
        array([[0.25, 0.25, 0.5 ]])
        """
        from pate.privacy.exact import log_probs

        return log_probs(counts, **self.exact_parameters())
