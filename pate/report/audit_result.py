"""The result of an audit, in one shape for all audits, so that one table, picture and file serve all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.release.statement.fields import LAYERS as LAYERS
from pate.release.statement.fields import CitedAudit
from pate.release.statement.plain import as_plain_text
from pate.report._record import PrivateRecord, Record, Setting, one_of

#: The version of ``audit.json``; ``_templates/audit.schema.json`` describes it.
SCHEMA = "pate-audit-1"
#: How an axis of an audit's picture runs.
SCALES = ("linear", "log")
#: What a line of an audit's picture is: measured here, what the claim allows, or something to compare with.
ROLES = ("measured", "claim", "reference")


@dataclass(frozen=True, kw_only=True)
class Figure(Record):
    """One number that an audit found.

    Attributes
    ----------
    name : str
        Such as "lower bound on epsilon".
    value : float or None
        None where nothing was found.
    low, high : float or None
        Of its interval.
    level : float or None
        The confidence of the interval, or of a bound that ``value`` is.
    of : str
        Whom it is of: a histogram, a canary, a kind of attack.
    estimate : bool
        Whether it leans on an assumption that nothing proves; then it refutes nothing.

    Examples
    --------
    >>> Figure(name="lower bound on epsilon", value=0.8, level=0.95).to_dict()["value"]
    0.8
    """

    _name = "figure"
    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    of: str = ""
    estimate: bool = False


@dataclass(frozen=True, kw_only=True)
class Curve(Record):
    """One line of an audit's picture."""

    _name = "curve"
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()  # the band around it, of the length of ``x``; empty for none
    high: tuple[float, ...] = ()
    role: str = one_of(ROLES, default="measured")

    def _check(self) -> None:
        if len(self.y) != len(self.x) or any(len(band) not in (0, len(self.x)) for band in (self.low, self.high)):
            raise InvalidInputError(
                f"{self._name} must have one y (and low and high, where there is a band) for each x."
            )


@dataclass(frozen=True, kw_only=True)
class Picture(Record):
    """The picture of an audit: lines on two axes."""

    _name = "picture"
    x_label: str
    y_label: str
    scale: str = one_of(SCALES, default="linear")
    curves: tuple[Curve, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class AuditResult(PrivateRecord):
    """What one audit tried, and whether the claim stood.

    Attributes
    ----------
    layer : {"replay", "law", "pair", "game", "attack"}
    target : str
        What was audited.
    claim : str
        What it claims, in words.
    tried : str
        What was tried: with ``refuted`` all that a public statement may say of an audit of private data.
    refuted : bool
        Whether the claim was refuted. An audit that refutes nothing proves nothing.
    finding : str
        The first thing found, or that nothing was.
    false_alarms : float or None
        The probability that a true claim is refuted; 0 where a refutation is certain, None where this layer refutes
        nothing (it only suggests).
    n_releases : int
    seconds : float
    limits : str
        One sentence on what the result does not show.
    figures : tuple of Figure
    picture : Picture or None
    settings : dict of str to scalar, or to a few
    sensitive : bool
        Whether it was made from private data: then it is shown only if asked for by name.

    Examples
    --------
    >>> made = AuditResult(
    ...     layer="law",
    ...     target="GNMax(sigma=40.0)",
    ...     claim="its exact law",
    ...     tried="20,000 releases",
    ...     refuted=False,
    ...     finding="nothing",
    ...     false_alarms=1e-6,
    ...     n_releases=20_000,
    ...     seconds=0.5,
    ...     limits="Only the histograms of the bank.",
    ...     figures=[Figure(name="log e-value", value=-2.0)],
    ... )
    >>> made
    AuditResult(law: the claim stands; 1 figure)
    >>> made["log e-value"].value, made.rows()[0]["figure"]
    (-2.0, 'log e-value')
    >>> AuditResult.from_dict(made.to_dict()) == made
    True
    """

    _name = "audit result"
    layer: str = one_of(LAYERS)
    target: str
    claim: str
    tried: str
    refuted: bool
    finding: str
    false_alarms: float | None = None
    n_releases: int = 0
    seconds: float = 0.0
    limits: str = ""
    figures: tuple[Figure, ...] = ()
    picture: Picture | None = None
    settings: dict[str, Setting] = field(default_factory=dict)
    sensitive: bool = False

    def __repr__(self) -> str:
        said = f"{self.layer}: {'REFUTED' if self.refuted else 'the claim stands'}"
        n = len(self.figures)
        shown = "sensitive" if self.sensitive else f"{n} figure{'' if n == 1 else 's'}"
        return f"{type(self).__name__}({said}; {shown})"

    def __getitem__(self, name: str) -> Figure:
        """Return the first figure of a name.

        Raises
        ------
        KeyError
            There is none; the error names those there are.
        """
        for figure in self.figures:
            if figure.name == name:
                return figure
        raise KeyError(f"no figure {name!r}; there are: {', '.join(dict.fromkeys(f.name for f in self.figures))}")

    def cited(self) -> dict[str, Any]:
        """Return what may be said in public whatever the data were: layer, what was tried, whether the claim stood."""
        claim, tried = as_plain_text(self.claim), as_plain_text(self.tried)
        return CitedAudit(layer=self.layer, claim=claim, tried=tried, stood=not self.refuted).to_dict()

    def rows(self, *, include_sensitive: bool = False) -> list[dict[str, Any]]:
        """Return the figures as one tidy row each.

        Raises
        ------
        SensitiveValueError
            It was made from private data and was not asked for by name.

        Examples
        --------
        >>> AuditResult(
        ...     layer="pair",
        ...     target="t",
        ...     claim="c",
        ...     tried="x",
        ...     refuted=False,
        ...     finding="y",
        ...     sensitive=True,
        ... ).rows()
        Traceback (most recent call last):
        pate.exceptions.SensitiveValueError: this audit was made from private data: ...
        """
        self._ask(include_sensitive)
        shared = {"layer": self.layer, "target": self.target, "claim": self.claim, "refuted": self.refuted}
        return [{**shared, **{"figure" if k == "name" else k: v for k, v in f.to_dict().items()}} for f in self.figures]

    def to_dict(self, *, include_sensitive: bool = False) -> dict[str, Any]:
        """Return the fields as JSON values; of private data only with ``include_sensitive=True``.

        Raises
        ------
        SensitiveValueError
            It was made from private data and was not asked for by name.
        """
        self._ask(include_sensitive)
        return super().to_dict()

    def plot(self, ax: Any = None, *, include_sensitive: bool = False) -> Any:
        """Draw the picture on ``ax`` (a new figure if None) and return a display with ``ax_`` and ``figure_``.

        Raises
        ------
        InvalidInputError
            This audit has no picture.
        SensitiveValueError
            It was made from private data and was not asked for by name.
        ImportError
            matplotlib is not installed.

        Examples
        --------
        >>> line = Curve(label="claim", x=[0.0, 1.0], y=[0.0, 1.0], role="claim")
        >>> made = AuditResult(
        ...     layer="game",
        ...     target="t",
        ...     claim="c",
        ...     tried="x",
        ...     refuted=False,
        ...     finding="y",
        ...     picture=Picture(
        ...         x_label="false positives", y_label="true positives", curves=[line]
        ...     ),
        ... )
        >>> made.plot().ax_.get_xlabel()
        'false positives'
        """
        self._ask(include_sensitive)
        if self.picture is None:
            raise InvalidInputError(f"this {self.layer} audit has no picture. Read its rows().")
        from pate.report.plots import audit_picture

        return audit_picture(self.picture, ax=ax)

    def _ask(self, include_sensitive: bool) -> None:
        if self.sensitive and not include_sensitive:
            raise SensitiveValueError(
                "this audit was made from private data: what it found is private too. Publish cited() alone, or pass "
                "include_sensitive=True for a file that stays inside."
            )
