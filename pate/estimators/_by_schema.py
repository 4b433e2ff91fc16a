"""PATEClassifier without public rows: records vote on synthetic rows that are drawn from noisy sums over a schema."""

from __future__ import annotations

from typing import Any

from pate._core.curator import warn_curator
from pate._core.progress import timed
from pate.data import Schema, about_records, copula
from pate.estimators._by_dpsgd import ByDPSGD, stand_ins
from pate.exceptions import InvalidInputError
from pate.models import SyntheticPlan
from pate.release import Evidence, ReleaseTerms, check_ballots_stated, warn_of_doubts


class BySchema(ByDPSGD):
    """What :class:`pate.PATEClassifier` does where there are no public rows and a schema is declared; a mixin."""

    #: The synthetic rows on which records voted: public.
    synthetic_: Any

    def _fit_by_schema(
        self, X: Any, y: Any, groups: Any, schema: Any, terms: ReleaseTerms, *, why: str
    ) -> SyntheticPlan:
        check_ballots_stated(terms.stated, residual=True)
        if self.student is not None:
            raise InvalidInputError(
                "student must be None where there are no public rows: a student learns from labels of public rows. "
                "Leave it out, or pass X_public."
            )
        like, records, y = self._read(X, y, stand_ins(X, schema))
        declared = Schema.declared(schema, n_columns=None if isinstance(schema, Schema) else like.shape[1])
        copula.cells_of(declared)  # refused before anybody is warned
        messages = self._about_labels(y, groups, terms)
        warn_curator([*messages, *about_records(records, groups), *copula.about_cells(records, declared)])
        with timed("startup"):
            plan = SyntheticPlan.of(terms, declared, rule=self._rule, **vars(self._ask(records, groups)))
        self._check_ledger(records, y, groups, paid=plan.stored)
        if not plan.stored:
            self._count(plan.guarantee, plan.charge, groups)
        with timed("labelling"):
            release, self._model, self.synthetic_ = plan.run(records, y, groups=groups, evidence=Evidence(method=why))
        self._take_in(release, None, self.synthetic_)
        warn_of_doubts(self.statement_)
        return plan
