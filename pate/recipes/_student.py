"""The student of images that records' labels teach, and the space in which records judge it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from pate.core.seeds import training_seed
from pate.core.types import FloatArray
from pate.records.spaces import SoftSpace

if TYPE_CHECKING:
    from pate.students._features import StudentFeatures

#: Centres per class of the space of its features, of so many public rows at least, and how many share a ballot.
_CENTRES, _ROWS_PER_CENTRE, _NEAREST = 15, 10, 5
#: The first generation's share of the epochs, and how many come later, by the public images' looks.
_SHORTER = 0.6
_LATER = {"glyphs": 2, "mild": 1}
#: What suits the public images' looks.
_SETTINGS: dict[str, dict[str, Any]] = {
    "glyphs": {"augmentation": 1.0, "trust": 2.0, "trust_from": 0.25},
    "mild": {"augmentation": 0.5, "trust": 1.0, "trust_from": 0.4},
}


def image_student(
    X_public: Any,
    targets: FloatArray,
    image_shape: tuple[int, ...] | None,
    *,
    random_state: int = 0,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> StudentFeatures:
    """Return the features of a student of a student that was taught the targets; the public images' looks decide how.

    Parameters
    ----------
    X_public : images
    targets : float array of shape (n_public, n_classes)
    image_shape : tuple or None
    random_state : int
    checkpoint_dir : path or None
        Where the training is kept, so that one that was cut off goes on, and the same again is the same.
    verbose : bool
    """
    from pate.representations.images import looks_of
    from pate.students import ImageStudent
    from pate.students._features import StudentFeatures

    looks = looks_of(X_public, image_shape)
    settings = _SETTINGS[looks]
    last = ImageStudent(verbose=verbose, **settings)
    # The first one takes the answers as they are, and not so long that it has learnt what is wrong in them by heart.
    short = max(1, round(_SHORTER * last._epochs(int(np.shape(X_public)[0]))))
    generations = [clone(last).set_params(epochs=short, trust=0.0), *(clone(last) for _ in range(_LATER[looks]))]
    for i, student in enumerate(generations):
        student.set_params(random_state=training_seed(random_state, i))
        if checkpoint_dir is not None:
            student.set_params(checkpoint_dir=_moved(Path(checkpoint_dir), i + 1))
    return StudentFeatures(generations, targets, image_shape=image_shape).fit(X_public)


def _moved(folder: Path, generation: int) -> Path:
    """Return where a generation is kept, with what earlier versions kept beside it: answers hang on that very one."""
    from pate.students._image import FILE

    kept, old = folder / str(generation), folder.with_name(f"{folder.name}.safetensors.{generation}")
    if old.exists():
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.replace(old, kept / FILE)
    return kept


def student_space(z: FloatArray, n_classes: int, *, random_state: int = 0) -> SoftSpace:
    """Return the space of residual ballots on a student's features, unfitted."""
    n = max(2, min(_CENTRES * n_classes, len(z) // _ROWS_PER_CENTRE))
    return SoftSpace(n, max(1, min(_NEAREST, n - 1)), n_dims=z.shape[1] - n_classes, random_state=random_state)
