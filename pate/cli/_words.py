"""Errors in the words of the command line: what Python calls an argument is called by its option."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: What follows an argument's name where it begins a sentence; elsewhere the word may be plain English.
_VERBS = "must|needs|is|are|has|have|holds|says|chose|cannot|and|or|asks"
#: What was left out is None in Python alone.
_NOTHING = {"must be None, ": "must be left out, or ", ", got None": ", and was left out"}
#: A sentence that says what to write in Python instead.
_PYTHON_CALL = r" [A-Z][^.:;?()]*\b[A-Za-z]+\([^()]*\)(?:[^.()]|\([^()]*\))*\.$"
_VALUE = r"'[^']*'|\"[^\"]*\"|[^\s,;:()]*[^\s,;:().]"


def in_own_words(text: str, options: Mapping[str, str]) -> str:
    """Return an error or a warning as somebody at a command line would say it.

    Parameters
    ----------
    text : str
        Such as ``n_teachers must be at most 5`` or ``say anyway=True (--anyway)``.
    options : mapping of str to str
        The options of the command by their arguments' names.
    """
    for left_out, told in _NOTHING.items():
        text = text.replace(left_out, told)
    text = re.sub(_PYTHON_CALL, "", text)
    # A mechanism is written as Python writes it: GNMax(sigma=40.0).
    parts = re.split(r"([A-Z]\w*\([^()]*\))", text)
    return "".join(part if i % 2 else _translated(part, options) for i, part in enumerate(parts))


def _translated(text: str, options: Mapping[str, str]) -> str:
    for name in sorted(options, key=len, reverse=True):
        option = options[name]
        word, flag = re.escape(name), re.escape(option)
        # What is said in both tongues is said once: anyway=True (--anyway), groups (--group).
        text = re.sub(rf"(?<![\w-]){word}(=({_VALUE})?)? \(({flag}( [^)]*)?)\)", r"\3", text)
        text = re.sub(rf"(?<![\w-]){word}=True\b", option, text)
        text = re.sub(rf"(?<![\w-]){word}=(?=[\s,;]|\.?$|\.\s)", option, text)
        text = re.sub(rf"(?<![\w-]){word}=({_VALUE})", lambda m, o=option: f"{o} {_bare(m[1])}", text)  # type: ignore[misc]
        text = re.sub(rf"(^|(?<=[.:;] )){word}(?= ({_VERBS})\b)", option, text)
        text = re.sub(rf"(^--[a-z-]+ (?:and|or) ){word}(?= ({_VERBS})\b)", lambda m, o=option: m[1] + o, text)  # type: ignore[misc]
        if "_" in name:  # no English word
            text = re.sub(rf"(?<![\w.'\"/-]){word}(?![\w'\"/(])", option, text)
    return text


def _bare(value: str) -> str:
    inner = value.strip("'\"")
    return value if not inner or " " in inner else inner
