"""Named data sets, tables from files, and the disjoint partition.

Examples
--------
>>> from pate.data import partition
>>> partition(100, 10)
Partition(n_records=100, n_shards=10, unit='record', n_units=100)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pate.data._overlap import check_other_file as check_other_file
from pate.data._overlap import check_public_rows as check_public_rows
from pate.data._overlap import recognised_by as recognised_by
from pate.data._overlap import records_fingerprint as records_fingerprint
from pate.data._overlap import votes_fingerprint as votes_fingerprint
from pate.data.files.images import ImageFolder as ImageFolder
from pate.data.files.images import read_images as read_images
from pate.data.files.pairs import TablePair as TablePair
from pate.data.files.pairs import align_columns as align_columns
from pate.data.files.pairs import read_both as read_both
from pate.data.files.tables import ColumnUse as ColumnUse
from pate.data.files.tables import Table as Table
from pate.data.files.tables import read_table as read_table
from pate.data.named.dataset import Dataset as Dataset
from pate.data.named.dataset import HeldOutRows as HeldOutRows
from pate.data.named.dataset import PrivateRows as PrivateRows
from pate.data.named.dataset import PublicRows as PublicRows
from pate.data.named.datasets import PublishedVotes as PublishedVotes
from pate.data.named.datasets import list_datasets as list_datasets
from pate.data.named.datasets import list_votes as list_votes
from pate.data.named.datasets import load_dataset as load_dataset
from pate.data.named.datasets import load_votes as load_votes
from pate.data.partition import Partition as Partition
from pate.data.partition import count_cross_shard_duplicates as count_cross_shard_duplicates
from pate.data.partition import partition as partition

if TYPE_CHECKING:
    from pate.data.encoding import TableEncoder as TableEncoder
    from pate.data.encoding import encode_dataset as encode_dataset
    from pate.data.encoding import make_shard_encoder as make_shard_encoder

_LAZY = ("TableEncoder", "encode_dataset", "make_shard_encoder")  # they need scikit-learn, whose import takes a second

__all__ = [
    "ColumnUse",
    "Dataset",
    "HeldOutRows",
    "ImageFolder",
    "Partition",
    "PrivateRows",
    "PublicRows",
    "PublishedVotes",
    "Table",
    "TableEncoder",
    "TablePair",
    "align_columns",
    "check_other_file",
    "check_public_rows",
    "count_cross_shard_duplicates",
    "encode_dataset",
    "list_datasets",
    "list_votes",
    "load_dataset",
    "load_votes",
    "make_shard_encoder",
    "partition",
    "read_both",
    "read_images",
    "read_table",
    "recognised_by",
    "records_fingerprint",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from pate.data import encoding

        return getattr(encoding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
