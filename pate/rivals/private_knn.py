"""Private kNN (Zhu, Yu, Chandraker, Wang 2020): noisy votes of the nearest records of a random sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pate.core.types import IntArray
from pate.data._unusable import NO_OWNER, OUTSIDE, usable_records
from pate.exceptions import InvalidInputError
from pate.mechanisms import Draw
from pate.noise.source import NoiseSource
from pate.privacy.budget import Budget
from pate.privacy.words import Guarantee
from pate.records._maps import own_throughout
from pate.release._assumptions import with_public_rows
from pate.release._ballot_statement import ballot_assumptions
from pate.rivals._base import Priced, Rival, Task
from pate.rivals._distances import neighbour_votes
from pate.rivals._neighbours import SampledNeighbours
from pate.statement.model import PrivacyStatement
from pate.statement.plain import as_plain_text
from pate.statement.promises import promises
from pate.teachers._usable import as_column, class_indices, owned

#: Of the rule: queries over a class's signal, neighbours by its root (and least), most queries.
_QUERIES, _SHARE, _LEAST_SHARE, _MOST_QUERIES = 0.6, 5.5, 0.1, 1000


def neighbour_settings(budget: Budget, *, n_units: int, n_classes: int, n_public: int) -> tuple[float, int]:
    """Return the share of the sampled units that vote, and how many queries to ask: by public facts alone.

    With k = f q n neighbours, votes over noise are f n mu / sqrt(2 queries) whatever the sampling rate q. With S = n mu
    / m the rule asks 0.6 S queries (one for each class at least, 1,000 at most) and takes f = min(1, 5.5/sqrt(S)) / m:
    five times the noise, and nearer neighbours where there are many. The numbers were chosen on splits of training
    rows: docs/rivals.md.

    Parameters
    ----------
    budget : Budget
    n_units, n_classes, n_public : int

    Returns
    -------
    share : float
    n_queries : int

    Examples
    --------
    >>> share, n_queries = neighbour_settings(Budget(1.0, 1e-5), n_units=60_000, n_classes=10, n_public=5_000)
    >>> round(share, 4), n_queries
    (0.0137, 965)
    """
    signal = n_units * math.sqrt(budget.mu_squared) / n_classes
    n_queries = min(max(round(min(_MOST_QUERIES, _QUERIES * signal)), n_classes), n_public)
    return min(1.0, max(_LEAST_SHARE, _SHARE / math.sqrt(signal))) / n_classes, n_queries


class PrivateKNN(Rival):
    """Label public rows by the noisy vote of their nearest private records, then train a student on the labels.

    Zhu, Yu, Chandraker and Wang, "Private-kNN: Practical Differential Privacy for Computer Vision", CVPR 2020. For each
    public row that is asked about, every record enters a sample with probability q; the k nearest of the sample, in a
    public representation, vote; Gaussian noise goes on the counts; the largest is the label.

    Parameters
    ----------
    budget : Budget
        Spent whole by each fit.
    classes : iterable or None
        Every class that could occur: public knowledge. None takes them from the private ``y`` and warns.
    sample_rate : float
        q, in (0, 1]. 1 asks all records: at one price votes over noise are the same at every rate (docs/rivals.md), and
        without sampling a certified price applies that is lower still. The paper samples: 0.15, say.
    n_neighbors : int or None
        k. None: by :func:`pate.rivals.private_knn.neighbour_settings`.
    n_queries : int or None
        How many public rows to ask about; None: by the same rule.
    screening : (threshold, ratio) or None
        Noisy screening: answer only where the largest count plus Gaussian noise, ``ratio`` times that of the votes, is
        at least ``threshold`` votes. It is paid for by every query, answered or not.
    representation : Representation or None
        As for :class:`pate.PATEClassifier`; None takes the default of this kind of data.
    image_shape : tuple or None
        Says that rows are flattened images.
    student : scikit-learn classifier, str or None
        Sees rows through the representation. None: :class:`pate.students.VoteSpreading`.
    random_state : int or None
        Of the representation, of the choice of rows and of the student; never of the samples or the noise.
    noise_seed : int or None
        For tests and experiments only: then nothing is private.
    overlap_is_public : bool
        Do not look for private records among the public rows.
    tuning : str
    stated : mapping of str to str, or None
        For the statement, as for :class:`pate.PATEClassifier`.
    verbose : bool

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    release_ : ReleasedLabels
        On the rows ``queries_`` of ``X_public``; public.
    queries_ : int64 array
    mechanism_ : SampledNeighbours
        What was drawn from, and is priced: k, q and the noise.
    student_ : fitted classifier
    statement_ : PrivacyStatement

    Notes
    -----
    **Guarantees.** What is released is (epsilon, delta)-differentially private for one replaced record (or person),
    the price fixed before any record is looked at: :mod:`pate.privacy.sampled_votes` has the theorem and its proof. The
    sample is as secret as the noise and comes from the same source; samples of fewer than k records, ties and records
    that cannot be read are inside the mechanism. Distances are exact whole numbers. A person votes once, by the nearest
    of their records. It takes no ledger: its dominating pair is in no currency of a ledger's.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> knn = PrivateKNN(budget=Budget(3.0, 1e-5), classes=range(10), image_shape=(8, 8), random_state=0)
    >>> knn = knn.fit(X[:1200] / 16, y[:1200], X_public=X[1200:1500] / 16)
    >>> knn.statement_.guarantee.epsilon <= 3.0, bool(knn.score(X[1500:] / 16, y[1500:]) > 0.5)
    (True, True)
    """

    def __init__(
        self,
        *,
        budget: Budget | None = None,
        classes: Any = None,
        sample_rate: float = 1.0,
        n_neighbors: int | None = None,
        n_queries: int | None = None,
        screening: tuple[float, float] | None = None,
        representation: Any = None,
        image_shape: Any = None,
        student: Any = None,
        random_state: int | None = None,
        noise_seed: int | None = None,
        overlap_is_public: bool = False,
        tuning: str = "",
        stated: Mapping[str, str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.budget = budget
        self.classes = classes
        self.sample_rate = sample_rate
        self.n_neighbors = n_neighbors
        self.n_queries = n_queries
        self.screening = screening
        self.representation = representation
        self.image_shape = image_shape
        self.student = student
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.overlap_is_public = overlap_is_public
        self.tuning = tuning
        self.stated = stated
        self.verbose = verbose

    def _price(self, task: Task) -> Priced:
        share, wanted = neighbour_settings(
            task.budget, n_units=task.n_units, n_classes=task.n_classes, n_public=task.n_public
        )
        n_queries = self._asked_about(task, wanted)
        threshold, ratio = (None, None) if self.screening is None else _pair(self.screening)
        whole = SampledNeighbours(1, self.sample_rate, 1.0)  # refuses a rate that is none
        k = max(1, round(share * whole.sample_rate * task.n_units)) if self.n_neighbors is None else self.n_neighbors
        mechanism = SampledNeighbours(k, whole.sample_rate, 1.0, threshold, ratio).for_budget(task.budget, n_queries)
        self.mechanism_ = mechanism

        def draw(queries: IntArray, noise: NoiseSource) -> Draw:
            classes = tuple(self.classes_.tolist())
            labels = class_indices(as_column(task.y), classes)
            known = owned(task.groups, len(labels))[1]
            usable_records({f"{OUTSIDE}={classes!r}": labels >= 0, NO_OWNER: known})
            votes = neighbour_votes(task.representation, task.X, labels, task.groups, task.z_public[queries])
            return mechanism.draw(*votes, task.n_classes, noise)

        return Priced(
            n_queries,
            mechanism.guarantee(n_queries, task.budget.delta),
            draw,
            lambda promised: self._statement(task, mechanism, n_queries, promised),
            mechanism.charge(n_queries),
        )

    def _statement(
        self, task: Task, mechanism: SampledNeighbours, n_queries: int, promised: Guarantee
    ) -> PrivacyStatement:
        seeded, charge = promised.kind == "seeded", mechanism.charge(n_queries)
        assumptions = ballot_assumptions([], unit=task.unit, adjacency="replace-one", seeded=seeded, residual=False)
        if self.classes is None:
            assumptions = tuple(a for a in assumptions if a.name != "classes")
        sampled = (
            f"each {task.unit} in with probability {mechanism.sample_rate!r}, drawn anew for each query; "
            if not charge
            else ""
        )
        screened = (
            f"; answered where the largest count plus N(0, {mechanism.screening_sigma:.6g}^2) is at least "
            f"{mechanism.threshold:g}"
            if mechanism.screening_sigma is not None
            else ""
        )
        statement = self._statement_of(
            task,
            promised,
            released=f"noisy labels of {n_queries} public rows",
            mechanism=(
                f"private kNN: {sampled}one vote of each of the {mechanism.n_neighbors} nearest, Gaussian noise of "
                f"{mechanism.sigma:.6g} votes on every class, the largest count{screened}; distances by "
                + as_plain_text(str(getattr(task.representation, "provenance_", "a public map")))[:1000]
            ),
            accounting=(
                "GNMax: one replaced record replaces at most one vote of each query"
                if charge
                else "privacy loss distributions of a pair that dominates every replaced record, derived in "
                "pate.privacy.sampled_votes; composed after Zhu, Dong, Wang 2022"
            ),
            kept_back="distances, samples and votes, and every file made from those",
            assumptions=assumptions,
            verify=(
                f"from pate.rivals import SampledNeighbours; {mechanism!r}.guarantee({n_queries}, {promised.delta!r})"
            ),
            **({} if charge is None else promises(charge)),
        )
        own = own_throughout(task.representation)
        if own and (task.unit == "record" or bool(getattr(task.representation, "exact_", False))):
            how = "pate mapped every row by its own classes, in blocks of one fixed shape; distances are whole numbers"
            statement = statement.with_evidence("own row only", how)
        if not self.overlap_is_public:
            statement = with_public_rows(statement, "checked")
        return statement.with_stated(self.stated)


def _pair(screening: Any) -> tuple[float, float]:
    try:
        threshold, ratio = screening
        return float(threshold), float(ratio)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"screening must be (threshold in votes, noise over the votes' noise) or None, got {screening!r}. "
            "Try (40, 2)."
        ) from None
