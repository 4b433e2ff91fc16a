"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from .ballot_sum import (
    BallotFacts as BallotFacts,
    BallotSum as BallotSum,
    TierFacts as TierFacts,
    UnitTiers as UnitTiers,
)
from ._right import RightCounts as RightCounts, RightFacts as RightFacts, count_right as count_right
from .spaces import HardSpace as HardSpace, SignedSpace as SignedSpace, SoftSpace as SoftSpace, load_space as load_space
from ._tiers import Tiers as Tiers
from ._voters import RecordVoters as RecordVoters
from ._maps import (
    BLOCK_ROWS as BLOCK_ROWS,
    HeldRecords as HeldRecords,
    MOST_HELD_BYTES as MOST_HELD_BYTES,
    PublicMap as PublicMap,
    fingerprint_of as fingerprint_of,
    ask_alone as ask_alone,
    in_blocks as in_blocks,
    is_own as is_own,
    own_throughout as own_throughout,
    rows_of as rows_of,
    slabs as slabs,
    take as take,
)
from ._histograms import (
    Bins as Bins,
    ERRORS_BOUND as ERRORS_BOUND,
    LEVEL as LEVEL,
    MeasuredErrors as MeasuredErrors,
    N_CELLS as N_CELLS,
    Zoom as Zoom,
    bounded_errors as bounded_errors,
    cells_of as cells_of,
    error_clip as error_clip,
    measured_errors as measured_errors,
    on_simplex as on_simplex,
    score_edges as score_edges,
    tails as tails,
)
from ._labels import label_codes as label_codes, read_labels as read_labels, units_of_labels as units_of_labels
from ._targets import check_bounds as check_bounds, read_target as read_target
from ._vectors import (
    NUMBER as NUMBER,
    Units as Units,
    VectorFacts as VectorFacts,
    VectorSum as VectorSum,
    count_cells as count_cells,
    cut_of as cut_of,
    number_codes as number_codes,
    read_numbers as read_numbers,
    only as only,
    sum_alone as sum_alone,
    sum_residuals as sum_residuals,
    sum_squares as sum_squares,
    sum_vectors as sum_vectors,
)
