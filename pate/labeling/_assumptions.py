"""What the guarantee of released labels rests on, and who vouches for each point."""

from __future__ import annotations

from pate.privacy.statement import Assumption, PrivacyStatement

#: How a table's scaling and encoding was kept from mixing shards, by :class:`pate.label_job.LabelJob`'s names.
_PREPROCESSING = {
    "public": ("pate learnt scaling and encoding from the public rows alone", "pate"),
    "shard": ("pate learnt scaling and encoding inside every shard", "pate"),
    "none": ("pate did none; what was done to the table before is not known here", "curator"),
}
#: The assumption of a cut that anybody who knows its seed can repeat.
KNOWN_SHARDS = "known shards"
_GIVEN = "the release was given votes and cannot see how they came about"


def make_assumptions(
    *, unit: str, classes_inferred: bool, seeded: bool, partition_seeded: bool = False
) -> tuple[Assumption, ...]:
    """Return the assumptions of a release of given votes.

    Examples
    --------
    >>> [a.name for a in make_assumptions(unit="record", classes_inferred=True, seeded=False)]
    ['disjoint shards', 'own shard only', 'preprocessing', 'duplicates', 'one person', 'parameters', 'noise']
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
        Assumption(
            name="duplicates",
            claim="nobody's record stands in two shards, entered twice",
            how="equal rows were not looked for here",
            by="nobody",
        ),
        Assumption(name="one person", claim=person),
        Assumption(
            name="parameters",
            claim="the public rows and all parameters were chosen without looking at the private data",
            how="see what was tuned",
        ),
        Assumption(name="noise", claim="nobody can predict or repeat the noise", how=noise[0], by=noise[1]),
    ]
    if not classes_inferred:
        found.append(
            Assumption(name="classes", claim="the set of classes is public knowledge", how="it was named beforehand")
        )
    if partition_seeded:
        place = "the group keeps its id" if unit == "group" else "all other records keep their places in the file"
        found.append(
            Assumption(
                name=KNOWN_SHARDS,
                claim=f"only such a replacement is protected against in which {place}",
                how="the shards were cut by a seed that may be known (partition_seed), not by a secret",
            )
        )
    return tuple(found)


def drawn_here(statement: PrivacyStatement, n_asked: int) -> bool:
    """Whether all labels are of the one release that was charged now, ``n_asked`` queries.

    Labels that were stored before may be of teachers that nobody here saw: for those pate does not vouch.

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> release = release_labels(Votes.from_counts([[9, 1]]), GNMax(sigma=9.0), budget=Budget(2.0, 1e-5))
    >>> drawn_here(release.statement, release.quote.n_queries), drawn_here(release.statement, 0)
    (True, False)
    """
    return n_asked > 0 and len(statement.ledger_releases) <= 1


def vouch_for_training(statement: PrivacyStatement, *, preprocessing: str | None = None) -> PrivacyStatement:
    """Return the statement of labels whose teachers pate itself partitioned and trained (see :func:`drawn_here`).

    Parameters
    ----------
    statement : PrivacyStatement
        Of a release of those teachers' votes.
    preprocessing : {"public", "shard", "none"} or None
        Where a table's scaling and encoding was learnt; None leaves it to the curator.

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> release = release_labels(Votes.from_counts([[9, 1]]), GNMax(sigma=9.0), budget=Budget(2.0, 1e-5))
    >>> vouched = vouch_for_training(release.statement, preprocessing="public")
    >>> [a.name for a in vouched.assumptions if a.by == "pate"]
    ['disjoint shards', 'own shard only', 'preprocessing', 'duplicates', 'noise']
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
    # That the check was made is public; what it found is not.
    looked = "pate looked for equal rows in different shards and told the curator alone, who decided"
    s = s.with_evidence("duplicates", looked)
    if preprocessing is not None:
        how, by = _PREPROCESSING[preprocessing]
        s = s.with_evidence("preprocessing", how, by=by)
    return s
