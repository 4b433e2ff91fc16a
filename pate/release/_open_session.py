"""Opening a session: a number of queries is paid for whole, or one that was left is taken up again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pate.core.checks import check_classes, check_int, shown
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger, Registration
from pate.mechanisms import Mechanism
from pate.privacy.budget import Budget
from pate.release._assumptions import check_release_stated
from pate.release._door import Door
from pate.release._quote import Quote, price_as_planned, warn_if_weak
from pate.release._resume import Claim, left_over, mark_of
from pate.release._session import LabelSession
from pate.release._terms import ReleaseTerms


def open_session(
    mechanism: Mechanism,
    *,
    n_queries: int,
    n_teachers: int,
    classes: object,
    budget: Budget,
    ledger: Ledger | None = None,
    max_answers: int | None = None,
    on_exhausted: str = "raise",
    unit: str = "record",
    n_units: int | None = None,
    fingerprint: str | None = None,
    classes_inferred: bool = False,
    name: str | None = None,
    noise_seed: int | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
) -> LabelSession:
    """Charge a number of queries whole, to be asked in rounds, each perhaps chosen by what earlier ones answered.

    Parameters
    ----------
    mechanism : Mechanism
    n_queries : int
        How many new public rows the session may ask about in all.
    n_teachers : int
    classes : iterable or int
        Class values, or their number.
    budget : Budget
        The most this session may cost.
    ledger : Ledger or None
        Also stay within its total. The charge is stored before the session is opened, every answer before it is
        returned.
    max_answers, on_exhausted
        See :func:`pate.quote`.
    unit : {"record", "group"}
    n_units : int or None
    fingerprint : str or None
        Of the private records (``votes.fingerprint``). **Sensitive.**
    classes_inferred : bool
        The classes were read off the private labels, which the statement then says.
    name : str or None
        With a ledger: a session of this name, price and mechanism that was left (a crash, say) is taken up again
        with what it has left, and nothing is charged. One process at a time may hold it, by a lock that ends with the
        process, however that ends; on systems without such locks (Windows) the name is ignored.
    noise_seed : int or None
        For tests only: the statement then says that nothing is private.
    tuning, stated
        See :func:`pate.release_labels`.

    Returns
    -------
    LabelSession

    Guarantees
    ----------
    Replace-one adjacency, both directions, fully adaptive queries. The number of queries asked, the cap on answers and
    the noise are constants fixed beforehand, so on every path of rounds the Renyi divergence at each order, mu^2 and
    pure epsilon are at most the charge's (adaptive composition; where refusals make the cost of a query depend on its
    answer: Feldman and Zrnic 2021, Theorem 3.1, whose filter the two caps are).

    Raises
    ------
    BudgetExceededError
        The budget, or what is left in the ledger, does not buy the queries; nothing was spent.
    InvalidInputError
        A bad parameter.
    LedgerError
        The ledger could not be written, or another process holds the session of this name.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> open_session(GNMax(sigma=40.0), n_queries=300, n_teachers=250, classes=10, budget=Budget(3.0, 1e-5)).n_left
    300
    >>> open_session(GNMax(sigma=1.0), n_queries=300, n_teachers=250, classes=10, budget=Budget(3.0, 1e-5))
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: the budget Budget(epsilon=3.0, delta=1e-05) buys 0 of these 300 queries ...
    """
    terms = ReleaseTerms(
        budget=budget,
        ledger=ledger,
        max_answers=max_answers,
        on_exhausted=on_exhausted,
        noise_seed=noise_seed,
        tuning=tuning,
        stated=stated,
    )
    values = check_classes(range(classes) if isinstance(classes, int) else classes)
    n_shards = check_int("n_teachers", n_teachers, low=1)
    data = Registration(unit, values, n_units=n_units, n_shards=n_shards, fingerprint=fingerprint)
    warn_if_weak(budget.delta, n_units, epsilon=budget.epsilon)
    return opened(mechanism, terms, data, values, n_queries=n_queries, classes_inferred=classes_inferred, name=name)


def opened(
    mechanism: Mechanism,
    terms: ReleaseTerms,
    data: Registration,
    classes: tuple[Any, ...],
    *,
    n_queries: int,
    classes_inferred: bool = False,
    name: str | None = None,
    planned: tuple[int, Quote] | None = None,
) -> LabelSession:
    """Return what :func:`open_session` does, on terms that are checked already, for teachers of ``data.n_shards``.

    ``planned`` is a number of queries and its price, see :func:`price_as_planned`.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> data = Registration("record", ("no", "yes"), n_shards=250)
    >>> opened(GNMax(sigma=40.0), ReleaseTerms(budget=Budget(3.0, 1e-5)), data, ("no", "yes"), n_queries=30).n_left
    30
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidInputError(f"mechanism must be a mechanism such as GNMax(sigma=40), got {shown(mechanism)}.")
    n_queries, n_teachers, ledger = check_int("n_queries", n_queries, low=1), data.n_shards, terms.ledger
    if n_teachers is None:
        raise InvalidInputError("data must say the number of teachers, n_shards, got None.")
    if name is not None and (not isinstance(name, str) or not name or ledger is None):
        raise InvalidInputError(f"name must be some text, and needs a ledger, got {name!r} and ledger={ledger!r}.")
    stated = check_release_stated(terms.stated, unit=data.unit, classes_inferred=classes_inferred)
    door = Door(terms, data)
    mark = mark_of(name, mechanism, terms, n_queries, n_teachers)
    claim = None if mark is None or ledger is None else Claim(ledger.path, mark)
    try:
        left = None if mark is None or ledger is None else left_over(ledger, mark, terms.budget)
        if left is not None:
            paid = door.session_again(mechanism, left)
        else:
            paid = door.session(mechanism, price_as_planned(n_queries, mechanism, terms, planned), request=mark or "")
    except BaseException:
        if claim is not None:
            claim.let_go()
        raise
    return LabelSession(paid, terms, data, classes, stated=stated, classes_inferred=classes_inferred, claim=claim)
