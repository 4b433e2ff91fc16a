"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._attacks import attack as attack
from ._audited import audit_mechanism as audit_mechanism, audit_statement as audit_statement, audit_votes as audit_votes
from ._canaries import canary as canary
from ._claims import Claim as Claim
from ._game import game as game
from ._audited import audit_job as audit_job
from .laws import independence as independence, law as law
from ._one_run import one_run as one_run
from ._pair import pair as pair
from .replays import neighbours as neighbours, replay as replay, replay_search as replay_search
from ._report import Audit as Audit
