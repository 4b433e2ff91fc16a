"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._overlap import (
    check_other_file as check_other_file,
    check_public_rows as check_public_rows,
    count_cross_shard_duplicates as count_cross_shard_duplicates,
    recognised_by as recognised_by,
    records_fingerprint as records_fingerprint,
    votes_fingerprint as votes_fingerprint,
)
from .encoding import (
    TableEncoder as TableEncoder,
    encode_dataset as encode_dataset,
    make_shard_encoder as make_shard_encoder,
)
from ._files.images import ImageFolder as ImageFolder, read_images as read_images
from ._files.pairs import (
    TablePair as TablePair,
    about_owners as about_owners,
    about_records as about_records,
    align_columns as align_columns,
    label_cells as label_cells,
    read_both as read_both,
)
from ._files.tables import ColumnUse as ColumnUse, Table as Table, read_table as read_table
from ._named.dataset import (
    Dataset as Dataset,
    HeldOutRows as HeldOutRows,
    PrivateRows as PrivateRows,
    PublicRows as PublicRows,
)
from ._named.datasets import (
    PublishedVotes as PublishedVotes,
    list_datasets as list_datasets,
    list_votes as list_votes,
    load_dataset as load_dataset,
    load_votes as load_votes,
)
from .partition import (
    Partition as Partition,
    partition as partition,
)
from .schema import Column as Column, Schema as Schema, draft_schema as draft_schema
from ._cells import (
    NO_OWNER as NO_OWNER,
    ODD_CELLS as ODD_CELLS,
    OUTSIDE as OUTSIDE,
    has_texts as has_texts,
    private_cells as private_cells,
    read_cells as read_cells,
    read_records as read_records,
    row_shape as row_shape,
    usable_records as usable_records,
)
from ._columns import (
    DATE as DATE,
    as_dates as as_dates,
    as_days as as_days,
    as_float as as_float,
    as_label as as_label,
    as_number as as_number,
    as_written as as_written,
    column_kind as column_kind,
    hardly_varies as hardly_varies,
    are_components as are_components,
    heavy_tailed as heavy_tailed,
    holds_numbers as holds_numbers,
    is_text_column as is_text_column,
    numbers_of as numbers_of,
    of_one_unit as of_one_unit,
    order_key as order_key,
)
from ._files._arrow import beside as beside, file_of as file_of
from ._files._csv import (
    THOUSANDS as THOUSANDS,
    TableFormat as TableFormat,
    own_encoding as own_encoding,
    read_header as read_header,
)
from ._files._npz import BROKEN as BROKEN, read_npy as read_npy, read_npz as read_npz
from ._files._opened import is_table as is_table
from ._files.tables import TARGET as TARGET, without_empty as without_empty
from ._named.datasets import (
    check_dataset as check_dataset,
    check_numeric as check_numeric,
    own_table as own_table,
)
from ._shift import about_shift as about_shift
from ._validation import (
    as_texts as as_texts,
    by_name as by_name,
    check_same_shape as check_same_shape,
    flat_rows as flat_rows,
    frame_as_floats as frame_as_floats,
    check_image_shape as check_image_shape,
    check_n_pixels as check_n_pixels,
    image_shape as image_shape,
    is_frame as is_frame,
    is_sparse as is_sparse,
    is_texts as is_texts,
    quoted as quoted,
    read_numbers as read_numbers,
    read_rows as read_rows,
    text_columns as text_columns,
)
