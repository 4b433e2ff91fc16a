"""Finished teachers on disk: whole or absent, found again only by the very configuration and data that made them.

Two things stand between a file and this process:

1. The seal before it is an HMAC whose key is derived from the teacher's whole recipe, its private shard included.
   Whoever can write into the folder but does not hold the private data cannot make a file that passes, and a truncated
   one fails. Nothing is parsed before the seal fits.
2. What is read back is data: types that are trusted by name (:mod:`pate.teachers._skops`), or plain arrays
   (:mod:`pate.teachers._weights`). No pickle is ever read.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pate.core.files import atomic_path, write_json, write_text
from pate.core.secret import kept_secret
from pate.exceptions import InvalidInputError
from pate.teachers._keys import describe, recipe_key
from pate.teachers._seal import DamagedCheckpointError, seal
from pate.teachers._skops import TRUSTED_TYPES, pack, unpack
from pate.teachers._weights import pack_weights, unpack_weights

__all__ = [
    "SKOPS",
    "TRUSTED_TYPES",
    "WEIGHTS",
    "CheckpointStore",
    "Codec",
    "DamagedCheckpointError",
    "describe",
    "pack",
    "pack_weights",
    "recipe_key",
    "unpack",
    "unpack_weights",
]

_FORMAT = 2

_README = """\
Teachers of a PATE ensemble, each trained on one shard of PRIVATE data.

Everything in this folder is sensitive: a model can give away the records it was trained on, and no privacy guarantee
covers it. Keep the folder to yourself, and delete it when the run is over. Files of an earlier configuration are never
picked up again, nor deleted. A file that ends in .failed says why a teacher could not be trained; delete it to have
that teacher tried again, with more memory for example.
"""


@dataclass(frozen=True)
class Codec:
    """How teachers of one kind become sealed bytes, and come back.

    Parameters
    ----------
    suffix : str
        Of the files' names.
    pack : callable (model, key) -> bytes
    unpack : callable (bytes, key) -> model
        Raises DamagedCheckpointError, and nothing else.
    """

    suffix: str
    pack: Callable[[Any, bytes], bytes]
    unpack: Callable[[bytes, bytes], Any]


#: Fitted scikit-learn classifiers.
SKOPS = Codec(".skops", pack, unpack)
#: Weights of networks: dicts of arrays by name.
WEIGHTS = Codec(".safetensors", pack_weights, unpack_weights)


class CheckpointStore:
    """The folder that keeps finished teachers.

    Parameters
    ----------
    folder : path
        Made, when absent, for its owner only (mode 0700); every file is 0600.
    codec : Codec
        :data:`SKOPS` or :data:`WEIGHTS`.
    """

    def __init__(self, folder: str | os.PathLike[str], *, codec: Codec = SKOPS) -> None:
        self.folder = Path(folder)
        self.codec = codec
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not (self.folder / "README.txt").exists():
                write_text(self.folder / "README.txt", _README, mode=0o600)
        except OSError as error:
            raise InvalidInputError(
                f"checkpoint_dir must be a folder that can be written to, got {os.fspath(folder)!r} "
                f"({error.strerror}). Name another, or None to keep no teachers."
            ) from error

    def __repr__(self) -> str:
        return f"CheckpointStore({os.fspath(self.folder)!r})"

    def seed(self, fresh: int) -> int:
        """Return the training seed drawn for this folder, keeping ``fresh`` if there is none yet.

        A run without ``random_state`` that was killed must train the same teachers when it goes on.

        Raises
        ------
        DamagedCheckpointError
            The manifest is there but not readable; ``fresh`` has replaced it.
        """
        manifest = self.folder / "manifest.json"
        damaged = False
        if manifest.exists():
            try:
                seed = json.loads(manifest.read_text(encoding="utf-8"))["seed"]
                if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0:
                    return seed
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                pass
            damaged = True
        write_json(manifest, {"format": _FORMAT, "seed": fresh}, mode=0o600)
        if damaged:
            raise DamagedCheckpointError("the manifest could not be read")
        return fresh

    def secret(self) -> bytes:
        """Return the secret by which this folder's shards are cut, drawn when there is none yet.

        Raises
        ------
        DamagedCheckpointError
            It was there but not readable; the next call draws a new one.
        """
        file = self.folder / "shards.key"
        try:
            return kept_secret(file)
        except InvalidInputError:
            file.unlink(missing_ok=True)
            raise DamagedCheckpointError("the secret of the shards could not be read") from None

    def path(self, index: int, key: bytes) -> Path:
        """Return where the teacher made by the recipe ``key`` is kept."""
        # Not the key itself: the name must not give away what the seal is made with.
        name = hashlib.sha256(b"pate checkpoint name\0" + key).hexdigest()[:32]
        return self.folder / f"teacher-{index:05d}-{name}{self.codec.suffix}"

    def save(self, index: int, key: bytes, packed: bytes) -> None:
        """Write a teacher packed by the codec, atomically."""
        with atomic_path(self.path(index, key), mode=0o600) as part:
            part.write_bytes(packed)

    def save_failure(self, index: int, key: bytes, why: str) -> None:
        """Write down that the teacher made by the recipe ``key`` failed: it is not tried again."""
        path = self.path(index, key).with_suffix(".failed")
        write_text(path, f"{_failure_seal(key, why)} {why}", mode=0o600)

    def failure(self, index: int, key: bytes) -> str | None:
        """Return why the teacher made by the recipe ``key`` failed, or None: it did not, or nobody knows."""
        try:
            found, _, why = self.path(index, key).with_suffix(".failed").read_text(encoding="utf-8").partition(" ")
        except (OSError, ValueError):
            return None
        return why if hmac.compare_digest(found.encode(), _failure_seal(key, why).encode()) else None

    def load(self, index: int, key: bytes) -> Any | None:
        """Return the teacher made by the recipe ``key``, or None when it is not there.

        Raises
        ------
        DamagedCheckpointError
            The file is there but cannot be trusted.
        """
        try:
            packed = self.path(index, key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedCheckpointError("the file cannot be read") from error
        return self.codec.unpack(packed, key)


def _failure_seal(key: bytes, why: str) -> str:
    return seal(b"failed\0" + why.encode("utf-8", "surrogatepass"), key).hex()
