"""A folder that keeps what shadow models said, so that a killed attack goes on, and another reads the same models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pate.core.files import atomic_path, check_can_write, write_json
from pate.core.seeds import training_seed
from pate.exceptions import InvalidInputError, RunFolderError
from pate.studies.folders import read_json

_CONFIG = "attack.json"
_WARNING = "made from private records: do not publish"
_REMEDY = "Choose another folder, or delete this one if it is not needed."


class ShadowFolder:
    """What shadow models of one estimator, on one set of records, said: a file each, for its owner only.

    Parameters
    ----------
    path : path
        Made when absent (mode 0700).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def open(self, digest: str, *, random_state: int | None) -> int:
        """Start here or go on, and return the seed of all halves and fits.

        Raises
        ------
        RunFolderError
            It holds something else.
        InvalidInputError
            It cannot be made or written to.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is a file. Choose a folder.")
        check_can_write("folder", self.path / _CONFIG)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(
                f"folder must be a folder that can be made, got {str(self.path)!r} ({error.strerror or error})."
            ) from None
        config = self.path / _CONFIG
        if not config.exists():
            if any(not entry.name.startswith(".") for entry in self.path.iterdir()):
                raise RunFolderError(f"{self.path} is not empty and holds no attack. {_REMEDY}")
            seed = training_seed(random_state)
            write_json(config, {"warning": _WARNING, "sha256": digest, "seed": seed}, mode=0o600)
            return seed
        kept = read_json(config)
        seed = kept.get("seed", -1)
        if kept.get("sha256") != digest or not isinstance(seed, int) or seed < 0:
            raise RunFolderError(f"{self.path} holds an attack on other records or on another estimator. {_REMEDY}")
        if random_state is not None and training_seed(random_state) != seed:
            raise RunFolderError(f"{self.path} holds an attack with another random_state. {_REMEDY}")
        return seed

    def save(self, index: int, **arrays: Any) -> None:
        """Keep what one model said; it is on the disk when this returns."""
        kept = {name: value for name, value in arrays.items() if value is not None}
        with atomic_path(self._file(index), mode=0o600) as part, open(part, "wb") as file:
            np.savez(file, **kept)

    def load(self, index: int) -> dict[str, Any] | None:
        """Return what one model said; None where it was not asked yet, or the file is damaged."""
        try:
            with np.load(self._file(index), allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None
        if "promise" not in found:
            return None
        return {"robust": None, **found, "promise": str(found["promise"])}

    def _file(self, index: int) -> Path:
        return self.path / f"shadow-{index:05d}.npz"
