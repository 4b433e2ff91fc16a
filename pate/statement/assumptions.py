"""What a guarantee rests on, point by point, and who vouches for each: this software, a person, or nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pate.exceptions import InvalidInputError
from pate.statement.plain import as_plain_text, check_text

#: Who vouches for an assumption.
BY = {"pate": "seen to by pate", "curator": "stated by the curator", "nobody": "open: nobody vouches for it"}
#: What a person may name besides assumptions; fields of the statement.
NAMED = ("dataset", "organisation", "purpose")
_WORDS = "the curator states: "


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """Something the guarantee rests on, and how it was ensured.

    Attributes
    ----------
    name : str
        Short, the same in every statement.
    claim : str
        What has to be true.
    how : str
        How it was ensured.
    by : {"pate", "curator", "nobody"}
        Who vouches. ``"pate"`` is set by the code that saw to it in this very run, ``"curator"`` where a person typed
        or confirmed it; whatever nobody said is ``"nobody"``: open.

    Examples
    --------
    >>> print(Assumption(name="noise", claim="nobody can repeat the noise", how="the system's generator", by="pate"))
    nobody can repeat the noise (seen to by pate: the system's generator)
    >>> print(Assumption(name="one person", claim="one person is one record"))
    one person is one record (open: nobody vouches for it)
    """

    name: str
    claim: str
    how: str = ""
    by: str = "nobody"

    def __post_init__(self) -> None:
        for key in ("name", "claim", "how"):
            check_text(f"assumption {key}", getattr(self, key))
        if self.by not in tuple(BY):
            raise InvalidInputError(f"an assumption's by must be one of {', '.join(BY)}. Say who vouches for it.")

    def __str__(self) -> str:
        return f"{self.claim} ({BY[self.by]}{': ' if self.how else ''}{self.how})"

    def vouched(self, how: str, by: str) -> Assumption:
        """Return the assumption with another word on how it was ensured.

        Nobody's word takes nothing away from somebody's; pate's and a person's stand side by side, each by its name.

        Examples
        --------
        >>> open_ = Assumption(name="duplicates", claim="nobody is in twice")
        >>> stated = open_.vouched("checked by the registry", "curator")
        >>> stated.vouched("equal rows were looked for", "nobody") == stated
        True
        >>> stated.vouched("ids are unique", "pate").how
        'ids are unique; the curator states: checked by the registry'
        """
        if by == "nobody" and self.by != "nobody":
            return self
        if {by, self.by} == {"pate", "curator"}:
            seen, said = (how, self.how) if by == "pate" else (self.how, how)
            return replace(self, how=as_plain_text(f"{seen}; {_WORDS}{said}"), by="pate")
        if by == self.by == "curator" and how != self.how:
            how = as_plain_text(f"{self.how}; {how}")
        return replace(self, how=how, by=by)


def check_stated(stated: Mapping[str, str] | None, names: Iterable[str]) -> dict[str, str]:
    """Return what a person states, or refuse it before anything is trained or charged.

    Parameters
    ----------
    stated : mapping of str to str, or None
        In the person's own words: ``dataset``, ``organisation``, ``purpose``, and how an assumption was ensured, by the
        assumption's name. Public.
    names : iterable of str
        The assumptions of the statement that a person can vouch for.

    Raises
    ------
    InvalidInputError
        It is no mapping, names something else, or a text is empty or not plain.

    Examples
    --------
    >>> check_stated({"purpose": "triage", "one person": "patients are unique"}, ["one person"])
    {'purpose': 'triage', 'one person': 'patients are unique'}
    >>> check_stated({"persons": "patients are unique"}, ["one person"])
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: stated has the unknown entry 'persons'. A person may state: dataset, ...
    """
    if stated is None:
        return {}
    if not isinstance(stated, Mapping):
        raise InvalidInputError(
            f"stated must be a dictionary of names to texts, got a {type(stated).__name__}. For example "
            "{'one person': 'patients are unique by their insurance number'}."
        )
    known = (*NAMED, *names)
    for name, text in stated.items():
        if name not in known:
            shown = ascii(name[:40]) if isinstance(name, str) else f"a {type(name).__name__}"
            raise InvalidInputError(
                f"stated has the unknown entry {shown}. A person may state: {', '.join(known)}. What pate sees to "
                "itself (the noise) nobody can state."
            )
        if not check_text(f"stated[{name!r}]", text).strip():
            raise InvalidInputError(f"stated[{name!r}] must say something. Leave it out to leave it open.")
    return dict(stated)
