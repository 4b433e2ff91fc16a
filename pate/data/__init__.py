"""Named data sets, tables from files, and the disjoint partition.

Examples
--------
>>> from pate.data import partition
>>> partition(100, 10)
Partition(n_records=100, n_shards=10, unit='record', n_units=100)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__.remove("votes_fingerprint")  # for those alone who read files of votes
