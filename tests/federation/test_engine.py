"""Sums and labels by MPyC are what they are in the clear, and only the receivers get them."""

import math

import numpy as np
import pytest
from engine_parties import Federation

from pate.exceptions import FederationError, InvalidInputError
from pate.federation._contract import SecureAggregator, Trust
from pate.federation._mpyc import MPyCAggregator, _mask_bits, comparisons

pytestmark = pytest.mark.long  # processes of parties


RNG = np.random.default_rng(20)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    federation = Federation(tmp_path_factory.mktemp("three"), 3, 1, receivers=[0, 2], compares=True).start()
    yield federation
    federation.close()


def summed(federation, values, bound, deadline=60.0):
    length = len(values[0])
    return federation.right(lambda e, i: e.sum(values[i], length=length, bound=bound, deadline=deadline))


def labelled(federation, values, n_classes, bound):
    length = len(values[0])
    return federation.right(
        lambda e, i: e.argmax(values[i], n_classes=n_classes, length=length, bound=bound, deadline=60.0)
    )


def check_sums(federation, receivers, bound=10**6, length=50):
    n = len(federation.engines)
    values = RNG.integers(-bound // n, bound // n, (n, length), endpoint=True)
    expected = values.sum(axis=0).tolist()
    for i, opened in enumerate(summed(federation, values, bound)):
        assert opened == (expected if i in receivers else None)


@pytest.mark.sample
def test_the_opened_sum_is_the_true_sum_and_receivers_alone_get_it(three):
    check_sums(three, [0, 2])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("bound", [1, 127, 128, 2**31, 2**63, 3 * 2**90])
def test_a_sum_at_its_bound_is_right(three, bound, sign):
    values = [[sign * bound, 0], [0, sign * (bound - 1)], [0, sign]]
    assert summed(three, values, bound)[0] == [sign * bound, sign * bound]


def test_who_has_no_data_adds_nothing(three):
    length = 3
    opened = three.right(lambda e, i: e.sum([1, -2, i] if i else None, length=length, bound=9, deadline=60.0))
    assert opened == [[2, -4, 3], None, [2, -4, 3]]


@pytest.mark.sample
def test_labels_are_those_of_the_sums_and_receivers_alone_get_them(three):
    for n_classes, bound in ((2, 3), (3, 40), (10, 5_000), (7, 2**40)):
        values = RNG.integers(-bound // 3, bound // 3, (3, 12 * n_classes), endpoint=True)
        labels = labelled(three, values, n_classes, bound)
        expected = values.sum(axis=0).reshape(-1, n_classes).argmax(axis=1)
        assert labels[1] is None
        assert labels[0].dtype == np.int64
        np.testing.assert_array_equal(labels[0], expected)
        np.testing.assert_array_equal(labels[2], expected)


@pytest.mark.sample
def test_among_equals_the_lowest_index_is_the_label(three):
    totals = np.array([[5, 5, 5, 5, 5], [0, 7, 7, 1, 7], [1, 2, 3, 9, 9], [-4, -9, -4, -4, -9], [2, 2, 1, 1, 2]])
    first = RNG.integers(-20, 20, totals.size)
    second = RNG.integers(-20, 20, totals.size)
    labels = labelled(three, [first, second, totals.ravel() - first - second], 5, 200)[0]
    assert labels.tolist() == [0, 1, 3, 0, 0]


def test_labels_at_the_bound(three):
    # The largest difference that there can be: the field and the number of bits must hold twice the bound.
    for bound in (1, 2**15 - 1, 2**15):
        values = [[bound, -bound, -bound, bound], [0] * 4, [0] * 4]
        assert labelled(three, values, 2, bound)[0].tolist() == [0, 1]


def test_what_is_no_input_is_refused_before_anything_is_sent(three):
    before = [e.n_bytes_sent for e in three.engines]
    engine = three.engines[0]
    for values, length in (([1, 2], 3), ([1, 9], 2), ([1, -9], 2), ([1.5], 1), (["a"], 1)):
        with pytest.raises(InvalidInputError, match="whole numbers of at most 8"):
            engine.sum(values, length=length, bound=8, deadline=5.0)
    with pytest.raises(InvalidInputError, match="multiple of n_classes"):
        engine.argmax([1, 2, 3], n_classes=2, length=3, bound=8, deadline=5.0)
    assert [e.n_bytes_sent for e in three.engines] == before
    check_sums(three, [0, 2])


def test_five_parties(tmp_path):
    federation = Federation(tmp_path, 5, 2, receivers=[3], compares=True).start()
    check_sums(federation, [3])
    values = RNG.integers(-30, 30, (5, 200))
    labels = labelled(federation, values, 10, 150)
    np.testing.assert_array_equal(labels[3], values.sum(axis=0).reshape(-1, 10).argmax(axis=1))
    assert [e is None for e in labels] == [True, True, True, False, True]
    federation.close()


def test_ten_parties_sum_and_compare_without_shared_keys(tmp_path):
    federation = Federation(tmp_path, 10, 4, receivers=[0], compares=True).start()
    check_sums(federation, [0], length=500)
    values = RNG.integers(-30, 30, (10, 20))
    labels = labelled(federation, values, 4, 300)
    np.testing.assert_array_equal(labels[0], values.sum(axis=0).reshape(-1, 4).argmax(axis=1))
    federation.close()


def test_twenty_parties_send_little(tmp_path):
    federation = Federation(tmp_path, 20, 9, receivers=[0]).start()
    # 500 queries x 10 classes, and numbers as wide as sums of ballots need: half a megabyte a party.
    check_sums(federation, [0], length=5_000, bound=2**38)
    assert max(e.n_bytes_sent for e in federation.engines) < 0.51e6
    federation.close()


def test_long_vectors_go_in_pieces(three):
    check_sums(three, [0, 2], length=100_050, bound=1_000)
    values = RNG.integers(-30, 30, (3, 2 * 2_010))
    expected = values.sum(axis=0).reshape(-1, 2).argmax(axis=1)
    np.testing.assert_array_equal(labelled(three, values, 2, 90)[0], expected)


def test_what_the_engine_promises(three):
    engine = three.engines[0]
    assert isinstance(engine, SecureAggregator)
    assert engine.trust == Trust(engine=engine.trust.engine, tolerate=1, drop_outs=0, active=False, comparison_bits=60)
    assert "MPyC 0.11" in engine.trust.engine
    assert comparisons(500, 10) == 4_500


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tolerate": 2}, "below half of the 3 parties"),
        ({"tolerate": 0}, "tolerate must be"),
        ({"comparison_bits": 40}, "comparison_bits must be a whole number >= 60"),
        ({"receivers": []}, "receivers must be"),
        ({"receivers": [3]}, "receivers must be"),
    ],
)
def test_terms_that_no_engine_can_keep_are_refused(three, change, said):
    with pytest.raises(InvalidInputError, match=said):
        three.make(0, **change)


def test_a_certificate_of_another_party_is_noticed_at_home(three):
    with pytest.raises(InvalidInputError, match="does not name hospital-a"):
        three.make(0, bundle=three.bundles[1])


def test_an_engine_is_used_for_nothing_after_its_end(tmp_path):
    federation = Federation(tmp_path, 3, 1).start()
    with pytest.raises(InvalidInputError, match="compares=True"):
        federation.engines[0].argmax([1, 2], n_classes=2, length=2, bound=2, deadline=5.0)
    federation.close()
    with pytest.raises(FederationError, match="has ended"):
        federation.engines[0].sum([1], length=1, bound=1, deadline=5.0)
    federation.engines[0].close()
    assert issubclass(MPyCAggregator, object)


@pytest.mark.parametrize("bits", [60, 80])
@pytest.mark.parametrize("n", range(3, 24))
def test_masks_are_as_wide_as_promised_whoever_puts_together_what_it_knows(n, bits):
    for tolerate in range(1, (n + 1) // 2):
        k = _mask_bits(n, tolerate, bits)
        # As MPyC has it: keys of all sets of n - t parties, one of which is wholly outside a coalition of t; above 8
        # parties t + 1 of them draw, one at least outside of it. Each part is from range(2^...) as in Runtime._randoms.
        parts = math.comb(n, tolerate) if n <= 8 else tolerate + 1
        unknown = 1 << max(0, ((1 << k) // parts).bit_length() - 1)
        assert 2 ** (bits + 1) <= unknown < 2 ** (bits + 3)
