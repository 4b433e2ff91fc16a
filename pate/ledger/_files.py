"""Released files: what a ledger keeps of each, and whether a file is still the one that was released.

An entry of kind ``answers`` without answers and of no cost binds files to a release: its body is ``{"bound": [...],
"mac": ...}``, one object per file (:func:`described`) and HMAC-SHA256, under the ledger's key, of these, of the release
and of the entry before. Anyone who has no key can make no such entry, and neither change nor drop one before it.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pate._core.files import parse_json
from pate.exceptions import InvalidInputError
from pate.ledger._chain import canonical, mac

#: What such an entry's body begins with; bodies are canonical.
BINDS = '{"bound":'
#: Of a file: its path, or the JSON object of a statement that is in no file.
Thing = str | os.PathLike[str] | Mapping[str, Any]
#: Larger ones are no statements.
_MOST_JSON_BYTES = 1_000_000
_MOST_MEMBERS = 64
_AS_RELEASED, _CHANGED, _UNKNOWN = "as released", "changed", "unknown"
#: Of a file that was compared with a statement alone, without a ledger.
AS_STATED = "as stated"


@dataclass(frozen=True)
class FileCheck:
    """Whether one file is as the ledger's release wrote it (as released, changed or unknown), or as a statement says.

    Attributes
    ----------
    file : str
        As it was named; empty for a statement that was handed over as such.
    status : {"as released", "as stated", "changed", "unknown"}
    why : str
        In words: of which release, what differs, or why nothing is known.
    release : int or None
        The release that the file, or the one that it was made of, belongs to.

    Examples
    --------
    >>> str(FileCheck("labels.csv", "as released", "labels.csv of release 1", 1))
    'labels.csv: as released: labels.csv of release 1'
    """

    file: str
    status: str
    why: str
    release: int | None = None

    @property
    def ok(self) -> bool:
        """Whether it is as released, or as stated where no ledger was asked."""
        return self.status in (_AS_RELEASED, AS_STATED)

    def __str__(self) -> str:
        status = self.status.upper() if self.status == _CHANGED else self.status
        # A name may hold a line's end, and what follows it could pass for another file's line.
        return " ".join(f"{self.file or 'the statement'}: {status}: {self.why}".splitlines())


@dataclass(frozen=True)
class Bound:
    """One file as an entry holds it: the entry's release, time and number, and what :func:`described` found.

    ``signed``: whether the key that is beside the ledger now signed the entry.
    """

    release: int
    created: str
    entry: int
    noted: Mapping[str, Any]
    signed: bool = False

    def __str__(self) -> str:
        name = self.noted["name"] or "the statement"
        return f"{name} of release {self.release}, bound {self.created}"


def read_thing(thing: Thing) -> tuple[str, bytes | Mapping[str, Any]]:
    """Return the name and the content of a file, or of a statement that is in none."""
    if isinstance(thing, Mapping):
        return "", thing
    path = Path(thing)
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise InvalidInputError(f"{str(path)!r} is no file. Name the files themselves.")
    try:
        return os.fspath(thing), path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read: {error.strerror}. Check the name and rights.") from None
    except MemoryError:
        raise InvalidInputError(f"{str(path)!r} is too large for this machine's memory: no release wrote it.") from None


def described(name: str, content: bytes | Mapping[str, Any]) -> dict[str, Any]:
    """Return what a ledger keeps of a file: digests, and of JSON objects in it one of each entry."""
    noted: dict[str, Any] = {"name": name, "object": None, "parts": {}, "sha256": None}
    if isinstance(content, Mapping):
        return noted | _of_object(content)
    noted["sha256"] = hashlib.sha256(content).hexdigest()
    if _may_be_json(content):
        noted |= _of_object(_object(content))
    elif content[:2] == b"PK":
        for member, data in _members(content).items():
            found = _of_object(_object(data) if member.endswith(".json") else None)
            noted["parts"] |= {f"{member} {key}": digest for key, digest in found["parts"].items()}
            noted["parts"][member] = _short(data)
            if member == "statement.json":
                noted["object"] = found["object"]
    return noted


def _may_be_json(data: bytes) -> bool:
    """Return whether an object of JSON may follow, however it is spaced."""
    return data[:1000].lstrip(b" \t\r\n")[:1] == b"{"


def _object(data: bytes) -> Any:
    if len(data) > _MOST_JSON_BYTES:
        return None
    try:
        value = parse_json(data)
        canonical(value)
    except (ValueError, RecursionError):  # 1e999 is read as infinity, which no JSON may hold
        return None
    return value


def _of_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {"object": None, "parts": {}}
    whole = canonical(value).encode("ascii")
    parts = {name: _short(canonical(part).encode("ascii")) for name, part in _entries_of(value)}
    return {"object": hashlib.sha256(whole).hexdigest(), "parts": parts}


def _entries_of(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what may differ by its name: ``mu``, ``guarantee.epsilon``, ``assumptions.noise``."""
    for key, part in value.items():
        inner: dict[Any, Any] = dict(part) if isinstance(part, Mapping) else {}
        if isinstance(part, list) and all(isinstance(one, Mapping) and "name" in one for one in part):
            inner = {str(one["name"]): one for one in part}
        yield from ((f"{key}.{name}", one) for name, one in inner.items())
        if not inner:
            yield str(key), part


def _members(data: bytes) -> dict[str, bytes]:
    """Return an archive's members, if they are stored as they are, as a model's: a small file holds no large one."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            odd = any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in infos)
            if odd or len(infos) > _MOST_MEMBERS or sum(info.file_size for info in infos) > len(data):
                return {}
            return {info.filename: archive.read(info) for info in infos}
    except Exception:  # any way in which a parser of unknown bytes may fail
        return {}


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def releases_named(content: bytes | Mapping[str, Any]) -> list[int]:
    """Return the releases that a statement, or the one in a model, names; none of other files."""
    named = statement_in(content).get("ledger_releases")
    return [n for n in named if isinstance(n, int)] if isinstance(named, list) else []


def head_named(content: bytes | Mapping[str, Any]) -> str:
    """Return the head of a ledger that a statement, or the one in a model, names; "" of other files."""
    named = statement_in(content).get("ledger_head")
    return named if isinstance(named, str) else ""


def statement_in(content: bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the statement that is a file, or stands in a model, as JSON has it, not checked; {} of other files."""
    said: Any = content
    if isinstance(content, bytes):
        data = _members(content).get("statement.json", b"") if content[:2] == b"PK" else content
        said = _object(data) if _may_be_json(data) else None
    return said if isinstance(said, Mapping) else {}


def signature(key: bytes, noted: Sequence[Mapping[str, Any]], release: int, created: str, previous: str) -> str:
    """Return the keyed digest of what an entry binds, and through ``previous`` of the whole chain before it."""
    return mac(key, "files", canonical([list(noted), release, created, previous]))


def compared(thing: Thing, bound: Sequence[Bound], proved: Callable[[Bound], bool], n_releases: int) -> FileCheck:
    """Return whether a file is as released."""
    file, content = read_thing(thing)
    name = Path(file).name
    noted = described(name, content)
    in_statement = not isinstance(content, bytes) or _may_be_json(content)
    same = [
        one
        for one in bound
        if (noted["sha256"] is not None and one.noted["sha256"] == noted["sha256"])
        or (in_statement and noted["object"] is not None and one.noted["object"] == noted["object"])
    ]
    if same:
        # A statement is also in its model: a file is said to be what it is.
        best = max(
            same, key=lambda one: (proved(one), one.noted["name"] == name, not _differing(noted, one.noted), one.entry)
        )
        if proved(best):
            return FileCheck(file, _AS_RELEASED, str(best), best.release)
        why = (
            "it is as the ledger says, but who has no key could have written such a ledger: lay the ledger's key "
            "file beside it, or give a head of it that you have from elsewhere (--head)"
        )
        return FileCheck(file, _UNKNOWN, why, best.release)
    kin = [one for one in bound if (name and one.noted["name"] == name) or _alike(noted, one.noted)]
    if kin:
        # Of several of this name the one that it was probably made of.
        nearest = min(
            kin, key=lambda one: (name not in ("", one.noted["name"]), len(_differing(noted, one.noted)), -one.entry)
        )
        return FileCheck(file, _CHANGED, f"{_what(noted, nearest.noted)}; compared with {nearest}", nearest.release)
    known = [one for one in bound if noted["object"] is not None and one.noted["object"] == noted["object"]]
    if known:
        why = f"its statement is {known[-1]}, the rest of it was not bound (pate ledger bind)"
        return FileCheck(file, _UNKNOWN, why, known[-1].release)
    without = sorted(set(range(1, n_releases + 1)) - {one.release for one in bound})
    why = "no file of this name or content was bound by this ledger"
    if without:
        why += f"; it may be of release {_few(without)}, for which no file was bound (an earlier pate bound none)"
    return FileCheck(file, _UNKNOWN, why)


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether both are statements, or both models, that name one head of a ledger."""
    a, b = one["parts"], other["parts"]
    return any(name in a and a[name] == b.get(name) for name in ("ledger_head", "statement.json ledger_head"))


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the entries in which two files differ."""
    a, b = one["parts"], other["parts"]
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


def _what(noted: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return in words what differs; the digest in a file follows from the rest of it."""
    if not other["parts"]:
        return "its content differs"
    if not noted["parts"]:
        return "it can no longer be read as what it was"
    names = _differing(noted, other)
    # A member is named only where none of its entries is.
    mentioned = [n for n in names if not any(other_name.startswith(f"{n} ") for other_name in names)]
    said = [n for n in mentioned if n.rpartition(" ")[2] != "digest"] or mentioned
    return f"its {_few(said)} differ{'s' * (len(said) == 1)}" if said else "its bytes differ"


def _few(names: Iterable[object]) -> str:
    found = [ascii(str(name))[1:-1] for name in names]
    return ", ".join(found[:12]) + (f" and {len(found) - 12} more" if len(found) > 12 else "")
