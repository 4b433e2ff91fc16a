"""What a job will do and cost, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pate.mechanisms import Mechanism
from pate.release import Quote


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """What labelling will do and cost: made from the private file's shape alone, before any training.

    Attributes
    ----------
    n_records, n_units, n_public : int
    unit : {"record", "group"}
    n_teachers : int
    mechanism : Mechanism
    queries : int64 array or None
        Rows of the public file that will be asked about; None when they are chosen in rounds.
    gap : float
        Abstain below so many votes of lead (:class:`NoisyHistogram` only).
    n_free : int
        How many of those rows are repeats, or were answered before, or are paid for already.
    quote : Quote
        The most that will be spent.
    teacher : str
    select : str
        How the rows are chosen.
    rounds : tuple of int
        How many rows each round asks about.
    encoding : str
        How rows become numbers.
    affordable : int
        How many answers the whole budget (what is left of it) buys at this noise.

    Examples
    --------
    >>> LabelPlan.__dataclass_params__.frozen
    True
    """

    n_records: int
    n_units: int
    n_public: int
    unit: str
    n_teachers: int
    mechanism: Mechanism
    queries: npt.NDArray[np.int64] | None
    gap: float
    n_free: int
    quote: Quote
    teacher: str = ""
    select: str = "random"
    rounds: tuple[int, ...] = ()
    encoding: str = ""
    affordable: int = 0

    def __str__(self) -> str:
        stored = f" ({self.n_free} more are repeats or were answered before: free)" if self.n_free else ""
        answers = f", at most {self.quote.max_answers} answered" if self.mechanism.may_refuse else ""
        asked = f"{self.quote.n_queries} of {self.n_public} public rows asked{answers}{stored}"
        who = f"{self.n_units} {self.unit}s over {self.n_teachers} teachers"
        return f"{who}; {self.mechanism}; {asked}; will spend {self.quote.guarantee}"

    def text(self) -> str:
        """Return the plan line by line: shards, teachers, noise, what the budget buys and what will be spent.

        Examples
        --------
        >>> from pate import Budget, GNMax
        >>> from pate.release import quote
        >>> price = quote(20, GNMax(40.0), budget=Budget(1.0, 1e-5))
        >>> plan = LabelPlan(600, 600, 50, "record", 250, GNMax(40.0), None, 0.0, 0, price, "svm", rounds=(10, 10))
        >>> print(plan.text().splitlines()[0])
        shards     250, each of 2 to 3 of the 600 records
        """
        small, more = divmod(self.n_units, self.n_teachers)
        size = f"{small}" if not more else f"{small} to {small + 1}"
        if self.unit == "group":  # by a hash of each id: some shards get more, some none
            size = f"about {self.n_units / self.n_teachers:.3g}"
        how = f"{sum(self.rounds)} of {self.n_public} public rows, chosen by {self.select}"
        if len(self.rounds) > 1:
            how += f" in {len(self.rounds)} rounds of {', '.join(map(str, self.rounds))}, all paid for before the first"
        free = f"; {self.n_free} of them are repeats or were answered before: free" if self.n_free else ""
        cap = f"; at most {self.quote.max_answers} are answered" if self.mechanism.may_refuse else ""
        lead = f"; abstains below a noisy lead of {self.gap:g} votes" if self.gap else ""
        lines = [
            ("shards", f"{self.n_teachers}, each of {size} of the {self.n_units} {self.unit}s"),
            ("teachers", f"{self.n_teachers} x {self.teacher}"),
            ("rows", self.encoding),
            ("noise", f"{self.mechanism}, in votes{lead}"),
            ("questions", f"{how}{cap}{free}"),
            ("budget", f"buys {self.affordable:,} answers at this noise"),
            ("will spend", f"{self.quote.guarantee} for {self.quote.n_queries} new questions"),
        ]
        return "\n".join(f"{name:<11}{value}" for name, value in lines if value)
