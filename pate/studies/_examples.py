"""A few public images of a run, with what was released of them: chosen by the release alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pate.data import Dataset
from pate.release import ModelLabels, ReleasedLabels
from pate.report.result import Example

#: So many as they come, and then so many that the release is least sure of.
FIRST, UNSURE = 8, 4
_LARGEST = 64  # points a side


def examples_of(release: ReleasedLabels, data: Dataset, queries: npt.NDArray[np.int64]) -> tuple[Example, ...]:
    """Return some of the public images asked about; none where rows are no images.

    Parameters
    ----------
    release : ReleasedLabels
    data : Dataset
    queries : int64 array of shape (n_queries,)
        Which public rows were asked about.

    Notes
    -----
    **Guarantees.** Everything here is computed from public rows and the release.
    """
    if data.image_shape is None or max(data.image_shape[-2:]) > _LARGEST:
        return ()
    confidence, lead = _confidence(release), _lead(release)
    order = list(range(min(FIRST, release.n_queries)))
    sure = confidence if confidence is not None else lead
    if sure is not None:
        left = [i for i in np.argsort(sure, kind="stable").tolist() if i not in order and np.isfinite(sure[i])]
        order += left[:UNSURE]
    images = np.asarray(data.public.X, dtype=np.float64)[queries[order]].reshape(-1, *data.image_shape)
    if images.ndim == 4:  # colours are shown as their mean
        images = images.mean(axis=1)
    highest = images.max(initial=0.0) or 1.0
    shades = np.clip(np.rint(9 * images / highest), 0, 9).astype(int)
    values = release.values()
    return tuple(
        Example(
            image=tuple("".join(map(str, line)) for line in shade.tolist()),
            label=None if values[i] is None else data.classes[values[i]],
            confidence=None if confidence is None else float(confidence[i]),
            lead=None if lead is None or not np.isfinite(lead[i]) else float(lead[i]),
        )
        for i, shade in zip(order, shades, strict=True)
    )


def _confidence(release: ReleasedLabels) -> npt.NDArray[np.float64] | None:
    return release.probability.max(axis=1) if isinstance(release, ModelLabels) else None


def _lead(release: ReleasedLabels) -> npt.NDArray[np.float64] | None:
    counts = getattr(release, "noisy_counts", None)
    if counts is None:
        return None
    top = np.sort(counts, axis=1)
    return np.asarray(top[:, -1] - top[:, -2], dtype=np.float64)
