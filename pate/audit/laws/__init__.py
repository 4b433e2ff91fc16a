"""Statistical tests of a mechanism's releases against its exact law, over a bank of histograms."""

from pate.audit.laws._law import independence as independence
from pate.audit.laws._law import law as law
from pate.audit.laws._registry import Entry as Entry
from pate.audit.laws._registry import Numbers as Numbers
from pate.audit.laws._registry import forget as forget
from pate.audit.laws._registry import law_bank as law_bank
from pate.audit.laws._registry import register as register
from pate.audit.laws._registry import registered as registered
