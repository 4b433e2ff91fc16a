"""Weights on disk: plain safetensors behind a seal, and no change goes unnoticed."""

from __future__ import annotations

import contextlib
import json
import pickle
import struct

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from pate.exceptions import InvalidInputError
from pate.teachers.checkpoints import (
    WEIGHTS,
    CheckpointStore,
    DamagedCheckpointError,
    pack,
    pack_weights,
    seal,
    sealed,
    unpack,
    unpack_weights,
)

KEY = b"a private recipe"
ARRAYS = {
    "conv.weight": np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3),
    "conv.bias": np.array([np.nan], dtype=np.float32),
    "norm.num_batches_tracked": np.array(7),
}
PACKED = pack_weights(ARRAYS, KEY)
SEAL, INSIDE = PACKED[:32], PACKED[32:]


def parts(inside):
    """The header as a dict, and the bytes behind it."""
    (length,) = struct.unpack("<Q", inside[:8])
    return json.loads(inside[8 : 8 + length]), inside[8 + length :]


def whole(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def same(a, b):
    return list(a) == sorted(b) and all(
        a[n].dtype == b[n].dtype and a[n].shape == b[n].shape and a[n].tobytes() == b[n].tobytes() for n in b
    )


def refused(packed, key=KEY):
    with pytest.raises(DamagedCheckpointError):
        unpack_weights(packed, key)
    return True


# --- a round trip --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        *(
            np.array([[0, 1, 2], [1, 0, 1]], dtype=t)
            for t in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
        ),
        np.array(2.5),
        np.zeros((0, 3), np.float32),
        np.array([np.nan, -np.inf, -0.0, 5e-324]),
        np.arange(12.0).reshape(3, 4)[:, ::2],
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.broadcast_to(np.float32(3), (2, 2)),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_arrays_come_back_bit_by_bit(array):
    back = unpack_weights(pack_weights({"w": array}, KEY), KEY)["w"]
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert back.flags.writeable


def test_the_other_byte_order_comes_back_as_this_one():
    back = unpack_weights(pack_weights({"w": np.array([1.0, 2.0], ">f4")}, KEY), KEY)["w"]
    assert back.dtype == np.dtype("<f4")
    assert back.tolist() == [1.0, 2.0]


def test_a_module_without_weights_can_be_kept():
    assert unpack_weights(pack_weights({}, KEY), KEY) == {}
    assert refused(safetensors.numpy.save({}))


def test_names_in_any_script_and_order():
    arrays = {"z": np.zeros(1), 'Ω\n"\\': np.ones(1), "": np.zeros(2)}
    assert same(unpack_weights(pack_weights(arrays, KEY), KEY), arrays)


def test_behind_the_seal_is_a_file_that_anybody_can_open(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(INSIDE)
    with safe_open(tmp_path / "a.safetensors", framework="np") as file:
        assert {n: file.get_tensor(n).tobytes() for n in file.keys()} == {n: a.tobytes() for n, a in ARRAYS.items()}  # noqa: SIM118
        assert not file.metadata()
    assert KEY.hex() not in PACKED.decode("latin1")


def test_one_seal_for_whatever_is_kept():
    """Models and weights carry the same one, before their bytes."""
    model = pack({"a": 1}, KEY)
    assert seal(model[32:], KEY) == model[:32]
    assert seal(INSIDE, KEY) == SEAL


def test_nothing_is_parsed_before_the_seal_fits(monkeypatch):
    def parsed(*_args, **_kwargs):
        raise AssertionError("it was parsed")

    for parser in ("safetensors.numpy.load", "json.loads", "skops.io.loads"):
        monkeypatch.setattr(parser, parsed)
    for read in (unpack_weights, unpack):
        with pytest.raises(DamagedCheckpointError, match="the seal does not fit"):
            read(PACKED, b"another")
    with pytest.raises(AssertionError, match="it was parsed"):  # the test can tell
        safetensors.numpy.load(INSIDE)


def test_the_store_keeps_weights_beside_models(tmp_path):
    store = CheckpointStore(tmp_path, codec=WEIGHTS)
    store.save(3, KEY, pack_weights(ARRAYS, KEY))
    assert store.path(3, KEY).suffix == ".safetensors"
    assert [f.suffix for f in tmp_path.glob("teacher-*")] == [".safetensors"]
    assert same(store.load(3, KEY), ARRAYS)
    assert store.load(3, b"a changed configuration") is None
    assert CheckpointStore(tmp_path).load(3, KEY) is None


@pytest.mark.parametrize(
    "arrays",
    [
        {"__metadata__": np.zeros(1)},
        {3: np.zeros(1)},
        {"\ud800": np.zeros(1)},
        {"w": np.array([object()])},
        {"w": np.array(["text"])},
        {"w": np.array([1j])},
        {"w": np.zeros(1, np.longdouble)},
    ],
)
def test_what_safetensors_cannot_hold_is_refused(arrays):
    with pytest.raises(InvalidInputError, match="must"):
        pack_weights(arrays, KEY)


# --- damage and forgery --------------------------------------------------------------------------------------------


def test_another_recipe_does_not_open_it():
    assert refused(PACKED, b"another")


def test_every_truncation_is_refused():
    assert all(refused(PACKED[:length]) for length in range(len(PACKED)))
    assert refused(PACKED + b"\0")


def test_every_flipped_bit_is_refused():
    for i in range(len(PACKED)):
        for bit in range(8):
            assert refused(PACKED[:i] + bytes([PACKED[i] ^ (1 << bit)]) + PACKED[i + 1 :]), (i, bit)


@pytest.mark.long
@settings(max_examples=300)
@given(st.data())
def test_a_mutated_file_gives_the_same_weights_or_none(data):
    content = bytearray(PACKED)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        piece = data.draw(st.binary(max_size=9) | st.sampled_from([b" ", b"0", b"[", b"{", b'"', b"\xff" * 8, b"F64"]))
        content[at : at + data.draw(st.integers(0, 9))] = piece
    try:
        weights = unpack_weights(bytes(content), KEY)
    except DamagedCheckpointError:
        return
    assert same(weights, ARRAYS)


@settings(max_examples=200)
@given(st.binary(max_size=200), st.booleans())
def test_noise_is_refused(noise, framed):
    content = whole(noise, b"") if framed else noise
    assert refused(content)
    assert refused(sealed(content, KEY))


def altered(change):
    header, body = parts(INSIDE)
    change(header)
    return whole(header, body)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(__metadata__={"new": "fact"}),
        lambda h: h.update(__metadata__=[]),
        lambda h: h["conv.weight"].update(dtype="I32"),
        lambda h: h["conv.weight"].update(dtype="BF16", shape=[1, 1, 2, 6]),
        lambda h: h["conv.weight"].update(dtype="F8_E4M3", shape=[24]),
        lambda h: h["conv.weight"].update(dtype="O"),
        lambda h: h["conv.weight"].update(shape=[6]),
        lambda h: h["conv.weight"].update(shape=[1, 1, 3, 2]),
        lambda h: h["conv.weight"].update(shape=[2**63, 2**63]),
        lambda h: h["conv.weight"].update(shape=[-6]),
        lambda h: h["conv.weight"].update(data_offsets=[0, 2**64]),
        lambda h: h.update(renamed=h.pop("conv.weight")),
        lambda h: h.update(extra={"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}),
        lambda h: h.pop("conv.bias"),
    ],
)
def test_an_altered_header_is_refused(change):
    assert refused(SEAL + altered(change))
    # Sealed again, as only an owner of the private data could: arrays, or the one error.
    with contextlib.suppress(DamagedCheckpointError):
        unpack_weights(sealed(altered(change), KEY), KEY)


def test_an_unaltered_header_passes():
    """Or the test above would show nothing."""
    assert same(unpack_weights(sealed(altered(lambda h: None), KEY), KEY), ARRAYS)


def test_arrays_more_or_less_are_refused():
    more = safetensors.numpy.load(INSIDE) | {"extra": np.zeros(2)}
    assert refused(SEAL + safetensors.numpy.save(more))
    less = {n: a for n, a in more.items() if n not in ("extra", "conv.bias")}
    assert refused(SEAL + safetensors.numpy.save(less))


def test_a_name_that_comes_twice_is_refused():
    header, body = parts(INSIDE)
    text = json.dumps(header)
    twice = text.replace('"conv.bias"', '"conv.weight"')
    assert twice != text
    assert refused(SEAL + whole(twice.encode(), body))
    with contextlib.suppress(DamagedCheckpointError):
        unpack_weights(sealed(whole(twice.encode(), body), KEY), KEY)


def test_what_is_sealed_cannot_be_read_two_ways():
    """Nothing moves between names and values under one seal."""
    zero = np.zeros(2, np.int8)
    ways = [
        {},
        {"a": zero},
        {"a": zero, "b": zero},
        {"a": zero.reshape(2, 1)},
        {"a": zero.reshape(1, 2)},
        {"a": zero.view(np.uint8)},
        {"a": zero.view(np.int16)},
        {"a": zero[:1], "b": np.zeros(3, np.int8)},
    ]
    assert len({pack_weights(way, KEY)[:32] for way in ways}) == len(ways)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 2**63) + b"{}",
        whole(b"[" * 200_000, b""),
        whole(b'{"__metadata__":' + b'{"a":' * 100_000, b""),
        whole(b'{"__metadata__":{"a":' + b"9" * 10_000 + b"}}", b""),
        whole(b"null", b""),
        whole(b"\xff\xfe{}", b""),
        whole(b'{"__metadata__":{"a":"\\ud800"}}', b""),
        pickle.dumps(ARRAYS),
        pack({"a": 1}, KEY),
        INSIDE,
        bytes(32) + INSIDE,
    ],
    ids=[*"abcdefghijklm"],
)
def test_a_crafted_file_is_refused(tmp_path, content):
    store = CheckpointStore(tmp_path, codec=WEIGHTS)
    store.save(0, KEY, content)
    with pytest.raises(DamagedCheckpointError):
        store.load(0, KEY)
    if INSIDE not in content:  # even behind a seal that fits
        store.save(0, KEY, sealed(content, KEY))
        with pytest.raises(DamagedCheckpointError):
            store.load(0, KEY)


def test_no_pickle_is_read(monkeypatch):
    def forbidden(*_args, **_kwargs):
        raise AssertionError("a pickle was read")

    monkeypatch.setattr("pickle.load", forbidden)
    monkeypatch.setattr("pickle.loads", forbidden)
    assert same(unpack_weights(PACKED, KEY), ARRAYS)


class PanicException(BaseException):
    """As pyo3 calls a panic in Rust, which is no Exception."""


@pytest.mark.parametrize(
    ("raised", "seen"),
    [(PanicException, DamagedCheckpointError), (KeyError, DamagedCheckpointError), (KeyboardInterrupt,) * 2],
)
def test_however_the_parser_fails(monkeypatch, raised, seen):
    def fail(_data):
        raise raised

    monkeypatch.setattr("safetensors.numpy.load", fail)
    with pytest.raises(seen):
        unpack_weights(PACKED, KEY)
