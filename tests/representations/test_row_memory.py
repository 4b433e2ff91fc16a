"""Slow maps that remember: the same bits, bounded, in this process, and only while it is on."""

import pickle
import threading

import numpy as np
import pytest

from pate.exceptions import InvalidInputError
from pate.representations import PublicPCA, RowMemory, TableMap, chain
from pate.representations._base import Representation
from pate.representations.images import Scattering


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).uniform(size=(1100, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def scattering(images):
    return chain(Scattering(image_shape=(8, 8), device="cpu"), PublicPCA(5, alpha=0.0)).fit(images[:200])


@pytest.mark.long
def test_the_same_bits_with_and_without(images, scattering):
    plain, memory = scattering.transform(images), RowMemory()
    with memory.on():
        for _ in range(2):
            np.testing.assert_array_equal(scattering.transform(images), plain)
            np.testing.assert_array_equal(scattering.transform(images[:70]), plain[:70])
    assert memory.hits == 3
    np.testing.assert_array_equal(scattering.transform(images), plain)
    assert memory.hits == 3  # it is off


def test_what_is_given_can_be_written_to(images, scattering):
    memory = RowMemory()
    with memory.on():
        first = scattering.transform(images[:9])
        first[:] = 7.0
        assert (scattering.transform(images[:9]) != 7.0).all()


def test_another_fit_and_other_rows_are_others(images, scattering):
    other, memory = chain(*scattering.parts).fit(images[200:500]), RowMemory()
    with memory.on():
        scattering.transform(images[:50])
        hits = memory.hits
        assert not np.array_equal(other.transform(images[:50]), scattering.transform(images[:50]))
        scattering.transform(images[1:51])
    assert memory.hits - hits <= 2


def test_it_is_bounded_and_forgets(images, scattering):
    memory = RowMemory(max_bytes=300_000)
    with memory.on():
        for start in range(0, 1000, 100):
            scattering.transform(images[start : start + 100])
    assert 0 < memory._bytes <= 300_000
    assert memory._bytes == sum(piece.nbytes for piece in memory._kept.values())
    memory.forget()
    assert (memory._bytes, len(memory._kept)) == (0, 0)
    with pytest.raises(InvalidInputError, match="max_bytes"):
        RowMemory(0)


def test_nothing_of_it_leaves_the_process_or_is_shown(images, scattering):
    memory = RowMemory()
    with memory.on():
        scattering.transform(images[:9])
    sent = pickle.loads(pickle.dumps(memory))
    assert (sent.max_bytes, len(sent._kept), sent.hits) == (memory.max_bytes, 0, 0)
    assert repr(memory) == "RowMemory(<sensitive>)"


def test_other_threads_and_quick_maps_do_not_look(images, scattering):
    memory = RowMemory()
    with memory.on():
        thread = threading.Thread(target=scattering.transform, args=(images[:9],))
        thread.start()
        thread.join()
        TableMap().fit(images[:50, :3]).transform(images[:9, :3])
    assert not memory._kept


def test_pieces_hold_whole_blocks():
    """A row's place in its block is that of a map without memory: every slow map's block divides a piece."""

    def below(cls):
        return {cls}.union(*map(below, cls.__subclasses__()))

    slow = [cls for cls in below(Representation) if cls.slow_ is True]
    assert Scattering in slow
    assert all(1024 % cls._block_rows == 0 for cls in slow)
