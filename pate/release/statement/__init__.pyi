"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._fits import (
    CountedFits as CountedFits,
    count_selection as count_selection,
    counted_elsewhere as counted_elsewhere,
    join_kin as join_kin,
    naming_fits_before as naming_fits_before,
)
