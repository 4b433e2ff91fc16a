"""Audits together: a table, a page, files; and what of them may be said in public."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Self

from pate.core.checks import check_choice
from pate.core.files import read_json_file, write_json, write_text
from pate.core.pages import cell, lined_up
from pate.core.provenance import git_commit, now, package_versions
from pate.exceptions import InvalidInputError, RunFolderError
from pate.report._record import PrivateRecord, Record
from pate.report.audit_result import SCHEMA, AuditResult
from pate.statement.fields import CitedAudit

if TYPE_CHECKING:
    from pate.report.plots import Display

#: Longer than this no audit is.
_MAX_BYTES = 50_000_000
#: Letters of a cell of the printed table; the page has it whole.
_WIDTH = 56
_FILES = ("audit.json", "audit.html", "audit.sensitive.json", "audit.sensitive.html")


@dataclass(frozen=True, kw_only=True, repr=False)
class Audit(PrivateRecord):
    """Several audits of one thing. Printing it shows what was tried and what came of it, and nothing private.

    Attributes
    ----------
    title : str
    description : str
        What was audited, in words. Public.
    results : tuple of AuditResult
        Those of private data show themselves to nobody who does not ask by name.
    citations : tuple of CitedAudit
        Audits of which only this is known: what was tried, and whether the claim stood.
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
    >>> law = AuditResult(layer="law", target="GNMax(sigma=40.0)", claim="its exact law", tried="20,000 releases",
    ...                   refuted=False, finding="nothing", false_alarms=1e-6)
    >>> pair = AuditResult(layer="pair", target="votes", claim="(1, 1e-05)-DP", tried="one crafted record",
    ...                    refuted=False, finding="0.9 of 1", false_alarms=0.0, sensitive=True)
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
        """Return what may be said in public whatever the data were; :meth:`PrivacyStatement.with_audits` takes it.

        Examples
        --------
        >>> Audit(title="t").cited()
        []
        """
        return [*(r.cited() for r in self.results), *(c.to_dict() for c in self.citations)]

    def public(self) -> Self:
        """Return it with what was made from private data as citations only.

        Examples
        --------
        >>> Audit(title="t").public().sensitive
        False
        """
        open_ = tuple(r for r in self.results if not r.sensitive)
        told = tuple(CitedAudit.from_dict(r.cited()) for r in self.results if r.sensitive)
        return replace(self, results=open_, citations=(*told, *self.citations))

    def rows(self, *, include_sensitive: bool = False) -> list[dict[str, Any]]:
        """Return the figures as one tidy row each; those made from private data with ``include_sensitive=True`` alone.

        Examples
        --------
        >>> Audit(title="t").rows()
        []
        """
        shown = self.results if include_sensitive else self.public().results
        return [row for r in shown for row in r.rows(include_sensitive=include_sensitive)]

    def to_dict(self, *, include_sensitive: bool = False) -> dict[str, Any]:
        """Return it as JSON values, as ``_templates/audit.schema.json`` describes them.

        Parameters
        ----------
        include_sensitive : bool
            False: the audits of private data are cited only.

        Examples
        --------
        >>> Audit(title="t").to_dict()["schema"]
        'pate-audit-1'
        """
        shown = self if include_sensitive else self.public()
        values = Record.to_dict(replace(shown, results=()))
        return values | {"results": [r.to_dict(include_sensitive=include_sensitive) for r in shown.results]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "audit") -> Self:
        """Return the audit behind JSON values, strictly.

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
        """Read an ``audit.json``, strictly.

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
        """Return the page: one file that asks nothing of the network.

        Examples
        --------
        >>> "<script" in Audit(title="t").html()
        False
        """
        from pate.audit._page import page

        shown = self if include_sensitive else self.public()
        facts = [("versions", ", ".join(f"{name} {version}" for name, version in self.versions.items()))]
        facts += [("commit", self.commit)] if self.commit else []
        said = {"title": self.title, "description": self.description, "left_out": self.left_out, "facts": facts,
                "created": self.created, "command": self.command}  # fmt: skip
        return page(said, shown.results, shown.citations, sensitive=include_sensitive)

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
        >>> sorted(p.name for p in Audit(title="t").save(Path(tempfile.mkdtemp()) / "audit").iterdir())
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
        """Draw the epsilons side by side: what is promised, what was reached.

        Raises
        ------
        InvalidInputError
            No figure that may be shown is an epsilon.

        Examples
        --------
        >>> from pate.report.audit_result import Figure
        >>> found = AuditResult(layer="game", target="t", claim="c", tried="x", refuted=False, finding="y",
        ...                     figures=[Figure(name="lower bound on epsilon", value=0.8)])
        >>> Audit(title="t", results=[found]).plot().ax_.get_xlabel()
        'epsilon'
        """
        from pate.audit._page import bounds
        from pate.report.plots import bounds_picture

        return bounds_picture(bounds(self.results if include_sensitive else self.public().results), ax=ax)

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return what was tried and what came of it, by layer: a heading and a row for each; nothing private.

        Examples
        --------
        >>> Audit(title="t").table()
        [('layer', 'claim', 'tried', 'outcome')]
        """
        from pate.audit._page import outcome

        told: Iterable[AuditResult | CitedAudit] = (*self.results, *self.citations)
        return [("layer", "claim", "tried", "outcome"), *((t.layer, t.claim, t.tried, outcome(t)) for t in told)]

    def summary(self) -> str:
        """Return what came of it in a sentence or more; of private data only whether the claim stood.

        Examples
        --------
        >>> Audit(title="t").summary()
        'Nothing was tried.'
        """
        from pate.audit._page import answer

        open_ = self.public()
        return " ".join(answer(open_.results, open_.citations))

    def _repr_html_(self) -> str:
        heading, *rows = self.table()
        return cell("Audit", self.summary(), heads=heading, rows=rows, more=self.left_out)

    def __repr__(self) -> str:
        told = self.summary()
        lines = [tuple(shorten(text, _WIDTH, placeholder=" ...") for text in row) for row in self.table()]
        return "\n".join([f"{self.title}: {told[:1].lower()}{told[1:]}", *lined_up(lines)])
