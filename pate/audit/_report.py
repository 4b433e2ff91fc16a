"""The report of several audits: a table, a page, files, and the part of them that is public."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Self

from markupsafe import Markup

from pate._core.checks import check_choice
from pate._core.files import read_json_file, write_json, write_text
from pate._core.pages import cell, lined_up, render
from pate._core.provenance import git_commit, now, package_versions
from pate.exceptions import InvalidInputError, RunFolderError
from pate.release.statement.fields import LAYERS, CitedAudit
from pate.report import PrivateRecord, Record, Sheet, listed, number, picture
from pate.report.audit_result import SCHEMA, AuditResult, Figure

if TYPE_CHECKING:
    from pate.report.plots import Display

#: The largest file that is read.
_MAX_BYTES = 50_000_000
#: Letters of a cell of the printed table; the page has it whole.
_WIDTH = 56
_FILES = ("audit.json", "audit.html", "audit.sensitive.json", "audit.sensitive.html")


@dataclass(frozen=True, kw_only=True, repr=False)
class Audit(PrivateRecord):
    """The results of several audits of one release. Printing it shows each test and its outcome, nothing private.

    Attributes
    ----------
    title : str
    description : str
        What was audited, in words. Public.
    results : tuple of AuditResult
        Those of private data are shown only with ``include_sensitive=True``.
    citations : tuple of CitedAudit
        Audits of which only this is public: what was tried, and whether the claim stood.
    left_out : tuple of str
        What was not tried, and why. Public.
    command : str or None
        The command that made it.
    created, versions, commit
        Where it comes from.
    schema : str
        ``"pate-audit-1"``.

    Examples
    --------
    >>> law = AuditResult(
    ...     layer="law",
    ...     target="GNMax(sigma=40.0)",
    ...     claim="its exact law",
    ...     tried="20,000 releases",
    ...     refuted=False,
    ...     finding="nothing",
    ...     false_alarms=1e-6,
    ... )
    >>> pair = AuditResult(
    ...     layer="pair",
    ...     target="votes",
    ...     claim="(1, 1e-05)-DP",
    ...     tried="one crafted record",
    ...     refuted=False,
    ...     finding="0.9 of 1",
    ...     false_alarms=0.0,
    ...     sensitive=True,
    ... )
    >>> audit = Audit(title="Audit of votes", results=[law, pair])
    >>> audit
    Audit of votes: no claim was refuted by 2 audits (law and pair).
    layer  claim          tried               outcome
    law    its exact law  20,000 releases     stood
    pair   (1, 1e-05)-DP  one crafted record  stood
    >>> audit.refuted, [one["layer"] for one in audit.cited()], len(audit.public().results)
    (False, ['law', 'pair'], 1)
    """

    _name = "audit"
    title: str
    description: str = ""
    results: tuple[AuditResult, ...] = ()
    citations: tuple[CitedAudit, ...] = ()
    left_out: tuple[str, ...] = ()
    command: str | None = None
    created: str = field(default_factory=now)
    versions: dict[str, str] = field(default_factory=package_versions)
    commit: str | None = field(default_factory=git_commit)
    schema: str = SCHEMA

    def _check(self) -> None:
        check_choice("audit['schema']", self.schema, (SCHEMA,), remedy="Read it with the pate that wrote it.")

    @property
    def refuted(self) -> bool:
        """Whether any claim was refuted."""
        return any(r.refuted for r in self.results) or any(not c.stood for c in self.citations)

    @property
    def sensitive(self) -> bool:
        """Whether any of it was made from private data."""
        return any(r.sensitive for r in self.results)

    def __getitem__(self, layer: str) -> AuditResult:
        """Return the first result of a layer.

        Raises
        ------
        KeyError
            There is none; the error names those there are.
        """
        for result in self.results:
            if result.layer == layer:
                return result
        raise KeyError(f"no audit of layer {layer!r}; there are: {', '.join(r.layer for r in self.results) or 'none'}")

    def cited(self) -> list[dict[str, Any]]:
        """Return the public part of every audit; :meth:`PrivacyStatement.with_audits` takes it."""
        return [*(r.cited() for r in self.results), *(c.to_dict() for c in self.citations)]

    def public(self) -> Self:
        """Return a copy with audits of private data as citations only."""
        open_ = tuple(r for r in self.results if not r.sensitive)
        cited = tuple(CitedAudit.from_dict(r.cited()) for r in self.results if r.sensitive)
        return replace(self, results=open_, citations=(*cited, *self.citations))

    def rows(self, *, include_sensitive: bool = False) -> list[dict[str, Any]]:
        """Return the figures as one tidy row each; of private data with ``include_sensitive=True`` alone."""
        shown = self.results if include_sensitive else self.public().results
        return [row for r in shown for row in r.rows(include_sensitive=include_sensitive)]

    def to_dict(self, *, include_sensitive: bool = False) -> dict[str, Any]:
        """Return the report as JSON values, as ``_templates/audit.schema.json`` describes them.

        Parameters
        ----------
        include_sensitive : bool
            False: the audits of private data are cited only.
        """
        shown = self if include_sensitive else self.public()
        values = Record.to_dict(replace(shown, results=()))
        return values | {"results": [r.to_dict(include_sensitive=include_sensitive) for r in shown.results]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "audit") -> Self:
        """Return the audit from JSON values, strictly checked.

        Raises
        ------
        InvalidInputError
            A name that is not known, a value of another type, or another schema.

        Examples
        --------
        >>> Audit.from_dict({"title": "t"})
        Traceback (most recent call last):
        pate.exceptions.InvalidInputError: audit lacks the key 'schema'. It names the version; ...
        """
        if isinstance(values, Mapping) and "schema" not in values:
            raise InvalidInputError(f"{where} lacks the key 'schema'. It names the version; pass what to_dict() gives.")
        return super().from_dict(values, where=where)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an ``audit.json``, strictly checked.

        Raises
        ------
        InvalidInputError
            There is no such file, it is no JSON, or no audit.

        Examples
        --------
        >>> import tempfile
        >>> folder = Audit(title="t").save(Path(tempfile.mkdtemp()) / "audit")
        >>> Audit.load(folder / "audit.json").title
        't'
        """
        return cls.from_dict(read_json_file(path, what="audit", most_bytes=_MAX_BYTES))

    def html(self, *, include_sensitive: bool = False) -> str:
        """Return the page: one file that loads nothing from the network."""
        from pate.report import BADGE

        shown = self if include_sensitive else self.public()
        results, citations = shown.results, shown.citations
        facts = [("versions", ", ".join(f"{name} {version}" for name, version in self.versions.items()))]
        styles = ["report.css", "first.css", "comparison.css", "audit.css"]
        return render(
            "audit.html",
            title=f"SENSITIVE: {self.title}" if include_sensitive else self.title,
            running=MARK if include_sensitive else f"{self.title}, an audit",
            styles=[*styles, "sensitive.css"] if include_sensitive else styles,
            badge=BADGE if include_sensitive else "",
            name=self.title,
            description=self.description,
            created=self.created,
            command=self.command,
            left_out=self.left_out,
            facts=[*facts, ("commit", self.commit)] if self.commit else facts,
            answer=answer(results, citations),
            refuted=shown.refuted,
            cards=cards([*results, *citations]),
            tried=tried(results, citations),
            side_by_side=_side_by_side(results),
            details=details(results),
            cited=len(citations),
            proves=PROVES,
            files=_KEEP if include_sensitive else _PUBLISH,
        )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``audit.html`` and ``audit.json``, which may be published, and return the folder.

        What was made from private data goes to ``audit.sensitive.html`` and ``audit.sensitive.json``, which only
        their owner may read (mode 0600); the public files hold of it what :meth:`cited` gives.

        Parameters
        ----------
        folder : path
            Made when absent.

        Raises
        ------
        RunFolderError
            It holds an audit already.
        MissingExtraError
            matplotlib is not installed.

        Examples
        --------
        >>> import tempfile
        >>> sorted(
        ...     p.name
        ...     for p in Audit(title="t").save(Path(tempfile.mkdtemp()) / "audit").iterdir()
        ... )
        ['audit.html', 'audit.json']
        """
        goal = Path(folder)
        if goal.exists() and not goal.is_dir():
            raise RunFolderError(f"{goal} is a file. Choose a folder to save in.")
        if taken := [name for name in _FILES if (goal / name).exists()]:
            raise RunFolderError(
                f"{goal} holds {taken[0]} already. Results are never overwritten: name another folder."
            )
        if self.sensitive:
            write_json(goal / "audit.sensitive.json", self.to_dict(include_sensitive=True), mode=0o600)
            write_text(goal / "audit.sensitive.html", self.html(include_sensitive=True), mode=0o600)
        write_json(goal / "audit.json", self.to_dict())
        write_text(goal / "audit.html", self.html())
        return goal

    def plot(self, ax: Any = None, *, include_sensitive: bool = False) -> Display:
        """Draw the epsilons side by side: claimed, and reached by audits.

        Raises
        ------
        InvalidInputError
            No figure that may be shown is an epsilon.

        Examples
        --------
        >>> from pate.report.audit_result import Figure
        >>> found = AuditResult(
        ...     layer="game",
        ...     target="t",
        ...     claim="c",
        ...     tried="x",
        ...     refuted=False,
        ...     finding="y",
        ...     figures=[Figure(name="lower bound on epsilon", value=0.8)],
        ... )
        >>> Audit(title="t", results=[found]).plot().ax_.get_xlabel()
        'epsilon'
        """
        from pate.report.plots import bounds_picture

        return bounds_picture(bounds(self.results if include_sensitive else self.public().results), ax=ax)

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return a table of what was tried and the outcomes: a heading and a row for each audit; nothing private."""
        every: Iterable[AuditResult | CitedAudit] = (*self.results, *self.citations)
        return [("layer", "claim", "tried", "outcome"), *((t.layer, t.claim, t.tried, outcome(t)) for t in every)]

    def summary(self) -> str:
        """Return the outcome in one or more sentences; of private data only whether the claim stood."""
        open_ = self.public()
        return " ".join(answer(open_.results, open_.citations))

    def _repr_html_(self) -> str:
        heading, *rows = self.table()
        return cell("Audit", self.summary(), heads=heading, rows=rows, more=self.left_out)

    def __repr__(self) -> str:
        summary = self.summary()
        lines = [tuple(shorten(text, _WIDTH, placeholder=" ...") for text in row) for row in self.table()]
        left = [f"Not tried: {text}" for text in self.left_out]
        return "\n".join([f"{self.title}: {summary[:1].lower()}{summary[1:]}", *lined_up(lines), *left])


# An audit in words, tables and pictures: what its page, its cell in a notebook and a terminal show.

MARK = "SENSITIVE: made from private data; not for publication"
#: What may be done with the files, by which page it is.
_PUBLISH = "audit.html (this page) and audit.json may be published; a file with sensitive in its name stays with you."
_KEEP = "Keep this page and audit.sensitive.json to yourself; audit.html and audit.json may be published."
#: Shown on every page.
PROVES = (
    "An audit can show that a claim is false. It cannot show that one is true: that is a proof's work. A claim that "
    "stood withstood what was tried, and no more."
)
#: Beginnings of the names of figures computed by accounting, and ends of those of one direction.
_PRICES, _SIDES = ("public", "data-dependent", "claimed"), ("forward", "reverse")
_TONES = {"REFUTED": "refuted", "stood": "stood", "suggests only": "undecided"}


def outcome(result: AuditResult | CitedAudit) -> str:
    """Return the outcome of one audit, in a word or two."""
    if isinstance(result, CitedAudit):
        return "stood" if result.stood else "REFUTED"
    return "REFUTED" if result.refuted else "stood" if result.false_alarms is not None else "suggests only"


def answer(results: Sequence[AuditResult], citations: Sequence[CitedAudit]) -> list[str]:
    """Return the outcome of all audits in sentences, refutations first."""
    sentences = [
        # A claim that names its target is a sentence by itself.
        f"Refuted: {r.claim if r.target in r.claim else f'{r.target} does not keep {r.claim}'}. {_sentence(r.finding)}"
        for r in results
        if r.refuted
    ]
    sentences += [f"Refuted: {c.claim} (layer {c.layer}; what was found is private)." for c in citations if not c.stood]
    took_part = {r.layer for r in results} | {c.layer for c in citations}
    if sentences or not took_part:
        return sentences or ["Nothing was tried."]
    n, layers = len(results) + len(citations), listed([layer for layer in LAYERS if layer in took_part])
    return [f"No claim was refuted by {n} audit{'s' * (n > 1)} ({layers})."]


def _sentence(text: str) -> str:
    sentence = text[:1].upper() + text[1:]
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def bounds(results: Iterable[AuditResult]) -> list[dict[str, Any]]:
    """Return every epsilon among the figures, once each, the largest first, as a picture's lines.

    Those from accounting (public, data-dependent) are of kind ``"price"``; all others of their layer.
    """
    seen: dict[Any, dict[str, Any]] = {}
    for result in results:
        for f in result.figures:
            if f.value is None or "epsilon" not in f.name or f.name.startswith("share") or f.name.endswith(_SIDES):
                continue
            price = f.name.startswith(_PRICES)
            # One number may be in several audits, as what is claimed and as what is public.
            key = float(f"{f.value:.6g}") if price else (f.name, f.of, f.value)
            label, kind = f"{f.name}{f': {f.of}' if f.of else ''}", "price" if price else result.layer
            shown = {name: getattr(f, name) for name in ("value", "low", "high", "estimate")}
            seen.setdefault(key, {**shown, "label": label, "kind": kind})
    return sorted(seen.values(), key=lambda b: (b["kind"] != "price", -b["value"]))


def tried(results: Sequence[AuditResult], citations: Sequence[CitedAudit]) -> Sheet:
    """Return every audit as a line: what was audited, the claim, how, and the outcome."""
    rows = []
    for r in results:
        alarms = "–" if r.false_alarms is None else number(r.false_alarms)
        cells = (r.target, r.claim, r.tried, alarms, f"{r.n_releases:,}", f"{r.seconds:.1f}")
        rows.append((r.layer, outcome(r), *cells))
    rows += [(c.layer, outcome(c), "–", c.claim, c.tried, "–", "–", "–") for c in citations]
    rows.sort(key=lambda row: list(LAYERS).index(row[0]))
    heads = ["Layer", "Outcome", "Audited", "Claim", "Tried", "False alarms", "Releases", "Seconds"]
    strong = [(i, 1) for i, row in enumerate(rows) if row[1] == "REFUTED"]
    return Sheet(heads=heads, rows=rows, numbers=(5, 6, 7), kind="stack", strong=strong)


def figure_sheet(figures: Sequence[Figure]) -> Sheet:
    """Return figures as a table."""
    rows = []
    for f in figures:
        value = "nothing found" if f.value is None else number(f.value)
        span = "" if f.low is None or f.high is None else f"{number(f.low)} to {number(f.high)}"
        level = "" if f.level is None else f"{100 * f.level:.6g}%"
        rows.append((f.name, f.of, value + (" (estimate)" if f.estimate else ""), span, level))
    return Sheet(heads=["Figure", "Of", "Value", "Interval", "Level"], rows=rows, kind="stack")


def cards(tried: Sequence[AuditResult | CitedAudit]) -> list[dict[str, str]]:
    """Return one summary card for each layer."""
    found = []
    for layer, did in LAYERS.items():
        here = [outcome(one) for one in tried if one.layer == layer]
        if here:
            worst = next(w for w in _TONES if w in here)
            found.append({"layer": layer, "word": worst, "tone": _TONES[worst], "did": did, "n": str(len(here))})
    return found


def details(results: Sequence[AuditResult]) -> list[dict[str, Any]]:
    """Return the full result of each audit."""
    return [
        {
            "title": f"{r.layer}: {r.target}",
            "word": outcome(r),
            "finding": _sentence(r.finding),
            "limits": r.limits,
            "figures": figure_sheet(r.figures),
            "settings": [
                (name, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
                for name, value in r.settings.items()
            ],
            "picture": _drawn(r, place),
        }
        for place, r in enumerate(results)
    ]


def _drawn(result: AuditResult, place: int) -> Markup | None:
    from pate.report import plots

    drawn = result.picture
    if drawn is None or not drawn.curves:
        return None
    caption = f"{drawn.y_label} by {drawn.x_label}."
    lines = [c.label for c in drawn.curves if c.role == "claim"]
    if lines:  # of an e-value the line says where the claim falls, not what it allows
        said = "refuted from there on" if "refuted" in lines[0] else "the most that the claim allows"
        caption += f" Dashed, black: {said}."
    if any(c.low for c in drawn.curves):
        caption += " Bands: intervals of what was measured."
    name = f"{result.layer} {place + 1}: {drawn.y_label} by {drawn.x_label}"
    return picture(caption[:1].upper() + caption[1:], name, plots.audit_picture, drawn)


def _side_by_side(results: Sequence[AuditResult]) -> dict[str, Any] | None:
    from pate.report import plots

    found = bounds(results)
    if not found:
        return None
    caption = (
        "Epsilons side by side. Diamonds: what the price says, the largest of them dashed. Dots: what was reached or "
        "shown, with its interval. Hollow: an estimate, which proves nothing."
    )
    heads = ["Epsilon", "Value", "From"]
    froms = {"price": "the price"}
    rows = [(b["label"], number(b["value"]), froms.get(b["kind"], b["kind"])) for b in found]
    return {
        "picture": picture(caption, "Epsilons side by side", plots.bounds_picture, found),
        "sheet": Sheet(heads=heads, rows=rows, numbers=[1]),
    }
