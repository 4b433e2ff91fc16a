"""The privacy statement: everything a reader needs to know what an epsilon means, as data and as a page of text.

The fields follow the reporting checklist of Ponomareva et al. 2023, "How to DP-fy ML".
"""

from __future__ import annotations

import platform
import textwrap
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from pate.exceptions import SensitiveValueError
from pate.privacy.conversion import format_up
from pate.privacy.guarantee import Guarantee

UNITS = {
    "record": "one record (one row of the private data)",
    "group": "one group (all rows of one person, by the group column)",
}


def tier(epsilon: float) -> str:
    """Return the tier of an epsilon: <= 1 strong, <= 10 reasonable, above weak.

    Examples
    --------
    >>> tier(1.0), tier(3.0), tier(12.0)
    ('strong', 'reasonable', 'weak')
    """
    return "strong" if epsilon <= 1 else "reasonable" if epsilon <= 10 else "weak"


def versions() -> dict[str, str]:
    """Return the versions a reader needs to repeat the computation.

    Examples
    --------
    >>> sorted(versions())
    ['numpy', 'pate', 'python', 'scipy']
    """
    found = {name: metadata.version(name) for name in ("pate", "numpy", "scipy")}
    return {**found, "python": platform.python_version()}


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """What was protected, from what, how, and at which price.

    Attributes
    ----------
    released : str
        What left the curator.
    unit : {"record", "group"}
    n_units : int or None
        Number of protected units (public under replace-one adjacency).
    guarantee : Guarantee
        Public or sanitised; a data-dependent one is refused.
    mechanism : str
        The mechanism with its parameters.
    accounting : str
        How the price composes.
    noise_source : str
    seeded : bool
        True when the noise could be repeated: then nothing is private.
    covered, not_covered, assumptions : tuple of str
    tuning : str
        What was tuned on private data and whether that is charged.
    verify : str
        How a reader recomputes epsilon.

    Examples
    --------
    >>> s = PrivacyStatement(released="labels", unit="record", n_units=100, mechanism="GNMax(sigma=40)",
    ...     guarantee=Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp"), accounting="GDP")
    >>> s.headline
    'epsilon = 1 at delta = 1e-05 (strong) for one record (one row of the private data), replace-one adjacency'
    """

    released: str
    unit: str
    n_units: int | None
    guarantee: Guarantee
    mechanism: str
    accounting: str
    noise_source: str = "operating system"
    seeded: bool = False
    setting: str = "central: the curator holds the records, trains on them and is trusted with them"
    covered: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    tuning: str = "not declared by the curator"
    verify: str = ""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    versions: dict[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        if self.guarantee.kind == "data-dependent":
            raise SensitiveValueError(
                "a statement is public and cannot carry a data-dependent epsilon. Pass the public guarantee."
            )

    @property
    def headline(self) -> str:
        """One line: the guarantee in words, or why there is none."""
        if self.seeded:
            return "not private: seeded noise (for tests and experiments only)"
        g = self.guarantee
        return (
            f"epsilon = {format_up(g.epsilon)} at delta = {g.delta:g} ({tier(g.epsilon)}) for {UNITS[self.unit]}, "
            f"{g.adjacency} adjacency"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values.

        Examples
        --------
        >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
        >>> PrivacyStatement(released="labels", unit="record", n_units=None, mechanism="m", guarantee=g,
        ...     accounting="GDP").to_dict()["tier"]
        'strong'
        """
        fields = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {
            "headline": self.headline,
            "private": not self.seeded,
            "tier": tier(self.guarantee.epsilon) if not self.seeded else "none",
            **fields,
        }

    def text(self) -> str:
        """Return the page of text.

        Examples
        --------
        >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
        >>> print(PrivacyStatement(released="labels", unit="record", n_units=None, mechanism="m", guarantee=g,
        ...     accounting="GDP").text().splitlines()[0])
        PRIVACY STATEMENT
        """
        g = self.guarantee
        rows: list[tuple[str, str]] = [
            ("Guarantee", self.headline),
            ("Setting", self.setting),
            ("Released", self.released),
            ("Unit of privacy", UNITS[self.unit] + (f"; {self.n_units} in all" if self.n_units else "")),
            ("Adjacency", f"{g.adjacency}: data sets that differ in one unit's data"),
            ("Mechanism", self.mechanism),
            ("Noise from", self.noise_source),
            ("Accounting", self.accounting),
            (
                "Epsilon",
                f"{format_up(g.epsilon, 6)} at delta {g.delta:g}, kind {g.kind}, method {g.method}, "
                f"{g.directions} directions, {g.adaptivity}",
            ),
            ("Covered", "; ".join(self.covered) or "the release alone"),
            ("Not covered", "; ".join(self.not_covered) or "nothing named"),
            ("Tuned on private data", self.tuning),
            ("Assumptions", "; ".join(self.assumptions) or "none named"),
            ("To verify", self.verify or "no recipe given"),
            ("Versions", ", ".join(f"{k} {v}" for k, v in self.versions.items())),
            ("Created", self.created),
        ]
        lines = ["PRIVACY STATEMENT", "================="]
        for name, value in rows:
            body = textwrap.wrap(value, 84) or [""]
            lines.append(f"{name + ':':<24}{body[0]}")
            lines.extend(" " * 24 + more for more in body[1:])
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.text()
