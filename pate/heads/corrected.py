"""A public model, corrected by what records say against it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn, Self

import numpy as np

from pate.core.checks import check_classes, check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.heads._moments import public_rows, softmax
from pate.heads.likelihood import LikelihoodHead
from pate.records._maps import fingerprint_of, is_own
from pate.records.spaces import BallotSpace


class CorrectedHead(LikelihoodHead):
    """The logits of any public model, and what rounds of residuals add to them, linear in the ballots' directions.

    Starts as the model itself; each :meth:`LikelihoodHead.updated` makes it the likeliest correction given all noisy
    sums (a Gaussian prior of ``tau`` around no correction). A student's rounds are such: it learns from public rows and
    what was released, so it is public, and records then vote with their disagreement with it, in a space of its own
    features (post-processing, and one more Gaussian sum of residuals).

    Parameters
    ----------
    space : fitted ballot space
        That the residuals are cast in. Takes the rows this head is asked with.
    tau : float
    max_iter : int

    Attributes
    ----------
    coef_, classes_
        See :class:`LikelihoodHead`.

    Examples
    --------
    >>> from pate.records import SignedSpace
    >>> z = np.array([[0.3, 2.0, -2.0], [-0.4, -1.0, 1.0], [0.9, 3.0, 0.0]])  # a feature, and logits of two classes
    >>> head = CorrectedHead.of(SignedSpace(1).fit(z), z, ("no", "yes"))
    >>> head.predict(z).tolist(), head.takes
    ([0, 1, 0], 'representation')
    """

    def __init__(self, space: BallotSpace | None = None, *, tau: float = 1.0, max_iter: int = 60) -> None:
        super().__init__(tau=tau, max_iter=max_iter)
        self.space = space

    @property
    def own_(self) -> bool:  # type: ignore[override]
        """Whether the space is pate's own: another one may look at other rows of a block."""
        return self.space is not None and is_own(self.space, ".records")

    @property
    def exact_(self) -> bool:  # type: ignore[override]
        """Whether a row's probabilities are the same to the last bit wherever it stands, as they are by its space."""
        return self.own_ and bool(getattr(self.space, "exact_", False))

    @classmethod
    def of(cls, space: BallotSpace, z_public: Any, classes: Sequence[Any], *, tau: float = 1.0) -> Self:
        """Return the model as it is, before any correction.

        Parameters
        ----------
        space : fitted ballot space
        z_public : array of shape (n_public, n_features + n_classes)
            Public rows as the space takes them; the last columns are the model's logits.
        classes : sequence of class values

        Raises
        ------
        InvalidInputError
            They do not go together.
        """
        head = cls(space, tau=check_real("tau", tau, low=0, low_open=True))
        head.classes_ = tuple(check_classes(classes))
        rows = np.asarray(z_public)
        z = public_rows(rows, rows.shape[-1], name="z_public")
        m = len(head.classes_)
        if z.shape[1] < m:
            raise InvalidInputError(f"z_public must end in the logits of {m} classes, got {z.shape[1]} columns.")
        head._features = space.transform(z)
        head.n_components_, head.takes, head.scale_, head.constant_ = z.shape[1], "representation", 1.0, 0.0
        head._offset = z[:, -m:]
        head._rounds = []
        head.coef_ = np.zeros((space.n_components_ + 1, m))
        return head

    def fit(self, release: Any, phi_public: Any, features: Any = None) -> NoReturn:
        """Refuse: it corrects a model, see :meth:`of`."""
        raise InvalidInputError("a corrected head starts from a public model. Say CorrectedHead.of(space, z, classes).")

    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of rows ``z`` as :meth:`of` takes them, shape (n_rows, n_classes)."""
        z = self._rows(phi)
        assert self.space is not None
        return z[:, -len(self.classes_) :] + self._product(self.space.transform(z))

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Refuse: the space and the model it corrects are no part of it."""
        raise InvalidInputError(
            "a corrected head is nothing without the model that it corrects, and cannot be kept alone."
        )

    def _decisive(self) -> dict[str, Any]:
        return super()._decisive() | {"space": fingerprint_of(self.space)}

    def _public_opinion(self) -> FloatArray:
        return softmax(self._offset + self._product(self._features))
