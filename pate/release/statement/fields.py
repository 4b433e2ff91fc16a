"""What a statement holds, each entry checked where it comes in; its words and its JSON are made elsewhere."""

from __future__ import annotations

import math
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

from pate._core.provenance import git_commit, now
from pate._core.version import version_of
from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.mechanisms import VIEWERS
from pate.privacy.convert import format_up, gdp_to_epsilon
from pate.privacy.words import Guarantee
from pate.release.statement.plain import (
    LARGEST,
    as_plain_text,
    check_guarantee,
    check_keys,
    check_number,
    check_text,
    check_texts,
    check_whole,
)


@dataclass(frozen=True)
class Part:
    """An entry of a statement that has entries of its own, and is a dictionary in its JSON."""

    #: What it is called where no place is named.
    _called: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Any, *, where: str = "") -> Self:
        """Return the part behind its dictionary, strictly: no entry more, and none less."""
        return cls(**check_keys(where or cls._called, values, [f.name for f in fields(cls)]))

    @classmethod
    def listed(cls, name: str, values: Any) -> tuple[Self, ...]:
        """Return a list of such parts, given as such or as dictionaries."""
        found = enumerate(values)
        return tuple(one if isinstance(one, cls) else cls.from_dict(one, where=f"{name}[{i}]") for i, one in found)


# What a guarantee rests on, point by point, and who vouches for each: this software, a person, or no one.

#: Who vouches for an assumption.
BY = {"pate": "seen to by pate", "curator": "stated by the curator", "nobody": "open: nobody vouches for it"}
#: What a person may name besides assumptions; fields of the statement.
NAMED = ("dataset", "organisation", "purpose")
_WORDS = "the curator states: "


@dataclass(frozen=True)
class Assumption(Part):
    """Something the guarantee rests on, and how it was ensured.

    Attributes
    ----------
    name : str
        Short, the same in every statement.
    claim : str
        What has to be true.
    how : str
        How it was ensured.
    by : {"pate", "curator", "nobody"}
        Who vouches. ``"pate"`` is set by the code that saw to it in this very run, ``"curator"`` where a person typed
        or confirmed it; whatever nobody said is ``"nobody"``: open.

    Examples
    --------
    >>> print(
    ...     Assumption(
    ...         name="noise",
    ...         claim="nobody can repeat the noise",
    ...         how="the system's generator",
    ...         by="pate",
    ...     )
    ... )
    nobody can repeat the noise (seen to by pate: the system's generator)
    >>> print(Assumption(name="one person", claim="one person is one record"))
    one person is one record (open: nobody vouches for it)
    """

    name: str
    claim: str
    how: str = ""
    by: str = "nobody"
    _called = "an assumption"

    def __post_init__(self) -> None:
        for key in ("name", "claim", "how"):
            check_text(f"assumption {key}", getattr(self, key))
        if self.by not in tuple(BY):
            raise InvalidInputError(f"an assumption's by must be one of {', '.join(BY)}. Say who vouches for it.")

    def __str__(self) -> str:
        return f"{self.claim} ({BY[self.by]}{': ' if self.how else ''}{self.how})"

    def vouched(self, how: str, by: str) -> Assumption:
        """Return the assumption with another word on how it was ensured.

        An open entry replaces no one's statement; pate's and a person's stand side by side, each by its name.
        """
        if by == "nobody" and self.by != "nobody":
            return self
        if {by, self.by} == {"pate", "curator"}:
            seen, said = (how, self.how) if by == "pate" else (self.how, how)
            return replace(self, how=as_plain_text(f"{seen}; {_WORDS}{said}"), by="pate")
        if by == self.by == "curator" and how != self.how:
            how = as_plain_text(f"{self.how}; {how}")
        return replace(self, how=how, by=by)


#: Of whom a statement protects, where units are records.
ONE_RECORD = "one person is one record: who has several is protected for each of them, not for all together"
CLASSES_NAMED = Assumption("classes", "the set of classes is public knowledge", "they were named beforehand", "curator")


def drawn_noise(
    seeded: bool,
    claim: str = "nobody can predict or repeat the noise",
    how: str = "drawn from the operating system's generator, once, when it was used",
    fixed: str = "it is a fixed seed, which anybody can repeat: the assumption does NOT hold",
) -> Assumption:
    """Return the assumption about the noise: pate draws it, and knows."""
    return Assumption("noise", claim, fixed if seeded else how, "nobody" if seeded else "pate")


def check_stated(stated: Mapping[str, str] | None, names: Iterable[str]) -> dict[str, str]:
    """Return what a person states, or refuse it before anything is trained or charged."""
    if stated is None:
        return {}
    if not isinstance(stated, Mapping):
        raise InvalidInputError(
            f"stated must be a dictionary of names to texts, got a {type(stated).__name__}. For example "
            "{'one person': 'patients are unique by their insurance number'}."
        )
    known = (*NAMED, *names)
    for name, text in stated.items():
        if name not in known:
            shown = ascii(name[:40]) if isinstance(name, str) else f"a {type(name).__name__}"
            raise InvalidInputError(
                f"stated has the unknown entry {shown}. A person may state: {', '.join(known)}. What pate sees to "
                "itself (the noise) nobody can state."
            )
        if not check_text(f"stated[{name!r}]", text).strip():
            raise InvalidInputError(f"stated[{name!r}] must say something. Leave it out to leave it open.")
    return dict(stated)


# What speaks against the use of released labels, as a statement tells it: a kind, and a sentence with its remedy.

#: What there may be to say.
KINDS = (
    "classes never named",
    "below the commonest",
    "few public rows",
    "few answers",
    "no better than the mean",
    "no interval",
)
#: A statement is a page.
MOST_DOUBTS = 20


@dataclass(frozen=True, kw_only=True)
class Doubt(Part):
    """A reason not to rely on released labels; public, as it follows from what was released and from public rows.

    Parameters
    ----------
    kind : str
        One of ``KINDS``, such as "classes never named".
    sentence : str
        What is so, and what helps.
    """

    kind: str
    sentence: str
    _called = "a doubt"

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise InvalidInputError(f"a doubt's kind must be one of {', '.join(KINDS)}. Name its kind.")
        check_text("a doubt's sentence", self.sentence)

    def __str__(self) -> str:
        return self.sentence


def check_doubts(values: Any) -> tuple[Doubt, ...]:
    """Return a list of doubts, given as such or as dictionaries."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) > MOST_DOUBTS:
        raise InvalidInputError(f"doubts must be a list of at most {MOST_DOUBTS} doubts. Put them into a list.")
    return Doubt.listed("doubts", values)


# What a statement may say of an audit: what was tried, and whether the claim stood; never what was found.

#: The layers of an audit, from certain to suggestive, and what each did.
LAYERS = {
    "replay": "inner states compared on two neighbouring data sets",
    "law": "what is drawn compared with the exact law",
    "pair": "the exact divergence of two neighbouring data sets",
    "game": "an attacker who tells two worlds apart",
    "attack": "membership inference",
}
#: A statement is a page.
MOST_AUDITS = 40


@dataclass(frozen=True, kw_only=True)
class CitedAudit(Part):
    """An audit as it may be cited whatever the data were.

    Attributes
    ----------
    layer : {"replay", "law", "pair", "game", "attack"}
    claim : str
        What was to be refuted.
    tried : str
        What was tried.
    stood : bool
        Whether the claim stood. That it did proves nothing; that it did not is proof against it.
    """

    layer: str
    claim: str
    tried: str
    stood: bool
    _called = "a cited audit"

    def __post_init__(self) -> None:
        if not isinstance(self.layer, str) or self.layer not in LAYERS:
            raise InvalidInputError(f"a cited audit's layer must be one of {', '.join(LAYERS)}. Name its layer.")
        check_text("a cited audit's claim", self.claim)
        check_text("a cited audit's tried", self.tried)
        if not isinstance(self.stood, bool):
            raise InvalidInputError("a cited audit's stood must be True or False.")

    def __str__(self) -> str:
        word = "the claim stood" if self.stood else "the claim was REFUTED"
        return f"{self.layer} ({LAYERS[self.layer]}): tried {self.tried}, against {self.claim}; {word}"


def check_audits(values: Any) -> tuple[CitedAudit, ...]:
    """Return a list of cited audits, given as such or as what ``cited()`` returns."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) > MOST_AUDITS:
        raise InvalidInputError(
            f"audits must be a list of at most {MOST_AUDITS} audits, each as its cited() gives it. Put them into a "
            "list, or cite those that matter."
        )
    return CitedAudit.listed("audits", values)


# How often a released model is right, as a statement tells it: measured with noise, corrected, with its interval.

#: Whose accuracy is reported, by the statement's unit.
OF_UNIT = {"record": "the private records", "group": "the private persons' records (each person counts as one)"}
#: Classes that a statement lists at most.
MOST_CLASSES = 10_000


@dataclass(frozen=True, kw_only=True)
class ClassRecall(Part):
    """How many records of one class the model is right about; nothing where noise leaves too little to tell.

    Parameters
    ----------
    name : str
        The class.
    estimate, low, high : float or None
        Shares; all None where the class's noisy count is too small.

    Examples
    --------
    >>> print(ClassRecall(name="yes", estimate=0.8, low=0.7, high=0.9))
    yes 80.0% (70.0 to 90.0)
    >>> print(ClassRecall(name="no"))
    no: too few to tell
    """

    name: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    _called = "a class"

    def __post_init__(self) -> None:
        check_text("a measured class's name", self.name)
        given = (self.low, self.estimate, self.high)
        if any(value is not None for value in given):
            _check_interval(self, f"recall of {self.name[:40]!r}")

    def __str__(self) -> str:
        if self.estimate is None or self.low is None or self.high is None:
            return f"{self.name}: too few to tell"
        return f"{self.name} {self.estimate:.1%} ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True, kw_only=True)
class MeasuredAccuracy(Part):
    """The accuracy of a released model, measured by a noisy count on the private records and corrected. Public.

    It estimates the accuracy on new records, drawn as the private ones were, although the count is over the records
    that the model learnt from: hence the correction (:func:`pate.release.measured_accuracy`).

    Parameters
    ----------
    estimate, low, high : float
        Share of records that the model is right about, and its interval. With persons as units the mean over persons of
        that share.
    level : float
        Share of such intervals that hold the true one.
    unit : {"record", "group"}
    n : int or None
        Units that were counted over; None where their number is private, and was counted with noise too.
    counted : float
        The noisy share before the correction. May lie outside 0 to 1.
    correction : float
        What was taken off it.
    sigma : float
        Standard deviation of the noise on every count, in units.
    share : float
        Part of the release's mu^2 that all counts cost; of one that is no Gaussian, mu^2 of the counts over that which
        the budget alone would buy.
    by_class : tuple of ClassRecall
        Empty where no cells by class were asked for.

    Raises
    ------
    InvalidInputError
        A number out of its range.

    Examples
    --------
    >>> found = MeasuredAccuracy(
    ...     estimate=0.873,
    ...     low=0.861,
    ...     high=0.885,
    ...     unit="record",
    ...     n=9000,
    ...     counted=0.88,
    ...     correction=0.007,
    ...     sigma=18.7,
    ...     share=0.04,
    ... )
    >>> print(found)
    right on 87.3% of the private records, 86.1 to 88.5 (95%)
    >>> MeasuredAccuracy.from_dict(found.to_dict()) == found
    True
    """

    estimate: float
    low: float
    high: float
    unit: str
    n: int | None
    counted: float
    correction: float
    sigma: float
    share: float
    level: float = 0.95
    by_class: tuple[ClassRecall, ...] = ()
    _called = "the statement's measured"

    def __post_init__(self) -> None:
        _check_interval(self, "measured accuracy")
        if self.unit not in tuple(OF_UNIT):
            raise InvalidInputError(f"measured unit must be one of {', '.join(OF_UNIT)}. Say what was counted.")
        if self.n is not None:
            object.__setattr__(self, "n", check_whole("measured n", self.n, low=1))
        for name, low, high in (
            ("counted", -LARGEST, LARGEST),
            ("correction", -1, 1),
            ("sigma", 0, LARGEST),
            ("share", 0, 1),
            ("level", 0.5, 1),
        ):
            object.__setattr__(self, name, check_number(f"measured {name}", getattr(self, name), low=low, high=high))
        held = self.by_class
        if not isinstance(held, tuple | list) or len(held) > MOST_CLASSES:
            raise InvalidInputError(f"measured by_class must list at most {MOST_CLASSES} classes, each a ClassRecall.")
        if not all(isinstance(one, ClassRecall) for one in held):
            raise InvalidInputError("measured by_class must list ClassRecall, one per class. Make them of its names.")
        object.__setattr__(self, "by_class", tuple(held))

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return (
            f"right on {self.estimate:.1%} of {OF_UNIT[self.unit]}, {100 * self.low:.1f} to {100 * self.high:.1f} "
            f"({self.level:.0%})"
        )

    def rows(self) -> tuple[str, ...]:
        """Return what a statement says of it: the measurement, what it is, and one line per class."""
        of = "" if self.n is None else f" of {self.n:,}"
        what = (
            f"an estimate: a count{of} with Gaussian noise of standard deviation {self.sigma:.4g}, paid for within the "
            f"same guarantee ({self.share:.2g} of its mu^2); corrected by {100 * self.correction:.1f} points for being "
            "measured on records that the model learnt from, so that it speaks of others drawn alike"
        )
        return str(self), what, *(f"right about class {one}" for one in self.by_class)

    @classmethod
    def from_dict(cls, values: Any, *, where: str = "") -> Self:
        """Return the measurement behind its dictionary, strictly.

        Raises
        ------
        InvalidInputError
            An entry is unknown, missing or of another kind.
        """
        held = check_keys(where or cls._called, values, [f.name for f in fields(cls)])["by_class"]
        if isinstance(held, str) or not isinstance(held, tuple | list):
            raise InvalidInputError(
                "the statement's measured by_class must be a list. Ask for the file as it was made."
            )
        return cls(**{**values, "by_class": ClassRecall.listed("by_class", held)})


#: With a larger standard error R2 counts as not known.
_MOST_R2_ERROR = 0.3


@dataclass(frozen=True, kw_only=True)
class MeasuredErrors(Part):
    """How far a released model of a number is off: measured with noise, on records that it did not learn from or did.

    All of it is public.

    Parameters
    ----------
    mae, mae_error : float
        Mean absolute error, in units of the target, and its standard error by noise and sampling.
    r2, r2_error : float or None
        Share of the target's variance that the model explains; None where that variance is not known well enough.
    unit : {"record", "group"}
    n : int
        Units that were asked, about so many of persons.
    clip : float
        Errors beyond it count as so large.
    held_out : bool
        Whether those records were held out of training; of DP-SGD they were not.

    Examples
    --------
    >>> print(
    ...     MeasuredErrors(
    ...         mae=8.2,
    ...         mae_error=0.1,
    ...         r2=0.45,
    ...         r2_error=0.01,
    ...         unit="record",
    ...         n=3000,
    ...         clip=60.0,
    ...     )
    ... )
    off by 8.2 (standard error 0.1) on average, R2 0.450 (standard error 0.010); errors above 60 count as that
    """

    mae: float
    mae_error: float
    r2: float | None
    r2_error: float | None
    unit: str
    n: int
    clip: float
    held_out: bool = True
    _called = "the statement's errors"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        found = super().to_dict()
        if self.held_out:  # as before there was another way
            del found["held_out"]
        return found

    @classmethod
    def from_dict(cls, values: Any, *, where: str = "") -> Self:
        """Return the errors behind their dictionary, strictly."""
        said = isinstance(values, Mapping) and "held_out" in values
        there = [f.name for f in fields(cls) if f.name != "held_out" or said]
        return cls(**check_keys(where or cls._called, values, there))

    def __post_init__(self) -> None:
        if not isinstance(self.held_out, bool):
            raise InvalidInputError("measured held_out must be true or false. Ask for the file as it was written.")
        if self.unit not in tuple(OF_UNIT):
            raise InvalidInputError(f"measured unit must be one of {', '.join(OF_UNIT)}. Say what was counted.")
        object.__setattr__(self, "n", check_whole("measured n", self.n, low=1))
        for name, low in (("mae", 0), ("mae_error", 0), ("r2", -LARGEST), ("r2_error", 0), ("clip", 0)):
            value = getattr(self, name)
            if value is not None or name in ("mae", "mae_error", "clip"):
                object.__setattr__(self, name, check_number(f"measured {name}", value, low=low, high=LARGEST))

    def __str__(self) -> str:
        of = f", R2 {self.r2:.3f} (standard error {self.r2_error:.3f})" if self.is_known else ", R2 not known"
        clipped = f"; errors above {self.clip:.4g} count as that"
        return f"off by {self.mae:.4g} (standard error {self.mae_error:.2g}) on average{of}{clipped}"

    @property
    def is_known(self) -> bool:
        """Whether R2 is known: no R2 is above 1, and with a large standard error one near it says nothing."""
        return self.r2 is not None and self.r2_error is not None and self.r2_error <= _MOST_R2_ERROR

    def rows(self) -> tuple[str, ...]:
        """Return what a statement says of it: the measurement, and what it is."""
        of = "held out of training" if self.held_out else "that it learnt from"
        what = (
            f"an estimate: sums over {self.n:,} {self.unit}s {of}, with Gaussian noise, paid within "
            f"the same guarantee; where some errors are larger than {self.clip:.4g}, the true ones are larger than this"
        )
        return str(self), what

    def doubts(self, *, interval: bool = True) -> tuple[Doubt, ...]:
        """Return what speaks against relying on the model: these errors do not tell it from the mean of all.

        ``interval`` says whether the model gives intervals.
        """
        of = f"{self.n:,} held-out {self.unit}s" if self.held_out else f"{self.n:,} {self.unit}s"
        none = Doubt(
            kind="no interval",
            sentence=f"the model gives no intervals: noise in the histogram of its errors, of {of}, is as large as the "
            "twentieth of them that would lie beyond an end. Take more records or a larger budget.",
        )
        hidden = () if interval else (none,)
        known, r2, error = self.is_known, self.r2 or 0.0, self.r2_error or 0.0
        if known and r2 > 2 * error:
            return hidden
        found = f"is {r2:.2f} with standard error {error:.2f}" if known else "is not known"
        sentence = (
            f"the model may predict no better than the mean of all records: its R2 {found}, by {of}. Take more "
            "records, a larger budget or a narrower range."
        )
        return (Doubt(kind="no better than the mean", sentence=sentence), *hidden)


#: Tiers that a statement lists at most.
MOST_TIERS = 40
#: What rounding may make of a tier's numbers, relatively.
_ROUNDED = 1e-9


@dataclass(frozen=True, kw_only=True)
class TierGuarantee(Part):
    """The guarantee for a unit of one tier, if each tier has its own budget. Public.

    Parameters
    ----------
    name : str
    n : int
        Units in it.
    weight : float
        By which what they contribute is scaled; above 0, at most 1.
    epsilon, delta : float
    mu : float
        A unit of it is mu-GDP.

    Examples
    --------
    >>> print(
    ...     TierGuarantee(
    ...         name="basic", n=900, weight=0.25, epsilon=1.0, delta=1e-5, mu=0.268
    ...     )
    ... )
    basic: epsilon = 1 at delta = 1e-05 (0.268-GDP) for each of 900, who weigh 0.25
    """

    name: str
    n: int
    weight: float
    epsilon: float
    delta: float
    mu: float
    _called = "a tier"

    def __post_init__(self) -> None:
        check_text("a tier's name", self.name)
        object.__setattr__(self, "n", check_whole("a tier's n", self.n, low=0))
        for name, high in (("weight", 1), ("epsilon", LARGEST), ("delta", 1), ("mu", LARGEST)):
            object.__setattr__(self, name, check_number(f"a tier's {name}", getattr(self, name), low=0, high=high))

    def __str__(self) -> str:
        return (
            f"{self.name}: epsilon = {format_up(self.epsilon)} at delta = {format_up(self.delta, 6)} "
            f"({format_up(self.mu)}-GDP) for each of {self.n:,}, who weigh {self.weight:.3g}"
        )


@dataclass(frozen=True, kw_only=True)
class ViewerGuarantee(Part):
    """What one who looks learns at most, where several institutions take part and each knows its own noise. Public.

    Parameters
    ----------
    viewer : {"coalition", "coordinator", "outsider"}
    n_parties : int
        So many parties of the run put together what they have; 0: none, and only what is published is seen.
    sees : str
        What they have, in words.
    epsilon, delta : float
    advantage : float
        True and false positive rate of any test between two neighbours differ by at most so much.

    Examples
    --------
    >>> print(
    ...     ViewerGuarantee(
    ...         viewer="coalition",
    ...         n_parties=3,
    ...         sees="sums",
    ...         epsilon=1.0,
    ...         delta=1e-5,
    ...         advantage=0.1,
    ...     )
    ... )
    coalition of 3: epsilon = 1 at delta = 1e-05, a guess is right at most 55 times in 100; sees sums
    """

    viewer: str
    n_parties: int
    sees: str
    epsilon: float
    delta: float
    advantage: float
    _called = "a viewer"

    def __post_init__(self) -> None:
        if not isinstance(self.viewer, str) or self.viewer not in VIEWERS:
            raise InvalidInputError(f"a viewer's viewer must be one of {', '.join(VIEWERS)}. Name who looks.")
        object.__setattr__(self, "n_parties", check_whole("a viewer's n_parties", self.n_parties, low=0))
        check_text("a viewer's sees", self.sees)
        for name, high in (("epsilon", LARGEST), ("delta", 1), ("advantage", 1)):
            object.__setattr__(self, name, check_number(f"a viewer's {name}", getattr(self, name), low=0, high=high))

    @property
    def success(self) -> float:
        """How often a guess between two neighbours, each as likely, is right at most."""
        return (1 + self.advantage) / 2

    def __str__(self) -> str:
        who = f"{self.viewer} of {self.n_parties}" if self.viewer == "coalition" else self.viewer
        at = f"epsilon = {format_up(self.epsilon)} at delta = {format_up(self.delta, 6)}"
        right = f"a guess is right at most {format_up(100 * self.success)} times in 100"
        return f"{who}: {at}, {right}; sees {self.sees}"


def _charged(tier: TierGuarantee, *, of: TierGuarantee) -> bool:
    """Whether a tier is promised no more than follows from its weight, but for rounding (:mod:`pate.privacy.tiers`)."""
    if not tier.weight > 0 or tier.mu * of.weight < of.mu * tier.weight * (1 - _ROUNDED):
        return False
    return tier.epsilon >= gdp_to_epsilon(tier.mu, tier.delta) * (1 - _ROUNDED) - _ROUNDED


def _check_interval(held: Any, name: str) -> None:
    for part in ("low", "estimate", "high"):
        value = check_number(f"{name} {part}", getattr(held, part), low=0, high=1)
        object.__setattr__(held, part, value)
    if not (held.low <= held.estimate <= held.high and math.isfinite(held.estimate)):
        raise InvalidInputError(f"{name} must have low <= estimate <= high. Ask for the file as it was written.")


#: Figures of a label, each with its standard error.
_FIGURES = ("accuracy", "precision", "recall", "f1")


@dataclass(frozen=True, kw_only=True)
class LabelFigures(Part):
    """How good a released model is at one of several labels; None where noise leaves too little to tell. Public.

    Parameters
    ----------
    name : str
    prevalence : float
        Share of the private units that have the label, as released with noise.
    accuracy, precision, recall, f1 : float or None
        In [0, 1]; ``NAME_error`` is its standard error by noise and sampling.

    Examples
    --------
    >>> print(
    ...     LabelFigures(
    ...         name="ill",
    ...         prevalence=0.1,
    ...         accuracy=0.9,
    ...         accuracy_error=0.01,
    ...         precision=0.5,
    ...         precision_error=0.02,
    ...         recall=None,
    ...         recall_error=None,
    ...         f1=0.52,
    ...         f1_error=0.02,
    ...     )
    ... )
    ill (10.0%): accuracy 0.900 (0.010), precision 0.500 (0.020), recall unknown, F1 0.520 (0.020)
    """

    name: str
    prevalence: float
    accuracy: float
    accuracy_error: float
    precision: float | None
    precision_error: float | None
    recall: float | None
    recall_error: float | None
    f1: float | None
    f1_error: float | None
    _called = "a label's figures"

    def __post_init__(self) -> None:
        check_text("a label's name", self.name)
        given = {"prevalence": 1.0} | dict.fromkeys(_FIGURES, 1.0) | {f"{name}_error": LARGEST for name in _FIGURES}
        for name, most in given.items():
            if getattr(self, name) is not None or name in ("prevalence", "accuracy", "accuracy_error"):
                object.__setattr__(self, name, check_number(f"label {name}", getattr(self, name), low=0, high=most))
        if any((getattr(self, name) is None) != (getattr(self, f"{name}_error") is None) for name in _FIGURES):
            raise InvalidInputError(
                "a label's figures must each have a standard error. Ask for the file as it was made."
            )

    def __str__(self) -> str:
        return f"{self.name} ({self.prevalence:.1%}): " + ", ".join(map(self._figure, _FIGURES))

    def _figure(self, name: str) -> str:
        value, error = getattr(self, name), getattr(self, f"{name}_error")
        said = "F1" if name == "f1" else name
        return f"{said} unknown" if value is None else f"{said} {value:.3f} ({error:.3f})"


@dataclass(frozen=True, kw_only=True)
class MeasuredQuality(Part):
    """How good a released model of several labels is: counted with noise on records that it did not learn from. Public.

    Parameters
    ----------
    labels : tuple of LabelFigures
    f1, f1_error : float or None
        Of all labels' counts together (micro F1), and its standard error; None where noise hides it.
    unit : {"record", "group"}
    n : int
        Held-out units, about so many of persons.

    Examples
    --------
    >>> quality = MeasuredQuality(
    ...     labels=[
    ...         {
    ...             "name": "ill",
    ...             "prevalence": 0.1,
    ...             "accuracy": 0.9,
    ...             "accuracy_error": 0.01,
    ...             "precision": None,
    ...             "precision_error": None,
    ...             "recall": None,
    ...             "recall_error": None,
    ...             "f1": None,
    ...             "f1_error": None,
    ...         }
    ...     ],
    ...     f1=0.52,
    ...     f1_error=0.02,
    ...     unit="record",
    ...     n=900,
    ... )
    >>> print(quality)
    right in 90.0% of labels; micro F1 0.520 (0.020), macro F1 unknown, as noise hides 1 of 1 labels
    """

    labels: tuple[LabelFigures, ...]
    f1: float | None
    f1_error: float | None
    unit: str
    n: int
    _called = "the statement's quality"

    def __post_init__(self) -> None:
        if self.unit not in tuple(OF_UNIT):
            raise InvalidInputError(f"measured unit must be one of {', '.join(OF_UNIT)}. Say what was counted.")
        if isinstance(self.labels, str) or not isinstance(self.labels, Sequence) or len(self.labels) > MOST_CLASSES:
            raise InvalidInputError("the statement's quality must list labels. Ask for the file as it was made.")
        object.__setattr__(self, "labels", LabelFigures.listed("labels", self.labels))
        object.__setattr__(self, "n", check_whole("measured n", self.n, low=1))
        for name, most in (("f1", 1.0), ("f1_error", LARGEST)) if self.f1 is not None else ():
            object.__setattr__(self, name, check_number(f"measured {name}", getattr(self, name), low=0, high=most))
        if not self.labels or (self.f1 is None) != (self.f1_error is None):
            raise InvalidInputError(
                "the statement's quality must be of a label or more, and F1 have an error. Leave it out."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return super().to_dict() | {"labels": [one.to_dict() for one in self.labels]}

    @property
    def macro_f1(self) -> tuple[float, float] | None:
        """The mean F1 of the labels, and its standard error; None where noise hides that of any."""
        known = [(one.f1, one.f1_error) for one in self.labels if one.f1 is not None and one.f1_error is not None]
        if len(known) < len(self.labels):  # of the others alone it would be too good: rare labels are the hard ones
            return None
        return sum(f1 for f1, _ in known) / len(known), math.sqrt(sum(error**2 for _, error in known)) / len(known)

    def __str__(self) -> str:
        right = sum(one.accuracy for one in self.labels) / len(self.labels)
        hidden = sum(one.f1 is None for one in self.labels)
        micro = "unknown" if self.f1 is None else f"{self.f1:.3f} ({self.f1_error:.3f})"
        macro = f"unknown, as noise hides {hidden} of {len(self.labels)} labels"
        if self.macro_f1 is not None:
            macro = "{:.3f} ({:.3f})".format(*self.macro_f1)
        return f"right in {right:.1%} of labels; micro F1 {micro}, macro F1 {macro}"

    def rows(self) -> tuple[str, ...]:
        """Return what a statement says of it: the measurement, what it is, and each label's figures."""
        what = (
            f"an estimate: counts over {self.n:,} {self.unit}s held out of training, with Gaussian noise, paid within "
            "the same guarantee; standard errors in brackets"
        )
        return (str(self), what, *map(str, self.labels))

    def doubts(self) -> tuple[Doubt, ...]:
        """Return what speaks against relying on the model: its F1 is not told from that of labels drawn at random."""
        common = sum(one.prevalence for one in self.labels)
        chance = sum(one.prevalence**2 for one in self.labels) / common if common else 1.0
        if self.f1 is not None and self.f1_error is not None and self.f1 > chance + 2 * self.f1_error:
            return ()
        sentence = (
            f"the model may predict labels no better than by how common they are: by {self.n:,} held-out {self.unit}s, "
            f"{self}. Take more records, a larger budget or fewer labels."
        )
        return (Doubt(kind="no better than the mean", sentence=sentence),)


UNITS = {
    "record": "one record (one row of the private data)",
    "group": "one group (all rows of one person, by the group column)",
}
#: What a statement says of tuning when nothing was stated.
OPEN_TUNING = (
    "open: nobody stated what was tuned on the private data, nor how many other fits (a grid search, another run) were "
    "made on them; this statement is of one release, and only a ledger counts them all"
)
#: Named in a statement when they were imported: then they may have had a part in it.
_IF_IMPORTED = {"sklearn": "scikit-learn", "torch": "torch", "opacus": "opacus"}


def versions() -> dict[str, str]:
    """Return the versions a reader needs to repeat the computation; nothing is imported for it.

    Examples
    --------
    >>> {"numpy", "pate", "python", "scipy"} <= set(versions())
    True
    """
    used = [name for module, name in _IF_IMPORTED.items() if module in sys.modules]
    found = {name: version_of(name) for name in ("pate", "numpy", "scipy", "dp-accounting", *used)}
    return {**{name: v for name, v in found.items() if v}, "python": platform.python_version()}


#: The format of the JSON; another number when a field changes its meaning.
SCHEMA = "pate-statement-3"
#: That of earlier versions, still read: its words used epsilon and delta alone, its tier at epsilon alone.
BY_PAIR = "pate-statement-2"


@lru_cache(maxsize=1)
def _commit() -> str:
    """Return the checkout's commit, asked once: the code that runs was read when the process began."""
    return git_commit() or ""


@dataclass(frozen=True, kw_only=True)
class StatementFields:
    """The entries of a :class:`pate.PrivacyStatement`, which tells what each means."""

    released: str
    unit: str
    n_units: int | None
    guarantee: Guarantee
    mechanism: str
    accounting: str
    noise_source: str = "operating system"
    seeded: bool = False
    setting: str = "central: the curator holds the records, trains on them and is trusted with them"
    threat_model: str = (
        "anyone who sees what was released, whatever else they know (every other unit's data, say), however much they "
        "compute, and whatever they do with it later; not against the curator, nor against anyone who watches or times "
        "the curator's machine"
    )
    covered: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    tuning: str = ""
    verify: str = ""
    ledger_head: str = ""
    ledger_releases: tuple[int, ...] = ()
    dataset: str = ""
    organisation: str = ""
    purpose: str = ""
    label_file: str = ""
    label_file_sha256: str = ""
    mu: float | None = None
    rho: float | None = None
    curve: tuple[tuple[float, float], ...] = ()
    audits: tuple[CitedAudit, ...] = ()
    measured: MeasuredAccuracy | None = None
    doubts: tuple[Doubt, ...] = ()
    errors: MeasuredErrors | None = None
    tier_budgets: tuple[TierGuarantee, ...] = ()
    quality: MeasuredQuality | None = None
    viewers: tuple[ViewerGuarantee, ...] = ()
    created: str = field(default_factory=now)
    versions: dict[str, str] = field(default_factory=versions)
    commit: str = field(default_factory=_commit)
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        if self.schema not in (SCHEMA, BY_PAIR):
            raise InvalidInputError(
                f"the statement's schema must be {SCHEMA!r} or {BY_PAIR!r}. Read it with the pate that wrote it."
            )
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidInputError("guarantee must be a pate.Guarantee. Pass release.guarantee, for example.")
        if self.guarantee.kind == "data-dependent":
            raise SensitiveValueError(
                "a statement is public and cannot carry a data-dependent epsilon. Pass the public guarantee."
            )
        check_guarantee(self.guarantee)
        for name in _TEXTS:
            check_text(name, getattr(self, name))
        if self.label_file_sha256 and not re.fullmatch("[0-9a-f]{64}", self.label_file_sha256):
            raise InvalidInputError("label_file_sha256 must be 64 hexadecimal digits, or empty.")
        if not self.tuning.strip():
            object.__setattr__(self, "tuning", OPEN_TUNING)
        for name in ("covered", "not_covered"):
            object.__setattr__(self, name, check_texts(name, getattr(self, name)))
        if isinstance(self.assumptions, str) or not isinstance(self.assumptions, tuple | list):
            raise InvalidInputError("assumptions must be a list of Assumption. Put them into a list.")
        held = tuple(a if isinstance(a, Assumption) else Assumption(name="stated", claim=a) for a in self.assumptions)
        object.__setattr__(self, "assumptions", held)
        if not isinstance(self.unit, str) or self.unit not in UNITS:
            raise InvalidInputError(f"unit must be one of {', '.join(UNITS)}. Say what one person's data is.")
        if self.n_units is not None:
            object.__setattr__(self, "n_units", check_whole("n_units", self.n_units, low=0))
        if not isinstance(self.ledger_releases, tuple | list):
            raise InvalidInputError("ledger_releases must be a list of numbers of releases.")
        releases = tuple(check_whole("ledger_releases", number, low=1) for number in self.ledger_releases)
        object.__setattr__(self, "ledger_releases", releases)
        if not isinstance(self.seeded, bool):
            raise InvalidInputError("seeded must be True or False.")
        if self.guarantee.kind == "seeded" and not self.seeded:
            raise InvalidInputError("the statement contradicts itself: its guarantee is of seeded noise, it is not.")
        object.__setattr__(self, "audits", check_audits(self.audits))
        if self.measured is not None and not isinstance(self.measured, MeasuredAccuracy):
            object.__setattr__(self, "measured", MeasuredAccuracy.from_dict(self.measured))
        if self.errors is not None and not isinstance(self.errors, MeasuredErrors):
            object.__setattr__(self, "errors", MeasuredErrors.from_dict(self.errors))
        if self.quality is not None and not isinstance(self.quality, MeasuredQuality):
            object.__setattr__(self, "quality", MeasuredQuality.from_dict(self.quality))
        object.__setattr__(self, "doubts", check_doubts(self.doubts))
        self._check_promises()
        self._check_tiers()
        self._check_viewers()
        if not isinstance(self.versions, dict):
            raise InvalidInputError("versions must be a dictionary of names to versions.")
        for name, version in self.versions.items():
            check_text("versions", name)
            check_text(f"versions[{name!r}]", version)

    @property
    def promised(self) -> dict[str, Any]:
        """What bounds an attacker beside epsilon and delta, as :func:`pate.privacy.attacker.attack_bounds` takes it."""
        return {"mu": self.mu, "curve": self.curve}

    @property
    def n_public(self) -> int | None:
        """The number of units, where neighbouring data sets have equally many."""
        return None if self.guarantee.adjacency == "add-or-remove" else self.n_units

    def _check_tiers(self) -> None:
        held = self.tier_budgets
        if isinstance(held, str) or not isinstance(held, Sequence) or len(held) > MOST_TIERS:
            raise InvalidInputError(f"tier_budgets must be a list of at most {MOST_TIERS} tiers. Put them into a list.")
        tiers = TierGuarantee.listed("tier_budgets", held)
        object.__setattr__(self, "tier_budgets", () if self.seeded else tiers)
        if not self.tier_budgets:
            return
        most, g = max(tiers, key=lambda tier: tier.mu), self.guarantee
        all_units = sum(tier.n for tier in tiers) == self.n_units
        if (most.epsilon, most.delta, most.mu) != (g.epsilon, g.delta, self.mu) or not all_units:
            raise InvalidInputError(
                "the statement contradicts itself: its guarantee must be that of the largest of tier_budgets, and "
                "n_units all of theirs. Ask for the file as it was written."
            )
        for tier in tiers:
            if tier is not most and not _charged(tier, of=most):
                raise InvalidInputError(
                    f"the statement contradicts itself: tier {tier.name!r} of tier_budgets is promised less than is "
                    "said, by its weight. Ask for the file as it was written."
                )

    def _check_viewers(self) -> None:
        held, g = self.viewers, self.guarantee
        if isinstance(held, str) or not isinstance(held, Sequence) or len(held) > len(VIEWERS):
            raise InvalidInputError(f"viewers must be a list of at most {len(VIEWERS)} viewers. Put them into a list.")
        viewers = ViewerGuarantee.listed("viewers", held)
        object.__setattr__(self, "viewers", () if self.seeded else viewers)
        if not self.viewers:
            return
        most = max(viewers, key=lambda one: one.epsilon)
        named = [one.viewer for one in viewers]
        if len(set(named)) < len(named) or {(most.epsilon, one.delta) for one in viewers} != {(g.epsilon, g.delta)}:
            raise InvalidInputError(
                "the statement contradicts itself: its guarantee must be that of the viewer who learns most, and each "
                "viewer named once, at one delta. Ask for the file as it was written."
            )

    def _check_promises(self) -> None:
        for name in ("mu", "rho"):
            if getattr(self, name) is not None:
                # Anyone who knows the seed is promised nothing, by no definition.
                value = None if self.seeded else check_number(name, getattr(self, name), low=0, high=LARGEST)
                object.__setattr__(self, name, value)
        if not isinstance(self.curve, tuple | list) or not all(
            isinstance(point, tuple | list) and len(point) == 2 for point in self.curve
        ):
            raise InvalidInputError("curve must be a list of pairs (delta, epsilon).")
        points = tuple(
            (check_number("curve delta", d, low=0, high=1), check_number("curve epsilon", e, low=0, high=LARGEST))
            for d, e in self.curve
        )
        object.__setattr__(self, "curve", () if self.seeded else points)


_TEXTS = tuple(f.name for f in fields(StatementFields) if f.type == "str" and f.name != "unit")
