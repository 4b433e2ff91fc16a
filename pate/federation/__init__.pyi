"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._contract import Party as Party, SecureAggregator as SecureAggregator, Trust as Trust
from ._mpyc import MPyCAggregator as MPyCAggregator, comparisons as comparisons
from ._plan import Plan as Plan, plan_lines as plan_lines, viewers_of as viewers_of
from ._ask import AskJob as AskJob, ask as ask
from ._site import Consent as Consent, Site as Site
from ._records import SiteRecords as SiteRecords
from ._rounds import LocalSites as LocalSites, RoundSession as RoundSession, SitesPlan as SitesPlan
from ._config import (
    Bundle as Bundle,
    Member as Member,
    Members as Members,
    init_federation as init_federation,
    issue as issue,
    local_members as local_members,
    make_authority as make_authority,
)
