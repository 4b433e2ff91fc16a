"""On what terms something is let out: checked once, and carried whole from the door inwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pate.core.checks import check_choice, check_int, shown
from pate.core.tape import playing
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.mechanisms import GaussianSum
from pate.privacy.budget import Budget, check_budget
from pate.privacy.cost import Charge

ON_EXHAUSTED = ("raise", "abstain")


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms:
    """What a release may cost, who pays, and what is said of it. Public, but for the seed.

    Attributes
    ----------
    budget : Budget
        The most this release may cost.
    ledger : Ledger or None
        Also stay within its total, and charge there.
    max_answers : int or None
        Cap on answers for mechanisms that may refuse; None takes the most the budget allows.
    on_exhausted : {"raise", "abstain"}
        When the budget does not buy all queries.
    noise_seed : int or None
        For tests and experiments only; whoever knows it can take the noise off.
    tuning : str
        What was tuned on the private data, for the statement.
    stated : mapping of str to str, or None
        What a person states for the statement; whether it has a place there is seen by
        :func:`pate.release.check_release_stated`, once unit and classes are known.
    on_tape : bool
        Whether they were made in a replay (:func:`pate.audit.replay`), whose noise is known like a seed's.
    counts : tuple of GaussianSum
        What is charged with the labels, before the first of them: counts of the records that a model of these labels is
        right about, drawn once, after it has learnt.

    Raises
    ------
    InvalidInputError
        One of them is out of range.

    Examples
    --------
    >>> ReleaseTerms(budget=Budget(1.0, 1e-5), max_answers=9).seeded
    False
    >>> ReleaseTerms(budget=Budget(1.0, 1e-5), on_exhausted="stop")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: on_exhausted must be one of 'raise', 'abstain', got 'stop'.
    """

    budget: Budget
    ledger: Ledger | None = None
    max_answers: int | None = None
    on_exhausted: str = "raise"
    noise_seed: int | None = field(default=None, repr=False)
    tuning: str = ""
    stated: Mapping[str, str] | None = None
    on_tape: bool = field(default_factory=lambda: playing() is not None, repr=False)
    counts: tuple[GaussianSum, ...] = ()

    def __post_init__(self) -> None:
        check_budget(self.budget)
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise InvalidInputError(
                f"ledger must be a pate.Ledger or None, got {shown(self.ledger)}. Pass ledger=Ledger(path)."
            )
        check_choice("on_exhausted", self.on_exhausted, ON_EXHAUSTED)
        if not isinstance(self.tuning, str):  # str(None) would be somebody's word
            raise InvalidInputError(f"tuning must be a text, empty where nobody says, got {shown(self.tuning)}.")
        for name, low in (("max_answers", 1), ("noise_seed", 0)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_int(name, value, low=low))

    @property
    def caps(self) -> dict[str, object]:
        """What beside the budget decides how much is bought: part of what a request is recognised by.

        Examples
        --------
        >>> ReleaseTerms(budget=Budget(1.0, 1e-5), max_answers=9).caps
        {'max_answers': 9, 'on_exhausted': 'raise'}
        """
        said: dict[str, object] = {"max_answers": self.max_answers, "on_exhausted": self.on_exhausted}
        return said | {"counts": [m.noise_multiplier for m in self.counts]} if self.counts else said

    def with_counts(self, labels: Charge) -> Charge:
        """Return what labels of this charge cost together with the counts: charges add up, whichever comes when.

        Examples
        --------
        >>> terms = ReleaseTerms(budget=Budget(1.0, 1e-5), counts=(GaussianSum(2.0),))
        >>> terms.with_counts(Charge.zero()).mu_squared
        0.25
        """
        for mechanism in self.counts:
            labels = labels + mechanism.charge(1)
        return labels

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated: then nothing is private."""
        return self.noise_seed is not None or self.on_tape or playing() is not None
