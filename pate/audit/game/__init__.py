"""Many whole runs in two worlds: what an attacker who sees only what is released can tell.

Examples
--------
>>> import numpy as np
>>> from pate import audit
>>> weak = NoisySum(0.9 / 3)   # claimed: a sum of sensitivity 1 with noise 1/3, so 3-GDP
>>> found = audit.game(weak, np.zeros(1), np.ones(1), claim=audit.Claim.gaussian(3.0), n_runs=4000, batch=500,
...                    random_state=0)
>>> found.refuted
True
"""

from pate.audit.game._play import game
from pate.audit.game._result import MechanismRelease, NoisySum, Release, audit_scores

__all__ = ["MechanismRelease", "NoisySum", "Release", "audit_scores", "game"]
