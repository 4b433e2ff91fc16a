"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._chain import NewAnswer as NewAnswer
from ._files import (
    AS_STATED as AS_STATED,
    FileCheck as FileCheck,
    read_thing as read_thing,
    statement_in as statement_in,
)
from ._ledger import Ledger as Ledger
from ._registration import ledgers_in as ledgers_in
from ._rows import (
    Answer as Answer,
    KINDS as KINDS,
    LedgerRow as LedgerRow,
    Registration as Registration,
    Remaining as Remaining,
    Verification as Verification,
)
from ._verify import verify_ledger as verify_ledger
