"""Replay over many neighbours: one of each kind, many of each, or whatever hypothesis thinks of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice
from time import perf_counter
from typing import Any

from pate.audit.replays._records import ADJACENCIES, Records
from pate.audit.replays._replay import Found, Replayer, result_of
from pate.audit.replays.neighbours import KINDS, Choice, make_neighbour, neighbours
from pate.core.checks import check_choice, check_int
from pate.core.curator import need
from pate.exceptions import InvalidInputError
from pate.report.audit_result import AuditResult


def replay_search(
    pipeline: Any,
    X: Any,
    y: Any,
    *,
    X_public: Any = None,
    groups: Any = None,
    mechanism: Any = None,
    adjacency: str = "replace-one",
    kinds: Iterable[str] | None = None,
    classes: Any = None,
    n_pairs: int | None = None,
    n_examples: int = 0,
    stop: bool = True,
    published: bool = False,
    random_state: int | None = None,
) -> AuditResult:
    """Replay a pipeline on neighbours that are found for the user; see :func:`replay` and :func:`neighbours`.

    Parameters
    ----------
    pipeline, X_public, mechanism, adjacency, published : as in replay
    X, y, groups : the private records
        **Sensitive.**
    kinds : iterable of str or None
        See :func:`neighbours`.
    classes : iterable or None
        The public classes.
    n_pairs : int or None
        So many pairs, kinds in turn and other records each time; None takes one of each kind.
    n_examples : int
        So many more that hypothesis searches (``pip install "pate[search]"``): records, labels and factors, made as
        small as still leaks where one leaks.
    stop : bool
        Whether to stop at the first pair that leaks.
    random_state : int or None
        Which records are changed (None: as by 0), and which random numbers fall (None: of a key for these runs).

    Returns
    -------
    AuditResult

    Raises
    ------
    InvalidInputError
        No kind gives neighbours here.
    MissingExtraError
        hypothesis is asked for and not there.

    Examples
    --------
    >>> import numpy as np
    >>> from pate import TeacherEnsemble
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    >>> teachers = TeacherEnsemble(GaussianNB(), 4, classes=(0, 1), random_state=0)
    >>> found = replay_search(teachers, X, y, X_public=X[:5], published=True)
    >>> found.refuted, found["teachers moved"].value, found["pairs that leak"].of
    (False, 1.0, '7 pairs')
    """
    start = perf_counter()
    check_choice("adjacency", adjacency, ADJACENCIES)
    n_examples = check_int("n_examples", n_examples, low=0)
    if n_examples:
        need("hypothesis", extra="search", why="A search (n_examples)")
    records = Records.of((X, y, groups), "(X, y, groups)")
    replayer = Replayer(pipeline, X_public=X_public, mechanism=mechanism, random_state=random_state)
    options: dict[str, Any] = {"adjacency": adjacency, "classes": classes}
    asked = None if kinds is None else list(kinds)
    seed = 0 if random_state is None else random_state
    first = neighbours(records.X, records.y, groups=records.groups, kinds=asked, random_state=seed, **options)
    if not first:
        raise InvalidInputError("kinds must name one that gives neighbours of these records; none does.")
    wanted = len(first) if n_pairs is None else check_int("n_pairs", n_pairs, low=1)
    known = [pair.kind for pair in first]
    found: list[Found] = []
    for kind, at in islice(_turns(known, seed), 2 * wanted + len(known)):
        if len(found) == wanted or (stop and found and found[-1].finding):
            break
        try:
            pair = neighbours(records.X, records.y, groups=records.groups, kinds=[kind], random_state=at, **options)[0]
        except InvalidInputError:  # it would change nothing in the records that fall to it
            continue
        D = records if pair.kind in _SAME_D and adjacency == "replace-one" else pair.D
        found.append(replayer.pair(D, pair.D_prime, adjacency, pair.what))
    if n_examples and not (stop and found[-1].finding):
        found += _by_hypothesis(replayer, records, known, n_examples, options)
    return result_of(replayer, found, start, adjacency=adjacency, published=published)


def _turns(kinds: list[str], seed: int) -> Iterator[tuple[str, int]]:
    """Yield all kinds by one seed, then by the next one."""
    return ((kind, at) for at in count(seed) for kind in kinds)


#: Kinds that leave the first data set as it is.
_SAME_D = tuple(kind for kind in KINDS if kind != "only of its class")


def _by_hypothesis(
    replayer: Replayer, records: Records, kinds: list[str], n_examples: int, options: dict[str, Any]
) -> list[Found]:
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import NoSuchExample

    found: list[Found] = []
    leaking: list[Found] = []
    choices = st.builds(
        Choice,
        at=st.integers(0, records.n - 1),
        other=st.integers(0, max(0, records.n - 2)),
        label=st.integers(0, 1000),
        factor=st.sampled_from([30.0, 0.0, -1.0, 1e3, 1e-3, 1e6]),
    )

    def leaks(example: tuple[str, Choice]) -> bool:
        kind, choice = example
        try:
            pair = make_neighbour(kind, records, choice, **options)
        except InvalidInputError:  # nothing changes in these records
            return False
        D = records if kind in _SAME_D and options["adjacency"] == "replace-one" else pair.D
        found.append(replayer.pair(D, pair.D_prime, options["adjacency"], pair.what))
        if found[-1].finding:
            leaking.append(found[-1])
        return bool(found[-1].finding)

    try:
        find(
            st.tuples(st.sampled_from(kinds), choices),
            leaks,
            settings=settings(
                max_examples=n_examples,
                database=None,  # what leaks is private
                deadline=None,
                derandomize=True,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            ),
        )
    except NoSuchExample:
        return found
    # The last that leaked is the smallest.
    return [*(one for one in found if not one.finding), leaking[-1]]
