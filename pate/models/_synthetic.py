"""Plans of record voters without public rows: synthetic rows from two noisy sums stand in for them, in one session.

Counts of every column's cells and a second moment of normal scores are released first; rows drawn from the Gaussian
copula that they give (:mod:`pate.data.copula`) are post-processing, and so public; then records vote on those as on any
public rows, paid by what is left of the budget. All rounds are one charge.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pate.data import Schema, copula
from pate.exceptions import InvalidInputError
from pate.mechanisms import GaussianSum
from pate.models.recipes import (
    Ask,
    PublicFacts,
    Recipe,
    RecordModel,
    RecordsPlan,
    check_worth,
    choose,
    fitted_representation,
    kind_of,
)
from pate.records import Units, count_cells, sum_squares
from pate.release import (
    BallotSession,
    Evidence,
    PricedRounds,
    RecordLabels,
    ReleaseTerms,
    buy_rounds,
    open_on_terms,
    sum_of_rounds,
)
from pate.teachers import class_indices, label_column

#: Shares of mu^2: cells of all columns, second moment, and all rounds in which records vote.
SHARES = (copula.MARGINALS_SHARE, copula.MOMENT_SHARE, 1 - copula.MARGINALS_SHARE - copula.MOMENT_SHARE)
#: The last may be as many rounds as a recipe has at most, and two that measure.
_MOST_ROUNDS = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class SyntheticPlan(PricedRounds, Ask):
    """A plan of ballots on synthetic rows of a schema, with its price, made without reading private data.

    Examples
    --------
    >>> from pate import Budget
    >>> terms = ReleaseTerms(budget=Budget(1.0, 1e-5))
    >>> schema = Schema.declared({"age": (0, 120), "sex": ["male", "female"]})
    >>> plan = SyntheticPlan.of(
    ...     terms, schema, classes=("no", "yes"), n_units=9_000, unit="record"
    ... )
    >>> print(plan.guarantee)
    (1, 1e-05)-DP, public, by gdp, adjacency replace-one, both directions, adaptive
    """

    terms: ReleaseTerms
    schema: Schema
    cells: tuple[copula.ColumnCells, ...]
    rule: Callable[[PublicFacts], Recipe] = choose

    @classmethod
    def of(
        cls, terms: ReleaseTerms, schema: Schema, *, rule: Callable[[PublicFacts], Recipe] = choose, **asked: Any
    ) -> SyntheticPlan:
        """Cut the schema's columns into cells and price all rounds; nothing is spent.

        ``asked`` are the settings of :class:`pate.models.recipes.Ask`.

        Raises
        ------
        InvalidInputError
            A column without a range or list of categories; noise beyond all ballots, unless ``force``.
        BudgetExceededError
            Nothing is left in the ledger, or next to nothing.
        """
        made = cls(**vars(Ask(**asked)), terms=terms, schema=schema, cells=copula.cells_of(schema), rule=rule)
        _ = made.mechanisms
        if not made.stored:
            mu = math.sqrt(sum_of_rounds(made.mechanisms).mu_squared)
            facts = PublicFacts(n_units=made.n_units, n_classes=len(made.classes), mu=mu, n_public=0)
            check_worth(facts, unit=made.unit, force=made.force)
        made.warn_if_short()
        return made

    #: Cells, second moment and all further rounds together.
    shares = SHARES

    def _bought(self) -> tuple[GaussianSum, ...]:
        return buy_rounds(self.terms.budget, SHARES, self.terms.ledger, n_units=self.n_units, force=self.force)

    @cached_property
    def name(self) -> str:  # type: ignore[override]
        """The session's name in a ledger: the same plan, run again, resumes the session or repeats its release."""
        said = (self.schema, self.n_units, self.unit, self.classes, self.random_state, self.decide, self.measure)
        return "synthetic " + hashlib.sha256(repr((*map(repr, said), self.schema.columns)).encode()).hexdigest()[:32]

    def run(
        self, X: Any, y: Any, *, groups: Any = None, evidence: Evidence | None = None
    ) -> tuple[RecordLabels, RecordModel, Any]:
        """Charge, release the sums, draw rows, let records vote on them; return labels, model and the synthetic rows.

        The rows are a DataFrame, or an array where the schema is of one: public, as everything computed from them is.
        Raises as :func:`pate.open_ballot_session` and :meth:`pate.RecordVoters.cast` do.
        """
        evidence = evidence or Evidence()
        n = int(np.shape(X)[0])
        units = Units.with_labels(class_indices(label_column(y, n), self.classes), groups, classes=self.classes)
        if (units.n, units.unit) != (self.n_units, self.unit):
            raise InvalidInputError("X and y must be of as many units as the plan was made for. Make another plan.")
        codes = copula.cell_codes(X, self.schema, self.cells)
        with open_on_terms(
            self.terms,
            self.name,
            shares=SHARES,
            classes=self.classes,
            n_units=self.n_units,
            unit=self.unit,
            fingerprint=units.unit_owners.fingerprint(),
            force=self.force,
            split_into=_MOST_ROUNDS,
        ) as session:
            session.binds = False  # only the last statement is released
            rows = self._drawn(session, units, codes)
            ballots = self._voting(session, rows)
            labels, model = ballots.run(X, y, groups=groups, evidence=replace(evidence, public_rows="drawn"))
        return labels, model, rows

    def _drawn(self, session: BallotSession, units: Units, codes: Any) -> Any:
        """Release both sums, and return the rows that are drawn from them."""
        query = f"{self.schema.columns!r}"
        sizes = [cells.n_cells for cells in self.cells]
        counts = session.ask_vectors(
            count_cells(
                units, codes, sizes, what="how many records are in each cell of each column", query=query, own=True
            )
        )
        marginals = copula.fit_marginals(self.cells, counts.statistics.ravel(), self.n_units, counts.sigma)
        bound = copula.score_bound(len(self.cells))
        squares = session.ask_vectors(
            sum_squares(
                units, copula.normal_scores(codes, marginals), bound=bound,
                what="products of the columns' normal scores", query=query, own=True,
            )
        )  # fmt: skip
        moment, sigma = squares.statistics * bound**2, squares.sigma * bound**2
        correlation = copula.fit_correlation(moment, marginals, self.n_units, sigma)
        drawn = copula.Copula(self.schema, marginals, correlation)
        rows = drawn.draw(seed=self.seed)
        drawn.check(rows)
        return rows

    def _voting(self, session: BallotSession, rows: Any) -> RecordsPlan:
        """Return the plan of record voters on these rows, paid by the last round."""
        own = {name: value for name, value in vars(self).items() if name in Ask.__dataclass_fields__}
        kind = kind_of(rows, self.image_shape)
        seen = fitted_representation(
            kind, rows, representation=self.representation, image_shape=self.image_shape, random_state=self.seed,
            verbose=self.verbose,
        )  # fmt: skip
        own["representation"] = seen
        return RecordsPlan.of(self.terms, rows, kind=kind, rule=self.rule, session=session, **own)
