"""The lock: prices, the release itself, and what was released."""

from pate.labeling._lock import release_labels
from pate.labeling._quote import Quote, count_fresh, quote, warn_if_weak
from pate.labeling._release import LabelRelease

__all__ = ["LabelRelease", "Quote", "count_fresh", "quote", "release_labels", "warn_if_weak"]
