"""The statement of what several institutions released together: the ordinary one, its epsilon that of a coalition."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pate._core.checks import check_int
from pate._core.recorder import playing
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.mechanisms import DELTA_OF_CELL, VIEWERS, SharedGaussian, SharedGNMax, institution_charge, rounds_charge
from pate.privacy.convert import format_up
from pate.records import BallotFacts, RightFacts, VectorFacts
from pate.release._quote import counted
from pate.release._statement import ballot_assumptions, counts_in_words, make_assumptions, sums_in_words
from pate.release.statement.fields import Assumption, ViewerGuarantee
from pate.release.statement.model import PrivacyStatement, made_statement
from pate.release.statement.plain import as_plain_text

_NOISE = (
    "each site's operating system, as exact discrete Gaussian shares; only their sum with all sites' data is opened"
)
#: What no statement of this kind can do without, and who sees to it.
_PASSIVE = (
    "all parties followed the protocol, whatever they looked at (an engine against passive parties)",
    "not checked: a site that sends wrong inputs can choose the result, and does not learn more of others' data by it; "
    "one that breaks the protocol itself is not withstood",
)
_BY_THEOREM = {
    SharedGaussian: "opened sums are Gaussian to whoever lacks the honest shares but for the delta0 of a lattice "
    "(Canonne, Kamath, Steinke 2020; Kairouz, Liu, Steinke 2021); mu^2 adds up over rounds, later ones may depend on "
    "earlier ones (Dong, Roth, Su 2022), converted exactly (Balle, Wang 2018); what is computed from opened sums is "
    "free; neither a data-dependent cost nor rho* holds for them",
    SharedGNMax: "labels are computed from votes and discrete Gaussian noise, and cost no more than both (Canonne, "
    "Kamath, Steinke 2020; Kairouz, Liu, Steinke 2021), with what comparisons may let out in delta0; for a coalition, "
    "which knows shares and so faces another histogram, data-dependent costs and rho* do not hold",
}


@dataclass(frozen=True, kw_only=True)
class FederationFacts:
    """Who took part in a run among sites, and on what engine; public.

    Attributes
    ----------
    engine : str
        Name, version and method (:class:`pate.federation.Trust`).
    coordinator : str
    sites, recipients : tuple of str
        Who gave data; whom the result was opened to.
    most_units : int
        The largest number of units (for votes: of teachers) that one site has.
    drop_outs : int
        So many sites may fall silent: mechanisms are then made for those that stay.
    active : bool
        Whether the engine withstands parties that break the protocol.

    Examples
    --------
    >>> given = {"sites": ("a", "b", "c"), "recipients": ("a",), "most_units": 90}
    >>> FederationFacts(engine="MPyC", coordinator="a", **given).drop_outs
    0
    """

    engine: str
    coordinator: str
    sites: tuple[str, ...]
    recipients: tuple[str, ...]
    most_units: int
    drop_outs: int = 0
    active: bool = False


def viewer_guarantees(
    mechanisms: Sequence[SharedGaussian | SharedGNMax], n_cells: int, delta: float
) -> tuple[ViewerGuarantee, ...]:
    """Return what each viewer of a run learns at most.

    Examples
    --------
    >>> rounds = [SharedGaussian(40.0 / 2**0.5, n_sites=10, tolerate=3)] * 300
    >>> [round(one.epsilon, 2) for one in viewer_guarantees(rounds, 3000, 1e-5)]
    [2.5, 2.17, 2.05]
    """
    first = mechanisms[0]
    what = "the labels" if isinstance(first, SharedGNMax) else "the opened noisy sums"
    sees = {
        "coalition": (first.tolerate, f"{what}, all that these parties received, their own data and noise"),
        "coordinator": (1, f"{what}, and what it received; if it is a site, its own data and noise"),
        "outsider": (0, f"{what}, if they are published, and nobody's noise"),
    }
    found = []
    for viewer in VIEWERS:
        charge = rounds_charge(mechanisms, n_cells, viewer)
        held = {"epsilon": charge.guarantee(delta).epsilon, "delta": delta, "advantage": charge.total_variation()}
        found.append(ViewerGuarantee(viewer=viewer, n_parties=sees[viewer][0], sees=sees[viewer][1], **held))
    return tuple(found)


def federation_statement(
    mechanisms: Sequence[SharedGaussian | SharedGNMax],
    federation: FederationFacts,
    *,
    n_cells: int,
    delta: float,
    facts: Sequence[BallotFacts | VectorFacts | RightFacts] = (),
    n_queries: int = 0,
    unit: str = "record",
    n_units: int | None = None,
    ledger: Ledger | None = None,
    release: int | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
) -> PrivacyStatement:
    """Return the statement of one run among sites.

    Parameters
    ----------
    mechanisms : sequence of SharedGaussian, or of one SharedGNMax
        One per round.
    federation : FederationFacts
    n_cells : int
        What was charged for: numbers that are opened, or compared.
    delta : float
    facts : sequence of BallotFacts, VectorFacts or RightFacts
        Of all sites' sums, round by round; empty for votes of teachers.
    n_queries, unit, n_units
        For votes: public rows, whom a shard protects, and how many there are at all sites.
    ledger, release
        Of the site that writes it, if it is one.
    tuning, stated
        See :func:`pate.release_labels`.

    Examples
    --------
    >>> given = {"sites": ("a", "b", "c"), "recipients": ("a",), "most_units": 90}
    >>> who = FederationFacts(engine="MPyC 0.11", coordinator="a", **given)
    >>> labels = SharedGNMax(40.0, n_sites=3, tolerate=1, n_classes=10)
    >>> s = federation_statement(
    ...     [labels], who, n_cells=3000, delta=1e-5, n_queries=300, n_units=270
    ... )
    >>> s.guarantee.epsilon == s.viewers[0].epsilon, [one.viewer for one in s.viewers]
    (True, ['coalition', 'coordinator', 'outsider'])
    """
    first, seeded = mechanisms[0], playing() is not None
    if len(federation.sites) - federation.drop_outs != first.n_sites:
        raise InvalidInputError(
            f"federation must name {first.n_sites} sites, and as many more as may fall silent "
            f"({federation.drop_outs}), got {len(federation.sites)}: the noise of a silent site is missing. Make "
            "mechanisms for those that stay."
        )
    charge = rounds_charge(mechanisms, n_cells)
    sums = [one for one in facts if not isinstance(one, RightFacts)]
    right = [one for one in facts if isinstance(one, RightFacts)]
    if facts:
        unit, n_units = facts[-1].unit, facts[-1].n if facts[-1].n_is_public else None
        residual = any(getattr(one, "clip", None) is not None or getattr(one, "is_residual", False) for one in sums)
        adjacency = facts[-1].adjacency
        rests = ballot_assumptions(sums, unit=unit, adjacency=adjacency, seeded=seeded, residual=residual, right=right)
        released = "; ".join(
            (sums_in_words(sums), *map(counts_in_words, right)) if sums else map(counts_in_words, right)
        )
    else:
        adjacency = "replace-one"
        rests = make_assumptions(unit=unit, classes_inferred=False, seeded=seeded)
        what = "labels" if isinstance(first, SharedGNMax) else "noisy vote counts"
        released = f"{what} of {check_int('n_queries', n_queries, low=1):,} public rows"
    return made_statement(
        noise_source=_NOISE,
        seeded=seeded,
        ledger=ledger,
        releases=() if release is None else (release,),
        tuning=tuning,
        stated=stated,
        charge=charge,
        guarantee=replace(charge.guarantee(delta), adjacency=adjacency),
        released=f"{released}, of {len(federation.sites)} institutions together, opened to "
        f"{as_plain_text(', '.join(federation.recipients))}",
        unit=unit,
        n_units=n_units,
        mechanism=_mechanism(mechanisms, n_cells),
        accounting=_BY_THEOREM[type(first)]
        + "; noise of honest institutions alone is counted: a coalition knows its own",
        setting=_setting(federation),
        threat_model=_threat(federation, first),
        covered=("what was opened, and everything computed from it and from public data",),
        not_covered=_not_covered(mechanisms, n_cells, delta, federation, adjacency),
        # Each site vouches for its own noise alone: it is among what several institutions rest on.
        assumptions=(*(a for a in rests if seeded or a.name != "noise"), *_assumptions(federation, first)),
        viewers=viewer_guarantees(mechanisms, n_cells, delta),
        verify=_recipe(mechanisms, n_cells, delta),
    )


def _mechanism(mechanisms: Sequence[SharedGaussian | SharedGNMax], n_cells: int) -> str:
    first = mechanisms[0]
    if isinstance(first, SharedGNMax):
        return f"{first}: the class with the most votes after noise, {n_cells:,} counts compared inside"
    noise = counted(one.noise_multiplier for one in mechanisms if isinstance(one, SharedGaussian))
    return (
        f"SharedGaussian, {len(mechanisms)} round{'s' if len(mechanisms) > 1 else ''}, noise multiplier {noise} of the "
        f"{first.n_honest} honest of {first.n_sites} sites together; at most {n_cells:,} numbers opened"
    )


def _setting(who: FederationFacts) -> str:
    gone = f"{who.drop_outs} may fall silent" if who.drop_outs else "if one falls silent, nothing is opened"
    return as_plain_text(
        f"across {len(who.sites)} institutions ({', '.join(who.sites)}; asked by {who.coordinator}): each holds its "
        f"own records and is trusted with those alone; sums are opened by {who.engine}; {gone}"
    )[:2000]


def _threat(who: FederationFacts, first: SharedGaussian | SharedGNMax) -> str:
    kind = "whatever they send" if who.active else "who follow the protocol and look at all that they receive"
    return (
        f"any {first.tolerate} of the parties together, the coordinator among them, {kind}, and anyone who sees what "
        "was released, whatever else they know (every other unit's data, say), however much they compute; not against "
        "the institution that holds the unit's own record, nor against anyone who watches or times its machine"
    )


def _not_covered(
    mechanisms: Sequence[SharedGaussian | SharedGNMax],
    n_cells: int,
    delta: float,
    who: FederationFacts,
    adjacency: str,
) -> tuple[str, ...]:
    whole = institution_charge(mechanisms, n_cells, who.most_units)
    try:
        size = f"epsilon {format_up(whole.guarantee(delta).epsilon)} at delta {delta:g}"
    except InvalidInputError:
        size = "no finite epsilon"
    adds = "" if adjacency == "replace-one" else ", though not that it took part"
    return (
        f"a whole institution: if all its {who.most_units:,} units were replaced, {size} would be the limit{adds}",
        "that and when each institution took part, and how long it took",
        "right results: one institution that lies about its sums can choose them",
        "every file that a site keeps of records, sums and its own noise",
        "other releases from the same records: each institution's own ledger counts those that it knows",
    )


def _assumptions(who: FederationFacts, first: SharedGaussian | SharedGNMax) -> tuple[Assumption, ...]:
    c = first.max_sites_per_person
    claim = f"a person's records are at {'one institution' if c == 1 else f'{c} institutions at most'}"
    how = "" if c == 1 else f"the sites declared it; the price is {c} times the mu of one"
    passive = () if who.active else (Assumption("passive", *_PASSIVE),)
    return (
        Assumption(
            "coalition", f"at most {first.tolerate} of the parties put together what they have", "agreed in the plan"
        ),
        Assumption(
            "own noise",
            "each honest institution drew its share by this mechanism from its operating system's generator, once, and "
            "kept it secret",
        ),
        Assumption("one organisation", claim, how, "curator" if how else "nobody"),
        *passive,
    )


def _recipe(mechanisms: Sequence[SharedGaussian | SharedGNMax], n_cells: int, delta: float) -> str:
    first: Any = mechanisms[0]
    if isinstance(first, SharedGNMax):
        return f"pate.mechanisms.{first}.charge({n_cells}).guarantee({delta!r})"
    squares = " + ".join(f"{n}/{one.noise_multiplier!r}^2" for one, n in Counter(mechanisms).items())
    off = f"{n_cells} x 2^{math.log2(DELTA_OF_CELL):g}"
    return (
        f"mu^2 = {first.max_sites_per_person}^2 ({squares}); delta0 = {off}; then epsilon at delta {delta!r} - delta0 "
        "(Balle, Wang 2018)"
    )
