"""A statement, or a part of one, that was edited by hand: every entry of another kind is refused in words."""

import copy
import doctest
import json
from pathlib import Path

import pytest

from pate.exceptions import PateError
from pate.release.statement import fields as parts
from pate.release.statement.model import PrivacyStatement

WRONG = ([], {}, [[]], None, "x", "", True, -1, 10**400, float("nan"), object())
STATEMENTS = sorted(Path(__file__).parent.glob("earlier*.statement.json"))
KINDS = sorted(
    (c for c in vars(parts).values() if isinstance(c, type) and issubclass(c, parts.Part) and c is not parts.Part),
    key=lambda c: c.__name__,
)
#: Parts whose docstring makes none.
BARE = {
    parts.Doubt: parts.Doubt(kind="below the commonest", sentence="no better than the commonest class"),
    parts.CitedAudit: parts.CitedAudit(layer="game", claim="1-GDP", tried="100 games", stood=True),
}


def edited(values):
    """Every copy of nested JSON values with one of them replaced."""
    places = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in places:
        inner = edited(value) if isinstance(value, dict | list) and value else ()
        for wrong in (*WRONG, *inner):
            changed = copy.copy(values)
            changed[key] = wrong
            yield changed


def of_example(kind):
    """The part that its own docstring makes."""
    made = []
    keep, space = kind.__post_init__, dict(vars(parts))
    try:
        kind.__post_init__ = lambda self: (keep(self), made.append(self))[0]
        for example in doctest.DocTestParser().get_examples(kind.__doc__):
            exec(compile(example.source, "example", "exec"), space)
    finally:
        kind.__post_init__ = keep
    return made[0] if made else BARE[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_of_another_kind_is_refused_in_words(kind):
    values = json.loads(json.dumps(of_example(kind).to_dict()))
    assert kind.from_dict(values).to_dict() == values
    for changed in edited(values):
        try:
            kind.from_dict(changed)
        except PateError:
            continue


@pytest.mark.long
@pytest.mark.parametrize("path", STATEMENTS, ids=lambda p: p.name)
def test_so_is_one_anywhere_in_a_statement(path):
    values = json.loads(path.read_text())
    assert PrivacyStatement.from_dict(values).to_dict() == values
    for changed in edited(values):
        try:
            PrivacyStatement.from_dict(changed)
        except PateError:
            continue
