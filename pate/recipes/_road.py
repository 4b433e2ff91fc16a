"""Which road a budget takes, records that vote or DP-SGD: a rule of public facts alone, in one function."""

from __future__ import annotations

from pate.recipes._facts import PublicFacts

#: Fewer public rows make no map of the private ones.
FEWEST_PUBLIC = 20


def chosen_road(facts: PublicFacts) -> tuple[str, str]:
    """Return ``"records"`` or ``"dpsgd"``, and why: what ``voters="auto"`` means.

    Parameters
    ----------
    facts : PublicFacts
        Of no private cell. Only the number of public rows counts so far.

    Returns
    -------
    road : {"records", "dpsgd"}
    reason : str
        For the statement.

    Examples
    --------
    >>> from dataclasses import replace
    >>> facts = PublicFacts(n_units=10_000, n_classes=10, mu=0.14, n_public=2_000)
    >>> chosen_road(facts)[0], chosen_road(replace(facts, n_public=0))
    ('records', ('dpsgd', 'there are no public rows for a map that records could vote on'))
    """
    if not facts.n_public:
        return "dpsgd", "there are no public rows for a map that records could vote on"
    if facts.n_public < FEWEST_PUBLIC:
        return (
            "dpsgd",
            f"{facts.n_public} public rows make no map that records could vote on: that takes {FEWEST_PUBLIC}",
        )
    return "records", f"{facts.n_public:,} public rows make a map that records can vote on"
