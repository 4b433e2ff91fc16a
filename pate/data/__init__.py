"""Named data sets, tables and images from files, schemas of columns, and partitions into disjoint shards.

Examples
--------
>>> from pate.data import partition
>>> partition(100, 10)
Partition(n_records=100, n_shards=10, unit='record', n_units=100)
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "Column",
    "Dataset",
    "Partition",
    "PrivateRows",
    "PublishedVotes",
    "Schema",
    "Table",
    "TableEncoder",
    "TablePair",
    "align_columns",
    "check_public_rows",
    "count_cross_shard_duplicates",
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
