"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._comparison import comparison_picture as comparison_picture, render_markdown as render_markdown
from ._public import (
    BADGE as BADGE,
    MARK as MARK,
    render_report as render_report,
    render_sensitive_report as render_sensitive_report,
    write_report as write_report,
    write_sensitive_report as write_sensitive_report,
)
from ._answer import answer as answer, listed as listed, looks as looks
from ._measures import plain_bands as plain_bands
from ._parts import Sheet as Sheet, number as number, picture as picture, promised as promised
from ._public import NEXT as NEXT
from ._record import PrivateRecord as PrivateRecord, Record as Record, rare as rare
from ._viewers import write_viewers as write_viewers
