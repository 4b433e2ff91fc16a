"""A statement's JSON file: read strictly, compared with its ledger, and made into a page again.

Anyone who has ``labels.statement.json`` can make the page from it and see that it says what the data say: the reader
refuses a file that lacks a field, has one too many, or contradicts itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pate._core.curator import warn
from pate._core.events import event, is_logged
from pate._core.files import read_json_file, write_text, writing
from pate._core.recorder import playing
from pate.exceptions import InvalidInputError, LedgerError, PateError, PateWarning
from pate.ledger import AS_STATED, FileCheck, Ledger, read_thing, statement_in, verify_ledger
from pate.release.statement.model import PrivacyStatement

__all__ = [
    "bind_released",
    "bind_statement",
    "check_against_ledger",
    "check_files",
    "read_statement",
    "render_statement",
    "statement_schema",
]

#: A statement is a page: about 6 kB.
_MAX_BYTES = 1_000_000


def statement_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a statement's JSON."""
    file = resources.files("pate") / "_templates" / "statement.schema.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def read_statement(path: str | os.PathLike[str]) -> PrivacyStatement:
    """Read a statement's JSON file, strictly.

    Raises
    ------
    InvalidInputError
        There is no such file, it is no JSON, or not a statement: an entry is missing, unknown or contradicts another.
    SensitiveValueError
        It carries a data-dependent epsilon, which is private.
    """
    return PrivacyStatement.from_dict(read_json_file(path, what="statement", most_bytes=_MAX_BYTES))


def check_against_ledger(
    statement: PrivacyStatement, ledger: str | os.PathLike[str], *, head: str | None = None
) -> None:
    """Refuse a statement that is not, word for word, one that the ledger was given: who edits one has no ledger's key.

    Parameters
    ----------
    statement : PrivacyStatement
    ledger : path
    head : str or None
        A head noted earlier, elsewhere: it proves what lies before it also where the key is not.

    Raises
    ------
    InvalidInputError
        The statement was changed, or the ledger does not know it (see :meth:`pate.Ledger.verify`).
    LedgerError
        There is no such ledger, or it is damaged.
    """
    found = verify_ledger(ledger, head=head, files=[statement.to_dict()])
    if not found.ok:
        raise LedgerError(f"the ledger {os.fspath(ledger)!r} is not verified: {'; '.join(found.problems)}.")
    (entry,) = found.files
    if not entry.ok:
        raise InvalidInputError(
            f"the statement is not the ledger's: {entry.status}: {entry.why}. Read it without --ledger, or ask for the "
            "file as it was released."
        )


#: What no file shows by itself.
ONLY_LEDGER = (
    "Whoever edits a statement can make its digest, and the files' that it names, anew. That these are the files that "
    "were released, what was charged for them, and what all releases together spent: only the ledger shows that "
    "(--ledger)."
)


def check_files(files: Iterable[str | os.PathLike[str]]) -> tuple[FileCheck, ...]:
    """Compare released files with what the statement among them says, without a ledger.

    A statement must agree with itself, and other files with what one of the statements names.

    Raises
    ------
    InvalidInputError
        A file cannot be read, or none is a statement's JSON.
    """
    contents = [(os.fspath(file), Path(file).suffix.lower(), read_thing(file)[1]) for file in files]
    found: dict[str, FileCheck] = {}
    statements: list[PrivacyStatement] = []
    for name, suffix, content in contents:
        if not _is_archive(suffix, content) and "label_file_sha256" in (said := statement_in(content)):
            try:
                statements.append(PrivacyStatement.from_dict(said))
                why = f"it agrees with itself; its digest is {statements[-1].digest}"
                found[name] = FileCheck(name, AS_STATED, why)
            except PateError as error:
                found[name] = FileCheck(name, "changed", str(error))
    if not found:
        raise InvalidInputError(
            "a statement's JSON (labels.statement.json) must be among the files where no ledger is: it holds the "
            "digests to compare with. Name it, or the ledger: --ledger."
        )
    for name, suffix, content in contents:
        found.setdefault(name, _by_statements(name, suffix, content, statements))
    return tuple(found[name] for name, _, _ in contents)


def _is_archive(suffix: str, content: Any) -> bool:
    """Whether it is a model under any name, in which a statement vouches for nothing beside itself."""
    return suffix == ".pate" or content[:2] == b"PK"


def _by_statements(name: str, suffix: str, content: Any, statements: list[PrivacyStatement]) -> FileCheck:
    """Return what statements say of a file that is none."""
    digest = hashlib.sha256(content).hexdigest()
    for s in statements:
        if s.label_file_sha256 == digest:
            return FileCheck(name, AS_STATED, f"its SHA-256, {digest}, is that of the statement's {s.label_file}")
        if content in (s.text().encode("utf-8"), s.html().encode("utf-8")):
            return FileCheck(name, AS_STATED, "it is the page that the statement makes")
        if _is_archive(suffix, content) and statement_in(content) == s.to_dict():
            return FileCheck(name, "unknown", "it holds this statement; whether the rest is as released, a ledger says")
    if suffix == ".pate" or (_is_archive(suffix, content) and statement_in(content)):
        return FileCheck(name, "changed", "the statement in it is not the one beside it")
    if Path(name).name in (f"{Path(s.label_file).stem}.statement{suffix}" for s in statements):
        return FileCheck(name, "changed", "it is not the page that the statement makes")
    if suffix in (".html", ".txt", ".json"):
        return FileCheck(name, "unknown", "it is no page that the statement makes: a translation, or edited")
    named = " or ".join(f"{s.label_file}, SHA-256 {s.label_file_sha256}" for s in statements if s.label_file)
    why = f"its SHA-256 is {digest}, and the statement is of {named or 'no file'}: edited, or of another release"
    return FileCheck(name, "changed", why)


def bind_statement(statement: PrivacyStatement, ledger: Ledger | None) -> None:
    """Let the ledger know a statement that is about to be handed out; what was paid for never fails for it."""
    if is_logged("statement"):
        event(
            "statement",
            "made",
            digest=statement.digest,
            epsilon=statement.guarantee.epsilon,
            delta=statement.guarantee.delta,
        )
    if statement.ledger_releases:
        bind_released(ledger, [statement.to_dict()])


def bind_released(
    ledger: Ledger | None, things: Iterable[Mapping[str, Any]] = (), contents: Mapping[str, bytes] | None = None
) -> None:
    """Bind the files of a release to its ledger (:meth:`pate.Ledger.bind`); warn where that cannot be done.

    Nothing is bound without a ledger, nor in a replay, whose releases belong to no ledger.
    """
    if ledger is None or playing() is not None:
        return
    try:
        ledger.bind(*things, contents=contents)
    except LedgerError as error:
        warn(
            f"what is released stays as it is, but the ledger could not note its digests, so `pate verify` will not "
            f"know it: {error} `pate ledger bind LEDGER FILES` (Ledger.bind) notes them later.",
            PateWarning,
        )


def new_page(out: str | os.PathLike[str]) -> Path:
    """Return where a page may be written: an unused name that ends in ``.html`` or ``.txt``."""
    goal = Path(out)
    if goal.suffix not in (".html", ".txt"):
        raise InvalidInputError(f"out must end in .html or .txt, got {goal.name!r}. Rename it.")
    if os.path.lexists(goal):
        raise InvalidInputError(f"{goal} exists. Pages are never overwritten: name another file.")
    return goal


def render_statement(
    path: str | os.PathLike[str] | PrivacyStatement,
    out: str | os.PathLike[str] | None = None,
    *,
    language: str = "en",
    catalogue: str | os.PathLike[str] | None = None,
) -> str:
    """Write the readable page of a statement from its JSON file.

    Parameters
    ----------
    path : path or PrivacyStatement
        The JSON file, or what was read from it: a file that was checked is not read again.
    out : path or None
        Where to write the page: ``.html`` or ``.txt``. None writes nothing.
    language : str
        Language of the plain words of an ``.html`` page: one that the package has. A ``.txt`` page has the record
        alone, in English.
    catalogue : path or None
        A translation of those words; see :meth:`PrivacyStatement.html`.

    Returns
    -------
    str
        The page: HTML for an ``.html`` file, plain text otherwise.

    Raises
    ------
    InvalidInputError
        The file is not a statement, ``out`` has another ending, exists already or cannot be written, the language does
        not ship, or the catalogue is none.

    Examples
    --------
    >>> import tempfile
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> from pate._core.files import write_json
    >>> folder = Path(tempfile.mkdtemp())
    >>> release = release_labels(
    ...     Votes.from_counts([[9, 1]]), GNMax(sigma=9.0), budget=Budget(2.0, 1e-5)
    ... )
    >>> write_json(folder / "a.json", release.statement.to_dict())
    >>> render_statement(folder / "a.json", folder / "a.html")[:15]
    '<!doctype html>'
    """
    goal = None if out is None else new_page(out)
    as_page = goal is not None and goal.suffix == ".html"
    if not as_page and (language != "en" or catalogue is not None):
        name = "language" if catalogue is None else "catalogue"
        raise InvalidInputError(
            f"{name} must go with an .html page: plain text is the record alone, whose words are the statement's own. "
            "Name the page, page.html for example."
        )
    s = path if isinstance(path, PrivacyStatement) else read_statement(path)
    made = s.html(language=language, catalogue=catalogue) if as_page else s.text()
    if goal is not None:
        with writing("out", goal):
            write_text(goal, made)
    return made
