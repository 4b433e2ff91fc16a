"""A publishable upper bound on the data-dependent epsilon of given votes: drawn once, paid for, kept in a ledger."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

import numpy as np

from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.ledger import Ledger, Registration
from pate.mechanisms import ConfidentGNMax, GNMax, Mechanism
from pate.privacy.convert import check_delta
from pate.privacy.publish.smooth_sensitivity import SmoothSensitivity
from pate.privacy.words import Guarantee
from pate.release._door import Door
from pate.release._quote import ReleaseTerms
from pate.votes import Votes


def sanitised_epsilon(
    votes: Votes,
    mechanism: Mechanism,
    how: SmoothSensitivity,
    ledger: Ledger | None,
    *,
    delta: float,
    noise_seed: int | None = None,
) -> Guarantee:
    """Return the one sanitised epsilon of a request: from the ledger, or charged there and drawn.

    Parameters
    ----------
    votes : Votes
    mechanism : GNMax or ConfidentGNMax
    how : SmoothSensitivity
    ledger : Ledger
        Of these private data, with a total, counting in Renyi divergence.
    delta : float
    noise_seed : int or None
        For tests only.

    Raises
    ------
    InvalidInputError
        Another mechanism, no ledger with a total, or a delta that leaves nothing beside ``how.delta0``.
    BudgetExceededError
        The ledger cannot pay for it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pate import Budget
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "l.sqlite", total=Budget(9.0, 1e-5), currency="renyi")
    >>> how = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0)
    >>> votes = Votes.from_counts([[240, 10]] * 100)
    >>> first = sanitised_epsilon(votes, GNMax(40.0), how, ledger, delta=1e-5)
    >>> first == sanitised_epsilon(votes, GNMax(40.0), how, ledger, delta=1e-5), len(ledger.releases())
    (True, 1)
    """
    if not isinstance(mechanism, GNMax | ConfidentGNMax):
        raise InvalidInputError(
            f"sanitise must be None for {mechanism}: smooth sensitivity here covers GNMax and Confident-GNMax."
        )
    if ledger is None or ledger.total is None:
        raise InvalidInputError(
            "ledger must be given with sanitise, and have a total: the number is drawn once and paid for. Pass "
            "ledger=Ledger(path, total=Budget(...), currency='renyi') of these private data."
        )
    delta = check_delta(delta)
    how.delta_left(delta)
    terms, data = ReleaseTerms(budget=ledger.total, ledger=ledger, noise_seed=noise_seed), Registration.of_votes(votes)
    # Refused before anything is read off the votes; the registration makes the key by which they are recognised.
    if refusal := ledger.remaining().refusal(how.cost):
        raise BudgetExceededError(f"the ledger {str(ledger.path)!r} cannot pay for a sanitised epsilon: {refusal}.")
    door = Door(terms, data)
    ledger.register(data)
    said = json.dumps([str(mechanism), asdict(how), delta, terms.seeded, votes.counts.shape])
    content = hashlib.sha256(np.ascontiguousarray(votes.counts, dtype="<i8").tobytes()).hexdigest()
    request = ledger.keyed_digest(f"sanitised {said} {content}")
    if ledger.find(request) is None:
        door.sanitised(how, votes.counts, mechanism, delta, request=request)
    # What the ledger holds is what gets out: two processes that ask at once get the first one's draw.
    row = ledger.find(request)
    assert row is not None
    return Guarantee(**row.facts["guarantee"])
