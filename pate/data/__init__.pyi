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
from ._files.pairs import TablePair as TablePair, align_columns as align_columns, read_both as read_both
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
from .schema import Column as Column, Schema as Schema
