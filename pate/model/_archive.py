"""The archive itself: one zip of stored members, checked to the last byte before anything of it is used."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any

from pate.core.files import atomic_path, parse_json, write_text
from pate.core.pages import render
from pate.exceptions import InvalidInputError, PateError, RunFolderError
from pate.model._manifest import KINDS, Manifest
from pate.statement.model import PrivacyStatement

SUFFIX = ".pate"
_MANIFEST, _STATEMENT = "manifest.json", "statement.json"
#: Parts have plain names: none leaves the folder that they are unpacked to.
_PART = re.compile(r"[a-z][a-z0-9_]{0,40}\.(safetensors|skops)")
_MOST_PARTS = 16
_MOST_JSON_BYTES = 50_000_000
#: Characters beside the headings, as in a statement.
_WIDTH = 84
#: The same model gives the same bytes, whenever it is saved.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class ModelFile:
    """A model file that was read: what it is, and what may be said of it; nothing in it has been built yet.

    Attributes
    ----------
    path : Path
    manifest : Manifest
    statement : PrivacyStatement
        Of the release that taught the model; the model is post-processing of it, and as public.
    parts : dict of str to bytes
    n_bytes : int
    sha256 : str
        Of the whole file.

    Examples
    --------
    >>> ModelFile.__dataclass_params__.frozen
    True
    """

    path: Path
    manifest: Manifest
    statement: PrivacyStatement
    parts: Mapping[str, bytes] = field(default_factory=dict)
    n_bytes: int = 0
    sha256: str = ""

    def __repr__(self) -> str:
        return f"ModelFile({self.path.name!r}, {self.manifest.kind!r}, classes={len(self.manifest.classes)})"

    @contextmanager
    def unpacked(self) -> Iterator[Path]:
        """Yield a folder of this process's own with the parts in it, gone afterwards.

        Whatever fails while they are read means that the file is damaged, and is told in one line.
        """
        with tempfile.TemporaryDirectory(prefix="pate-model-") as name:
            for part, data in self.parts.items():
                (Path(name) / part).write_bytes(data)
            problem = ""
            try:
                yield Path(name)
            except PateError:
                raise
            except Exception as error:  # whatever a wrong shape or type leads to
                problem = type(error).__name__
            if problem:
                raise damaged(self.path, f"its parts do not make a model ({problem})")

    def rows(self) -> list[tuple[str, str | tuple[str, ...]]]:
        """Return what there is to say of the model: a heading and a text, or a list of texts."""
        m = self.manifest
        kinds = {type(c).__name__ for c in m.classes}
        types = {"str": "texts", "bool": "truth values", "int": "whole numbers", "float": "numbers"}
        return [
            ("Model", KINDS[m.kind]),
            ("Made of", m.made_of),
            ("Classes", f"{', '.join(map(str, m.classes))} ({', '.join(sorted(types[k] for k in kinds))})"),
            ("Takes", str(m.door)),
            ("Costs", "nothing more, however often it is asked: it is as public as the release that taught it"),
            ("Holds", "released statistics and public rows, and what was computed from them; no private row, vote, "
                      "ballot or teacher"),
            ("File", f"{self.n_bytes:,} bytes, SHA-256 {self.sha256}, written by pate {m.pate}"),
        ]  # fmt: skip

    def text(self) -> str:
        """Return the model and its statement as plain text."""
        lines = ["MODEL", "====="]
        for name, value in self.rows():
            items = [value] if isinstance(value, str) else [f"- {item}" for item in value]
            body = [line for item in items for line in wrap(item, _WIDTH, subsequent_indent="  " * (item != value))]
            first, *rest = body or [""]
            lines += [f"{name + ':':<24}{first}", *(" " * 24 + line for line in rest)]
        return "\n".join(lines) + "\n\n" + self.statement.text()

    def html(self) -> str:
        """Return the model and its statement as one page, which asks nothing of the network."""
        s = self.statement
        return render("model.html", headline=s.headline, seeded=s.seeded, rows=self.rows(), statement=s.rows())

    def to_dict(self) -> dict[str, Any]:
        """Return what it is, its files and its statement as JSON values."""
        facts = {"bytes": self.n_bytes, "sha256": self.sha256}
        return {"file": facts, "model": self.manifest.to_dict(), "statement": self.statement.to_dict()}


def check_model_path(path: str | os.PathLike[str], *, name: str = "path") -> Path:
    """Return where a model may be written: an unused name that ends in ``.pate``.

    Raises
    ------
    InvalidInputError
        It ends otherwise.
    RunFolderError
        It exists: results are never overwritten.

    Examples
    --------
    >>> check_model_path("model.zip")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: path must end in .pate, got 'model.zip'. Rename it.
    """
    goal = Path(path)
    if goal.suffix != SUFFIX:
        raise InvalidInputError(f"{name} must end in {SUFFIX}, got {goal.name!r}. Rename it.")
    if os.path.lexists(goal):
        raise RunFolderError(f"{str(goal)!r} exists. Results are never overwritten: name another file.")
    return goal


def write_model(
    path: str | os.PathLike[str],
    manifest: Manifest,
    statement: PrivacyStatement,
    parts: Mapping[str, bytes],
    *,
    before: Callable[[dict[str, bytes]], None] | None = None,
) -> None:
    """Write a model file: whole or not at all, and never over anything.

    Parameters
    ----------
    path : path
    manifest : Manifest
    statement : PrivacyStatement
        Of the release that taught it.
    parts : mapping of str to bytes
        Files by name: ``*.safetensors`` or ``*.skops``.
    before : callable or None
        Is shown the file's name and bytes before they are written.

    Raises
    ------
    InvalidInputError
        It cannot be written there.
    RunFolderError
        It exists.

    Examples
    --------
    >>> import tempfile
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> from pate.model import Door
    >>> statement = release_labels(Votes.from_counts([[9, 1]]), GNMax(sigma=9.0), budget=Budget(2.0, 1e-5)).statement
    >>> said = Manifest(kind="student", classes=(0, 1), dtype="<i8", door=Door(kind="array", n_features=1))
    >>> file = Path(tempfile.mkdtemp()) / "model.pate"
    >>> write_model(file, said, statement, {})
    >>> read_model(file).statement == statement
    True
    """
    goal = check_model_path(path)
    told = _json(statement.to_dict())
    members = {**parts, _STATEMENT: told}
    said = manifest.to_dict() | {"files": {name: _facts(data) for name, data in sorted(members.items())}}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {_MANIFEST: _json(said), _STATEMENT: told, **dict(sorted(parts.items()))}.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), data)
    if before is not None:
        before({goal.name: made.getvalue()})
    try:
        with atomic_path(goal) as beside:
            beside.write_bytes(made.getbuffer())
    except OSError as error:
        raise InvalidInputError(
            f"path={os.fspath(path)!r} cannot be written: {error.strerror or error}. Name a file in a folder that you "
            "may write to, on a disk with room."
        ) from None


def write_page(file: ModelFile, out: str | os.PathLike[str]) -> None:
    """Write what a model is, and its statement, as one page.

    Parameters
    ----------
    file : ModelFile
    out : path
        ``.html`` or ``.txt``; it must not exist.

    Raises
    ------
    InvalidInputError
        It ends otherwise, exists or cannot be written.

    Examples
    --------
    >>> write_page(None, "page.pdf")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: out must end in .html or .txt, got 'page.pdf'. Rename it.
    """
    goal = Path(out)
    if goal.suffix not in (".html", ".txt"):
        raise InvalidInputError(f"out must end in .html or .txt, got {goal.name!r}. Rename it.")
    if os.path.lexists(goal):
        raise InvalidInputError(f"{goal} exists. Pages are never overwritten: name another file.")
    try:
        write_text(goal, file.html() if goal.suffix == ".html" else file.text())
    except OSError as error:
        raise InvalidInputError(f"{goal} cannot be written ({error.strerror}). Name another place.") from error


def read_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model file, strictly; nothing in it is run, and nothing built.

    Parameters
    ----------
    path : path

    Raises
    ------
    InvalidInputError
        There is no such file, it is no model file, of another format, damaged, or its statement was altered.

    Examples
    --------
    >>> read_model("nowhere.pate")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: there is no model file 'nowhere.pate'. Check the name and the folder.
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidInputError(f"there is no model file {os.fspath(path)!r}. Check the name and the folder.")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{os.fspath(path)!r} cannot be read: {error.strerror}. Check its rights.") from None
    members = _members(file, data)
    said = _parsed(file, members.pop(_MANIFEST, b""), "manifest")
    files = said.pop("files", None) if isinstance(said, dict) else None
    try:
        manifest = Manifest.from_dict(said)
    except InvalidInputError as error:
        raise damaged(file, str(error)) from None
    except (TypeError, ValueError):
        raise damaged(file, "its manifest is not one") from None
    if files != {name: _facts(part) for name, part in members.items()} or _STATEMENT not in members:
        raise damaged(file, "its parts are not those that its manifest names")
    try:
        statement = PrivacyStatement.from_dict(_parsed(file, members.pop(_STATEMENT), "statement"))
    except PateError as error:
        raise damaged(file, str(error)) from None
    return ModelFile(file, manifest, statement, members, len(data), hashlib.sha256(data).hexdigest())


def damaged(path: str | os.PathLike[str], why: str) -> InvalidInputError:
    """Return the error of a file that is not what it should be."""
    whole = why.rstrip(".")
    return InvalidInputError(
        f"{os.fspath(path)!r} is no intact model file: {whole}. Fetch it again, or save the model anew."
    )


def _members(file: Path, data: bytes) -> dict[str, bytes]:
    """Return the archive's members: stored as they are, so that a small file holds no large one."""
    problem = ""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            names = [info.filename for info in infos]
            if len(infos) > _MOST_PARTS or len(set(names)) != len(names):
                problem = "it has other members than a model has"
            elif any(not (n in (_MANIFEST, _STATEMENT) or _PART.fullmatch(n)) for n in names):
                problem = "it has members whose names no model has"
            elif any(i.compress_type != zipfile.ZIP_STORED or i.flag_bits & 1 or i.is_dir() for i in infos):
                problem = "its members are compressed or encrypted, which a model's never are"
            elif sum(max(i.file_size, i.compress_size) for i in infos) > len(data):
                problem = "its members claim to be larger than the file"
            elif any(i.file_size > _MOST_JSON_BYTES for i in infos if i.filename in (_MANIFEST, _STATEMENT)):
                problem = "its description is too long"
            else:
                return {name: archive.read(name) for name in names}
    except Exception as error:  # any way in which a parser may fail
        problem = f"it is no readable zip archive ({type(error).__name__})"
    raise damaged(file, problem)


def _parsed(file: Path, data: bytes, what: str) -> Any:
    try:
        return parse_json(data)
    except (ValueError, RecursionError):
        raise damaged(file, f"its {what} is missing or no JSON") from None


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode("ascii")


def _facts(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
