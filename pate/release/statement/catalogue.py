"""The words of a statement's plain-language page, in any language: a file of texts with named fields.

English ships (``_templates/statement.en.toml``). A translation is the same file in other words; what it lacks is shown
in English, and marked as such on the page.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from pate._core.files import read_toml_file, write_text, writing
from pate.exceptions import InvalidInputError
from pate.privacy.convert import format_up
from pate.release.statement.plain import check_text

__all__ = ["Catalogue", "Line", "english", "languages", "new_catalogue", "open_catalogue", "read_catalogue"]

_MAX_BYTES = 200_000
_FIELD = re.compile(r"\{(\w*)\}")
_CODE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_SHIPPED = re.compile(r"statement\.(.+)\.toml")


class Line(NamedTuple):
    """A text of a page, and whether it is English because the catalogue lacks it."""

    text: str
    foreign: bool = False


class Catalogue:
    """Texts by key, with English behind those that are missing.

    Parameters
    ----------
    language : str
        For browsers, such as ``"de"`` or ``"pt-BR"``.
    name : str
        The language in its own words.
    texts : mapping of str to str

    Attributes
    ----------
    missing : tuple of str
        Keys that are shown in English.
    used : set of str
        Keys that a page asked for, for tests.
    """

    def __init__(self, language: str, name: str, texts: Mapping[str, str]) -> None:
        own = _english()
        for key, text in texts.items():
            if key not in own:
                raise InvalidInputError(
                    f"the catalogue has the unknown entry {key[:60]!r}. Copy the names on the left from the "
                    "English one."
                )
            check_text(f"the catalogue's {key}", text)
            # A brace outside a field is an unfinished one, most likely.
            odd = re.search(r"[{}]", _FIELD.sub("", text))
            if set(_FIELD.findall(text)) != (needed := set(_FIELD.findall(own[key]))) or odd:
                fields = ", ".join(f"{{{name}}}" for name in sorted(needed)) or "no fields"
                raise InvalidInputError(
                    f"the catalogue's {key} must have {fields}, each by its name in braces, and no other brace. "
                    "Compare it with the English one."
                )
            if not text.strip():
                raise InvalidInputError(f"the catalogue's {key} must say something. Leave the line out for English.")
        self.language, self.name = language, name
        self.texts = dict(texts)
        self.missing = tuple(key for key in own if key not in texts)
        self.used: set[str] = set()

    def __call__(self, key: str, **fields: Any) -> Line:
        """Return a text with its fields filled; every field must be given, and none that it lacks."""
        template = self.texts.get(key)
        foreign = template is None
        template = _english()[key] if template is None else template
        if set(_FIELD.findall(template)) != set(fields):
            raise KeyError(f"{key} needs {sorted(set(_FIELD.findall(template)))}, got {sorted(fields)}")
        self.used.add(key)
        return Line(_FIELD.sub(lambda m: str(fields[m[1]]), template), foreign)

    def has(self, key: str) -> bool:
        """Whether there is such a key."""
        return key in _english()

    def keys(self, prefix: str) -> list[str]:
        """Return the last parts of the keys right below a prefix, in the English order."""
        found = (key.removeprefix(prefix + ".") for key in _english() if key.startswith(prefix + "."))
        return [name for name in found if "." not in name]

    def number(self, value: float, digits: int = 4) -> str:
        """Return a number rounded up to so many digits, in the language's own marks."""
        plain = format_up(value, digits)
        if "e" in plain and 1e-12 <= abs(value) < 1e15:
            plain = f"{float(plain):.15f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{float(plain):.0f}"
        whole, dot, rest = plain.partition(".")
        whole = self.whole(int(whole)) if whole.isdecimal() else whole
        return whole + (self("number.decimal").text if dot else "") + rest

    def whole(self, value: int) -> str:
        """Return a whole number in the language's own marks."""
        return f"{value:,}".replace(",", self("number.thousands").text)

    def one_in(self, share: float) -> str:
        """Return a small share as one in so many, the number rounded down, so that the share is not understated."""
        whole = int(1 / share * (1 + 1e-9))
        places = max(0, len(str(whole)) - 3)
        return self("number.one_in", n=self.whole(whole // 10**places * 10**places)).text


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found.update(_flat(value, f"{before}{key}.") if isinstance(value, dict) else {before + key: value})
    return found


def _source() -> str:
    return (resources.files("pate") / "_templates" / "statement.en.toml").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _english() -> dict[str, str]:
    found = _flat(tomllib.loads(_source()))
    return {key: text for key, text in found.items() if key not in ("language", "name")}


def english() -> Catalogue:
    """Return the catalogue that ships."""
    return Catalogue("en", "English", _english())


def languages() -> tuple[str, ...]:
    """Return the languages that ship.

    Examples
    --------
    >>> "en" in languages()
    True
    """
    names = (_SHIPPED.fullmatch(file.name) for file in (resources.files("pate") / "_templates").iterdir())
    return tuple(sorted(found[1] for found in names if found))


def read_catalogue(path: str | os.PathLike[str]) -> Catalogue:
    r"""Read a translation.

    Parameters
    ----------
    path : path
        A TOML file as :func:`new_catalogue` writes it, in other words.

    Raises
    ------
    InvalidInputError
        It cannot be read, has an entry that English lacks, or a text with other fields than the English one.
    """
    remedy = "Every line of a catalogue is a name, = and a text in quotes."
    flat = _flat(read_toml_file(path, what="catalogue", most_bytes=_MAX_BYTES, remedy=remedy))
    language, name = flat.pop("language", None), flat.pop("name", None)
    if not isinstance(language, str) or not _CODE.fullmatch(language):
        raise InvalidInputError(
            'the catalogue must begin with language = "de", say: a language code of letters and hyphens.'
        )
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError('the catalogue must have name = "Deutsch", say: the language in its own words.')
    return Catalogue(language, check_text("the catalogue's name", name), flat)


def open_catalogue(language: str = "en", file: str | os.PathLike[str] | None = None) -> Catalogue:
    """Return a user's own catalogue, or the one of a language that ships.

    Parameters
    ----------
    language : str
    file : path or None
        Comes first.
    """
    if file is not None:
        return read_catalogue(file)
    if language not in (known := languages()):
        raise InvalidInputError(
            f"language must be one of {', '.join(known)}, got {language!r}. For another one, translate the English "
            "catalogue (pate statement --new-catalogue FILE.toml) and name your file (--catalogue FILE.toml)."
        )
    if language == "en":
        return english()
    with resources.as_file(resources.files("pate") / "_templates" / f"statement.{language}.toml") as path:
        return read_catalogue(path)


def new_catalogue(path: str | os.PathLike[str]) -> None:
    """Write the English catalogue to a new file, to be translated.

    Raises
    ------
    InvalidInputError
        The file exists, or cannot be written.
    """
    goal = Path(path)
    if goal.suffix != ".toml":
        raise InvalidInputError(f"a catalogue's name must end in .toml, got {goal.name!r}. Say de.toml, for example.")
    if os.path.lexists(goal):
        raise InvalidInputError(f"{goal} exists. Catalogues are never overwritten: name another file.")
    with writing("path", goal):
        write_text(goal, _source())
