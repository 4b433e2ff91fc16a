"""Scattering against slow sums over the torus, and against what its definition promises."""

import math

import numpy as np
import pytest

from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.representations.images import Pixels, Scattering
from pate.representations.images._pixels import morlet


def images(*shape, seed=0):
    made = np.random.default_rng(seed).uniform(size=shape)
    made.flat[0], made.flat[-1] = 0.0, 1.0  # the public range is [0, 1]: pixels stay as they are
    return made


def maps_of(X, **settings):
    rep = Scattering(device="cpu", **settings).fit(X)
    return rep.transform(X).reshape(len(X), *rep.map_shape_)


def around(signal, kernel):
    """Circular convolution as its definition says it."""
    made = np.zeros(signal.shape, dtype=complex)
    for a in range(signal.shape[0]):
        for b in range(signal.shape[1]):
            made += signal[a, b] * np.roll(kernel, (a, b), axis=(0, 1))
    return made


def averages(values, by, before, padded, count, n_scales):
    step, sigma = 2**n_scales, 0.8 * 2 ** (n_scales - 1)
    made = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            total = weight = 0.0
            for a in range(values.shape[0]):
                for b in range(values.shape[1]):
                    near = 0.0
                    for wrap_a in (-padded, 0, padded):
                        for wrap_b in (-padded, 0, padded):
                            down = a * by + wrap_a - before - step * (i + 0.5) + 0.5
                            right = b * by + wrap_b - before - step * (j + 0.5) + 0.5
                            near += math.exp(-(down**2 + right**2) / (2 * sigma**2))
                    total, weight = total + near * values[a, b], weight + near
            made[i, j] = total / weight
    return made


def test_every_map_is_what_slow_sums_give():
    X, n_angles = images(1, 8, 8), 3
    got = maps_of(X, n_scales=2, n_angles=n_angles)[0]
    padded = np.pad(X[0], 2, mode="reflect")
    pool = {"before": 2, "padded": 12, "count": 2, "n_scales": 2}
    wanted, second = [averages(padded, 1, **pool)], []
    turn = [math.pi * i / n_angles for i in range(n_angles)]
    for scale in range(2):
        for angle in turn:
            first = np.abs(around(padded, morlet(12, 12, scale, angle, n_angles)))[:: 2**scale, :: 2**scale]
            wanted.append(averages(first, 2**scale, **pool))
            for other in turn if scale == 0 else ():
                deep = np.abs(around(first, morlet(12, 12, 1, other, n_angles)))[::2, ::2]
                second.append(averages(deep, 2, **pool))
    np.testing.assert_allclose(got, np.array(wanted + second), atol=2e-6)
    assert np.array(second).max() > 1e-3


def test_three_scales_give_the_maps_that_the_formula_counts():
    maps = maps_of(images(2, 16, 24), n_scales=3, n_angles=4)
    assert maps.shape == (2, 1 + 3 * 4 + 16 * 3, 2, 3)
    assert maps_of(images(2, 16, 24), n_scales=3, n_angles=4, order=1).shape == (2, 13, 2, 3)
    np.testing.assert_array_equal(maps_of(images(2, 16, 24), n_scales=3, n_angles=4, order=1), maps[:, :13])


def test_wavelets_have_no_mean_and_a_real_transform():
    for scale in range(3):
        for angle in np.linspace(0, 3, 5):
            psi = morlet(16, 20, scale, angle, 8)
            assert abs(psi.sum()) < 1e-12
            np.testing.assert_allclose(np.fft.fft2(psi).imag, 0, atol=1e-9)


def test_wavelets_and_average_cover_the_frequencies_evenly():
    """Littlewood and Paley: what is passed on has about the energy of what comes in, at every frequency but corners."""
    size, n_angles = 32, 8
    total = np.zeros((size, size))
    for scale in range(2):
        for i in range(n_angles):
            response = np.abs(np.fft.fft2(morlet(size, size, scale, math.pi * i / n_angles, n_angles))) ** 2
            total += response / 2 + np.roll(response[::-1, ::-1], (1, 1), axis=(0, 1)) / 2  # a real image: both halves
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(size), np.fft.fftfreq(size)))
    band = total[(frequency > 0.12) & (frequency < 0.42)]
    assert band.min() > 0.25
    assert band.max() < 1.3


def test_a_plain_image_has_its_level_and_nothing_else():
    X = images(3, 28, 28)
    X[1] = 0.4
    level = maps_of(X)[1]
    np.testing.assert_allclose(level[0], 0.4, atol=1e-6)
    np.testing.assert_allclose(level[1:], 0, atol=1e-6)


def test_a_quarter_turn_of_the_image_turns_maps_and_angles():
    X = images(1, 28, 28, seed=3)
    plain = maps_of(X, order=1)[0, 1:9]
    turned = maps_of(np.rot90(X, axes=(1, 2)), order=1)[0, 1:9]
    np.testing.assert_allclose(turned, np.rot90(plain[[4, 5, 6, 7, 0, 1, 2, 3]], axes=(1, 2)), atol=2e-6)


def test_a_small_shift_moves_features_less_than_pixels():
    smooth = images(1, 12, 12, seed=1)[0].repeat(2, axis=0).repeat(2, axis=1)
    X = np.zeros((2, 28, 28))
    X[0, 2:26, 2:26], X[1, 2:26, 3:27] = smooth, smooth
    a, b = maps_of(X).reshape(2, -1)
    pixels = np.linalg.norm(X[0] - X[1]) / np.linalg.norm(X[0])
    assert np.linalg.norm(a - b) / np.linalg.norm(a) < 0.5 * pixels


def test_channels_are_scattered_one_after_the_other():
    X = images(2, 3, 8, 12)
    whole = maps_of(X, n_angles=4).reshape(2, 3, -1)
    for c in range(3):
        one = images(2, 3, 8, 12)
        one[:, [k for k in range(3) if k != c]] = X[:, [c]]
        one = np.clip((one - one.min()) / (one.max() - one.min()), 0, 1) * (X.max() - X.min()) + X.min()
        alone = Scattering(n_angles=4, image_shape=(8, 12), device="cpu")
        alone.fit(np.concatenate([X[:, c], np.zeros((1, 8, 12)), np.ones((1, 8, 12))]))
        np.testing.assert_allclose(whole[:, c], alone.transform(X[:, c]), atol=1e-6)


@pytest.mark.parametrize("rep", [Scattering(n_angles=2, device="cpu"), Pixels(shrink=2)])
def test_a_row_depends_on_itself_and_is_finite(rep):
    X = images(300, 64)
    rep.fit(X)
    other = X.copy()
    other[1:] = images(299, 64, seed=9)
    other[200, :5] = [np.nan, np.inf, -np.inf, 1e300, -1e300]
    one, two = rep.transform(X), rep.transform(other)
    assert np.isfinite(two).all()
    assert np.abs(two).max() < 10
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_allclose(rep.transform(other[200:201]), two[200:201], atol=1e-6)


def test_flattened_and_whole_images_are_the_same():
    X = images(5, 3, 8, 8)
    rep = Scattering(n_angles=2, device="cpu").fit(X)
    flat = Scattering(n_angles=2, device="cpu").fit(X.reshape(5, -1))
    assert flat.image_shape_ == rep.image_shape_ == (3, 8, 8)
    np.testing.assert_array_equal(rep.transform(X), flat.transform(X.reshape(5, -1)))


@pytest.mark.parametrize("rep", [Scattering(n_angles=2, device="cpu"), Pixels(image_shape=(2, 8, 8))])
def test_a_file_gives_it_back(rep, tmp_path):
    from pate.representations import load

    X = images(4, 128)
    rep.set_params(image_shape=(2, 8, 8)).fit(X)
    rep.save(tmp_path / "a.safetensors")
    again = load(tmp_path / "a.safetensors")
    assert again.fingerprint() == rep.fingerprint()
    np.testing.assert_array_equal(again.transform(X), rep.transform(X))


def test_what_is_wrong_is_refused_by_name():
    for settings, words in [
        ({"n_scales": 0}, "n_scales"),
        ({"order": 3}, "order"),
        ({"image_shape": (0, 3)}, "image_shape"),
        ({"image_shape": (5, 5)}, "image_shape"),
        ({"n_scales": 4}, "n_scales=4 needs images of at least 16"),
        ({"device": "abacus"}, "device"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            Scattering(**settings).fit(images(2, 64))
    with pytest.raises(InvalidInputError, match="no square images"):
        Pixels().fit(images(2, 60))
    with pytest.raises(InvalidInputError, match="64"):
        Pixels().fit(images(2, 64)).transform(images(2, 63))


def test_private_rows_cannot_be_learnt_from():
    from pate import load_dataset

    with pytest.raises(SensitiveValueError):
        Scattering().fit(load_dataset("digits").private)
