"""Counts of right answers that were paid for with labels: drawn once, of one model of theirs, and told.

Labels are released by a mechanism of some charge, and the count by one more Gaussian, of a model that is computed from
the released labels and public rows. Given the labels, that model is a constant: the count is a query of the private
records whose L2 sensitivity :mod:`pate.records.right` proves for every fixed model, so that labels and count are
adaptive composition. Charges add up, each currency by its own theorem (:class:`pate.Charge`): mu^2 (Dong, Roth, Su
2022, Corollary 3.3), Renyi divergences at every order (Mironov 2017, Proposition 1). Both are constants, charged at
once before the first label is drawn; the cap on answers is what the rest of the budget buys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pate.exceptions import InvalidInputError
from pate.ledger import Registration
from pate.privacy.convert import gdp_from_budget
from pate.records import RightCounts, RightFacts
from pate.release._ballot_session import right_facts_of, right_request_of, stored_statistics
from pate.release._door import PaidBallots
from pate.release._kept import OneHolder, round_key, rounds_in
from pate.release._measured import SIZE_OF_LABELS, ReleasedCounts, measured_accuracy
from pate.release._quote import ReleaseTerms
from pate.release._rounds import sum_of_rounds
from pate.release._statement import counts_in_words
from pate.statement.fields import Assumption
from pate.statement.model import PrivacyStatement

#: Assumptions of a label statement that its counts bring.
_ASKED_ALONE, _MODEL = "own row only", "public model"
_BY_PATE = {
    True: ("pate asked the model in blocks of one fixed shape, or row by row, and counted in whole numbers", "pate"),
    False: ("records were counted in whole numbers, but read or answered by code that pate does not know", "nobody"),
}
_MADE_HERE = {
    True: ("pate trained it on the released labels and on the public rows", "pate"),
    False: ("parts of it were fitted before, on what is not known here", "nobody"),
}


class PaidCounts(OneHolder):
    """Counts that were charged with labels; :meth:`release` draws each once, or gives what was drawn.

    Attributes
    ----------
    mechanisms : tuple of GaussianSum
        Of the count, and perhaps of the cells by class.
    """

    _uncopied = "paid counts cannot be copied or stored: each copy would draw them for one price."
    _elsewhere = "these counts were paid for in another process. Draw them there."

    def __init__(self, paid: PaidBallots, terms: ReleaseTerms, data: Registration) -> None:
        self.mechanisms = paid.rounds
        self._paid, self._terms, self._data = paid, terms, data
        self._known: dict[str, tuple[RightFacts, list[float]]] = {}
        super().__init__()
        #: Digest of the ledger's entry that holds the last count drawn here.
        self.head: str | None = None

    @property
    def budget(self) -> tuple[float, float]:
        """Epsilon and delta of labels and counts together."""
        return self._terms.budget.epsilon, self._terms.budget.delta

    def release(self, counts: RightCounts) -> ReleasedCounts | None:
        """Return noisy counts: drawn now, or given again; None where what was paid for was drawn of another model.

        Parameters
        ----------
        counts : RightCounts
            The count first, then the cells by class.

        Raises
        ------
        InvalidInputError
            Counts of other records than those that were paid for, or a copy in a forked process.
        LedgerError
            They could not be stored, or somebody else draws them: none are returned.
        """
        self._check_process()
        self._check(counts)
        index = int(counts.facts.by_class)
        request = right_request_of(counts.facts, f"labels {self._paid.release}", seeded=self._terms.seeded)
        with self._turn:
            found = self._drawn(request, counts.facts)
            if found is None:
                if self._paid.n_used != index:
                    return None
                told = {"request": request, "right": counts.facts.to_dict()}
                noisy, self.head = self._paid.draw(counts, {round_key(index): told}, request=request)
                found = self._known[request] = counts.facts, noisy.ravel().tolist()
        return ReleasedCounts.of(found[1], found[0], self.mechanisms[index], None)

    def _drawn(self, request: str, facts: RightFacts) -> tuple[RightFacts, list[float]] | None:
        """Return what was drawn under this request, and of what: as the ledger holds it, if there is one."""
        ledger, release = self._terms.ledger, self._paid.release
        if ledger is None or release is None:
            return self._known.get(request)
        held = ledger.releases([release])[0].facts
        for told in (held[round_key(i)] for i in rounds_in(held)):
            if told["request"] == request:
                stored = stored_statistics(ledger, request, release)
                return right_facts_of(told["right"], facts.classes), list(stored)
        return None

    def _check(self, counts: RightCounts) -> None:
        said, data = counts.registration(), self._data
        for name in ("unit", "classes", "adjacency", "n_units", "fingerprint"):
            wanted, found = getattr(data, name), getattr(said, name)
            if found != wanted and not (wanted is None and name in ("n_units", "fingerprint")):
                shown = "" if name == "fingerprint" else f" ({wanted!r}, got {found!r})"
                raise InvalidInputError(f"counts must be of the records that voted: another {name}{shown}.")


def told_of_counts(
    statement: PrivacyStatement, counts: Sequence[ReleasedCounts], paid: PaidCounts, *, made_here: bool = False
) -> PrivacyStatement:
    """Return the statement of labels with what counts say of a model that learnt from them.

    Parameters
    ----------
    statement : PrivacyStatement
        Of the labels; its guarantee is that of the counts, too.
    counts : sequence of ReleasedCounts
        The count, and perhaps the cells by class.
    paid : PaidCounts
        What they cost, and the ledger's entry that holds them.
    made_here : bool
        All of the model was fitted by pate, on released labels and public rows.
    """
    own = all(c.facts.own for c in counts)
    earlier = "" if paid.head or not statement.ledger_releases else ", stored in the ledger by an earlier run"
    asked = Assumption(
        _ASKED_ALONE,
        "what the model says of each unit's records is computed from that unit's own records and from public things "
        "alone",
        *_BY_PATE[own],
    )
    model = Assumption(
        _MODEL,
        "the model that records were asked about was computed from released quantities and public rows alone",
        *_MADE_HERE[made_here],
    )
    told = replace(
        statement,
        released="; ".join((statement.released, *(counts_in_words(c.facts) for c in counts))) + earlier,
        accounting=f"{statement.accounting}; the model that is counted about is computed from released labels, so that "
        "counts are composed adaptively",
        assumptions=(*statement.assumptions, asked, model),
        covered=tuple(
            c.replace("the released labels and", "the released labels, the counts and") for c in statement.covered
        ),
        ledger_head=paid.head or statement.ledger_head,
    )
    # The budget's, not the statement's: several releases of a ledger are told with its whole total.
    whole, cost = gdp_from_budget(*paid.budget) ** 2, sum_of_rounds(paid.mechanisms).mu_squared
    mu = max(whole - cost, 0.0) ** 0.5  # of the labels
    found = measured_accuracy(counts, mu=mu, share=min(1.0, cost / whole), size=SIZE_OF_LABELS)
    return replace(told, measured=found)
