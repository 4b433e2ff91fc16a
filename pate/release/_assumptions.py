"""What the guarantee of released labels rests on, and who vouches for each point.

An assumption is *seen to by pate* where code of this very run saw to it, *stated by the curator* where a person typed
it (``stated=``, ``classes=``), and *open* otherwise: a default is nobody's word.
"""

from __future__ import annotations

from collections.abc import Mapping

from pate.statement.assumptions import Assumption, check_stated
from pate.statement.model import PrivacyStatement

#: How a table's scaling and encoding was kept from mixing shards, by :class:`pate.jobs.LabelJob`'s names.
_PREPROCESSING = {
    "public": ("pate learnt scaling and encoding from the rows given as public alone", "pate"),
    "shard": ("pate learnt scaling and encoding inside every shard", "pate"),
    "none": (
        "pate fitted nothing before training; what was done to the rows before they came is not known here",
        "nobody",
    ),
}
#: The assumption of a cut that anybody who knows its seed can repeat.
KNOWN_SHARDS = "known shards"
_GIVEN = "the release was given votes and cannot see how they came about"
_UNKNOWN = (
    "how many other fits were made on these data is not known to this statement; a ledger counts those it charged"
)
_NAMED = "they were named beforehand"
#: What no person can state: pate draws the noise, and knows.
_PATES_OWN = ("noise",)


def make_assumptions(
    *,
    unit: str,
    classes_inferred: bool,
    seeded: bool,
    classes_named: bool = False,
    partition_seeded: bool = False,
) -> tuple[Assumption, ...]:
    """Return the assumptions of a release of given votes: all open but the noise, and the classes that somebody named.

    Parameters
    ----------
    unit : {"record", "group"}
    classes_inferred : bool
        The set of classes was read off the private labels.
    seeded : bool
    classes_named : bool
        A person named every class at the door.
    partition_seeded : bool
        The shards were cut by a seed that somebody may know.
    """
    person = (
        "all rows of one person carry one group id, and the ids say nothing about anybody"
        if unit == "group"
        else "one person is one record: who has several is protected for each of them, not for all together"
    )
    noise = (
        ("it is a fixed seed, which anybody can repeat: the assumption does NOT hold", "nobody")
        if seeded
        else ("drawn from the operating system's generator, once, when it was used", "pate")
    )
    found = [
        Assumption(
            name="disjoint shards",
            claim="every unit's records are in one shard only, whatever the other units' records are",
            how=_GIVEN,
        ),
        Assumption(name="own shard only", claim="each teacher was trained on its own shard alone", how=_GIVEN),
        Assumption(
            name="preprocessing",
            claim="whatever was fitted before training was fitted inside a shard or on public rows",
            how=_GIVEN,
        ),
        Assumption(name="public rows", claim="the rows that were labelled are public", how=_GIVEN),
        Assumption(
            name="duplicates",
            claim="nobody's record stands in two shards, entered twice",
            how="equal rows were not looked for here",
        ),
        Assumption(name="one person", claim=person),
        Assumption(
            name="parameters",
            claim="the public rows and all parameters were chosen without looking at the private data",
            how=_UNKNOWN,
        ),
        Assumption(name="noise", claim="nobody can predict or repeat the noise", how=noise[0], by=noise[1]),
    ]
    if not classes_inferred:
        how, by = (_NAMED, "curator") if classes_named else ("they came with the votes", "nobody")
        found.append(Assumption(name="classes", claim="the set of classes is public knowledge", how=how, by=by))
    if partition_seeded:
        place = "the group keeps its id" if unit == "group" else "all other records keep their places in the file"
        found.append(
            Assumption(
                name=KNOWN_SHARDS,
                claim=f"only such a replacement is protected against in which {place}",
                how="the shards were cut by a seed that may be known (partition_seed), not by a secret",
                by="nobody",
            )
        )
    return tuple(found)


def check_release_stated(
    stated: Mapping[str, str] | None, *, unit: str, classes_inferred: bool = False, also: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return what a person states about a release of labels, refused at the door where it has no place.

    Examples
    --------
    >>> check_release_stated({"classes": "by law"}, unit="record")
    {'classes': 'by law'}
    >>> check_release_stated({"noise": "we threw the seed away"}, unit="record")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: stated has the unknown entry 'noise'. A person may state: dataset, ...
    """
    known = make_assumptions(unit=unit, classes_inferred=classes_inferred, seeded=False)
    return check_stated(stated, [*(a.name for a in known if a.name not in _PATES_OWN), *also])


def drawn_here(statement: PrivacyStatement, n_asked: int, teachers: object = None) -> bool:
    """Whether all labels are of the one release that was charged now, ``n_asked`` queries, by teachers of pate's.

    Labels that were stored before may be of teachers that nobody here saw: for those pate does not vouch. Nor does it
    for an ensemble whose class is somebody else's: what that does with the records is not known here.
    """
    own = teachers is None or type(teachers).__module__.partition(".")[0] == "pate"
    return own and n_asked > 0 and len(statement.ledger_releases) <= 1


def vouch_for_training(
    statement: PrivacyStatement,
    *,
    preprocessing: str = "none",
    public_rows: str | None = None,
) -> PrivacyStatement:
    """Return the statement of labels whose teachers pate itself partitioned and trained (see :func:`drawn_here`).

    Parameters
    ----------
    statement : PrivacyStatement
        Of a release of those teachers' votes.
    preprocessing : {"public", "shard", "none"}
        Where a table's scaling and encoding was learnt.
    public_rows : {"checked", "declared"} or None
        Whether private rows were looked for among the public ones, or a person declared that those are public.
    """
    known = any(a.name == KNOWN_SHARDS for a in statement.assumptions)
    by = "a seed that may be known" if known else "a secret of 256 bits from the operating system"
    shards = (
        f"pate dealt each group out whole, by a keyed hash of its id alone, under {by}"
        if statement.unit == "group"
        else f"pate dealt the records out by a keyed permutation of their places in the file, under {by}"
    )
    s = statement.with_evidence("disjoint shards", shards)
    s = s.with_evidence("own shard only", "pate trained one classifier per shard on that shard's rows")
    # That a search was made is public; what it found is not, and what became of it is the curator's word or nobody's.
    looked = (
        "pate looked for equal rows in different shards; what it found, and what was done about it, is not told here"
    )
    s = s.with_evidence("duplicates", looked, by="nobody")
    return with_public_rows(with_preprocessing(s, preprocessing), public_rows)


def with_preprocessing(statement: PrivacyStatement, where: str) -> PrivacyStatement:
    """Return the statement with where scaling and encoding was learnt, see :func:`vouch_for_training`."""
    how, by = _PREPROCESSING[where]
    return statement.with_evidence("preprocessing", how, by=by)


def with_public_rows(statement: PrivacyStatement, public_rows: str | None) -> PrivacyStatement:
    """Return the statement with what was seen to of the public rows, see :func:`vouch_for_training`."""
    if public_rows == "declared":
        return statement.with_evidence("public rows", "declared, wherever they also stand", by="curator")
    if public_rows == "checked":
        looked = "pate looked for private rows among them; what it found is not told here"
        return statement.with_evidence("public rows", looked, by="nobody")
    return statement


def classes_were_named(statement: PrivacyStatement) -> PrivacyStatement:
    """Return the statement where a person named every class at the door, ``classes=``."""
    if all(a.name != "classes" for a in statement.assumptions):  # read off the labels: the statement says so elsewhere
        return statement
    return statement.with_evidence("classes", _NAMED, by="curator")
