"""The secret by which records are dealt to shards: apart from the seeds of training, and from the noise for privacy.

Who shares a shard with whom must be as unknown as the noise is: see :func:`pate.data.partition`. So it depends on 256
bits from the operating system, never on a seed that a configuration, a report or a habit (0) would tell.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from pate._core.checks import check_int
from pate._core.files import write_text
from pate._core.recorder import playing, refuse_in_replay
from pate.exceptions import InvalidInputError

# Seeds for training, and the only access to the operating system's random bits.

_operating_system: Callable[[int], bytes] = os.urandom


def system_bytes(size: int) -> bytes:
    """Return bytes from the operating system's cryptographic generator: the one place that asks it.

    In a replay (:mod:`pate._core.recorder`) they follow from the recorder's key, and what is made of them is not
    private.
    """
    recorder = playing()
    return _operating_system(size) if recorder is None else recorder.draw("system", size)


def unreplayed_bytes(size: int) -> bytes:
    """Return such bytes for what is kept in a file: they come from the operating system in a replay, too."""
    return _operating_system(size)


def training_seed(seed: int | None, *path: int) -> int:
    """Return a 32-bit seed for one piece of training, fixed by ``seed`` and the piece's place.

    The result does not depend on the order in which pieces are trained, nor on the number of workers. It is no secret:
    32 bits are guessed, and reports print them. Nothing that privacy rests on may depend on it.

    Parameters
    ----------
    seed : int or None
        The user's ``random_state``; None draws from the operating system.
    *path : int
        Where the piece stands, such as (teacher, epoch).
    """
    entropy = int.from_bytes(system_bytes(16), "little") if seed is None else check_int("random_state", seed, low=0)
    return int(np.random.SeedSequence(entropy, spawn_key=path).generate_state(1)[0])


def seed_generators(seed: int) -> None:
    """Seed ``np.random`` and ``random``."""
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)


@contextmanager
def global_generators(seed: int | None = None) -> Iterator[None]:
    """Seed ``np.random`` and ``random``, and give both back as they were.

    Whatever draws from them (``StratifiedKFold(shuffle=True)`` in a search, say) would make each teacher depend on how
    much the teachers before it drew, and so on their shards.
    """
    state, plain = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        if seed is not None:
            seed_generators(seed)
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
        random.setstate(plain)


#: 256 bits; fewer than 128 are refused.
SECRET_BYTES = 32
_LEAST_BYTES = 16


def fresh_secret() -> bytes:
    """Return a new secret from the operating system."""
    return system_bytes(SECRET_BYTES)


def check_secret(secret: bytes) -> bytes:
    """Return a secret that is long enough to be one."""
    if not isinstance(secret, bytes):
        raise InvalidInputError(f"secret must be bytes, got {type(secret).__name__}. Use secrets.token_bytes(32).")
    if len(secret) < _LEAST_BYTES:
        raise InvalidInputError(
            f"secret must be at least {_LEAST_BYTES} bytes, got {len(secret)}. Use secrets.token_bytes(32)."
        )
    return secret


def derive(secret: bytes, purpose: str) -> bytes:
    """Return the key for one purpose, HMAC-SHA256: it tells neither the secret nor another purpose's key."""
    return hmac.new(secret, f"pate shards\0{purpose}".encode(), hashlib.sha256).digest()


def from_seed(seed: int) -> bytes:
    """Return what stands in for the secret where a cut is wanted that anyone can repeat."""
    return derive(b"not a secret", f"partition_seed {seed}")


def beside_ledger(ledger: Path) -> Path:
    """Return where the secret of a ledger's shards lies: beside the ledger's key."""
    return ledger.with_name(ledger.name + ".shards.key")


def stored_secret(path: Path) -> bytes:
    """Return the secret in a file, drawn again where there is none, and readable by its owner only.

    Of several processes that find none, all take the one that was put there first.
    """
    try:
        if not path.exists():
            _put(path)
        if path.stat().st_size > 1024:
            raise ValueError("it is too long")
        return check_secret(bytes.fromhex(path.read_text(encoding="ascii").strip()))
    except OSError as error:
        raise InvalidInputError(
            f"the secret of the shards cannot be kept in {str(path)!r}: {error.strerror or type(error).__name__}. "
            "Nothing was trained or charged; check the folder's permissions and the disk."
        ) from None
    except ValueError:
        raise InvalidInputError(
            f"{str(path)!r} does not hold a secret. Restore it from a backup, or delete it: then new shards are cut."
        ) from None


def forget_secret(path: Path) -> None:
    """Delete a secret, if there is one: what is cut from now on is independent of all that was cut by it."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"the secret of the shards in {str(path)!r} cannot be replaced: {error.strerror or type(error).__name__}. "
            "Check the folder's permissions."
        ) from None


def _put(path: Path) -> None:
    refuse_in_replay("secret that is kept")
    draft = path.with_name(f"{path.name}.{unreplayed_bytes(8).hex()}")
    try:
        write_text(draft, fresh_secret().hex() + "\n", mode=0o600)
        try:
            os.link(draft, path)  # unlike a renaming, this does not replace what another process has put there
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
