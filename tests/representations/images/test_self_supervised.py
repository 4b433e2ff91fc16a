"""Self-supervised networks: repeatable, resumable, public, and of use."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from pate.exceptions import CheckpointWarning, InvalidInputError, SensitiveValueError
from pate.representations import cached, load
from pate.representations.images import Augmentation, SelfSupervised
from pate.representations.images import _self_supervised as training
from pate.representations.images._self_supervised import Encoder, simclr, vicreg

SMALL = {"n_features": 8, "width": 8, "epochs": 2, "batch_size": 16, "device": "cpu", "precision": "float32"}


OBJECTIVES = ["simclr", "vicreg"]


def images(n=40, side=8, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, side * side))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.long
def test_the_same_seed_gives_the_same_network_whatever_was_drawn_before():
    one = SelfSupervised(**SMALL).fit(images())
    torch.rand(3)
    np.random.seed(5)  # noqa: NPY002
    state = torch.get_rng_state()
    two = SelfSupervised(**SMALL).fit(images())
    assert torch.equal(state, torch.get_rng_state())
    assert one.fingerprint() == two.fingerprint()
    assert SelfSupervised(**SMALL, random_state=1).fit(images()).fingerprint() != one.fingerprint()
    assert SelfSupervised(**SMALL).fit(images(seed=1)).fingerprint() != one.fingerprint()


def test_labels_and_private_rows_have_no_way_in():
    from pate import load_dataset

    plain = SelfSupervised(**SMALL).fit(images())
    assert SelfSupervised(**SMALL).fit(images(), np.arange(40) % 2).fingerprint() == plain.fingerprint()
    with pytest.raises(SensitiveValueError):
        SelfSupervised(**SMALL).fit(load_dataset("digits").private)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_training_that_was_cut_off_ends_where_it_would_have(tmp_path, monkeypatch, objective):
    monkeypatch.setattr(training, "_OFTEN", 0.0)
    whole = SelfSupervised(objective=objective, **SMALL | {"epochs": 4}).fit(images())
    epoch, done = training._epoch, []

    def cut(*args):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(args[3])
        return epoch(*args)

    monkeypatch.setattr(training, "_epoch", cut)
    rep = SelfSupervised(objective=objective, **SMALL | {"epochs": 4}, checkpoint_dir=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        rep.fit(images())
    done.clear()
    rep.fit(images())
    assert done == [2, 3]
    assert rep.fingerprint() == whole.fingerprint()
    done.clear()
    rep.fit(images())  # nothing is left to do
    assert done == []
    assert rep.losses_ == whole.losses_
    assert len(list(tmp_path.iterdir())) == 1


def test_a_damaged_checkpoint_is_reported_and_left(tmp_path):
    whole = SelfSupervised(**SMALL, checkpoint_dir=tmp_path).fit(images())
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.warns(CheckpointWarning, match="training starts again"):
        assert SelfSupervised(**SMALL, checkpoint_dir=tmp_path).fit(images()).fingerprint() == whole.fingerprint()


def test_a_checkpoint_serves_its_own_settings_and_images_alone(tmp_path):
    SelfSupervised(**SMALL, checkpoint_dir=tmp_path).fit(images())
    for settings, X in [
        ({"temperature": 0.3}, images()),
        ({"augmentation": {"rotate": 1}}, images()),
        ({}, images(39)),
    ]:
        other = SelfSupervised(**SMALL | settings, checkpoint_dir=tmp_path).fit(X)
        assert other.fingerprint() == SelfSupervised(**SMALL | settings).fit(X).fingerprint()
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_file_and_the_cache_give_it_back(tmp_path, objective):
    rep = SelfSupervised(**SMALL, objective=objective, augmentation={"rotate": 3, "flip": True}).fit(images())
    rep.save(tmp_path / "rep.safetensors")
    again = load(tmp_path / "rep.safetensors")
    np.testing.assert_array_equal(again.transform(images()), rep.transform(images()))
    assert again.losses_ == rep.losses_
    assert again.fingerprint() == rep.fingerprint()
    assert cached(SelfSupervised(**SMALL), images(), tmp_path / "c").fingerprint() == (
        cached(SelfSupervised(**SMALL), images(), tmp_path / "c").fingerprint()
    )
    assert len(list((tmp_path / "c").iterdir())) == 1


def test_a_row_depends_on_itself_and_is_finite():
    rep = SelfSupervised(**SMALL).fit(images())
    one, two = images(600), images(600, seed=9)
    two[3] = one[3]
    two[4, :3] = [np.nan, np.inf, -1e300]
    a, b = rep.transform(one), rep.transform(two)
    assert np.isfinite(b).all()
    np.testing.assert_array_equal(a[3], b[3])
    np.testing.assert_allclose(rep.transform(one[590:]), a[590:], atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(("objective", "epochs", "left"), [("simclr", 12, 0.9), ("vicreg", 40, 0.95)])
def test_it_learns_what_the_changes_leave(objective, epochs, left):
    """Stripes of four directions at random places: pixels do not tell them apart, the network does."""
    draw = np.random.default_rng(0)
    rows, columns = np.mgrid[:16, :16]
    label, phase = np.arange(240) % 4, draw.uniform(0, 6, 240)[:, None, None]
    angle = (label * np.pi / 4)[:, None, None]
    X = 0.5 + 0.5 * np.sin(1.2 * (rows * np.sin(angle) + columns * np.cos(angle)) + phase)
    X = np.clip(X + draw.normal(scale=0.4, size=X.shape), 0, 1)
    rep = SelfSupervised(
        n_features=16, width=16, epochs=epochs, batch_size=32, device="cpu", augmentation={"shift": 0.4, "bright": 0.2},
        objective=objective,
    ).fit(X[:160])  # fmt: skip

    def right(features):
        return KNeighborsClassifier(1).fit(features[160:168], label[160:168]).score(features[168:], label[168:])

    assert rep.losses_[-1] < left * rep.losses_[0]
    assert right(rep.transform(X)) > 0.95
    assert right(X.reshape(240, -1)) < 0.85


def test_vectors_keep_the_directions_of_what_the_network_sees():
    X = images(60)
    rep = SelfSupervised(**SMALL | {"n_features": 1000}).fit(X)
    assert rep.n_features_out_ == 59
    seen = rep._encoder.describe(torch.tensor(X, dtype=torch.float32).reshape(-1, 1, 8, 8)).detach().numpy()
    seen /= np.linalg.norm(seen, axis=1, keepdims=True)
    z = rep.transform(X)
    np.testing.assert_allclose(z @ z.T, (seen - seen.mean(axis=0)) @ (seen - seen.mean(axis=0)).T, atol=2e-3)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-3)
    assert (np.diff(z.var(axis=0)) <= 1e-9).all()


def test_the_loss_is_the_sum_of_the_paper():
    one, two = torch.randn(3, 5), torch.randn(3, 5)
    views = [v / v.norm() for v in torch.cat([one, two])]
    total = 0.0
    for i in range(6):
        others = [torch.exp(views[i] @ views[j] / 0.5) for j in range(6) if j != i]
        total -= float(torch.log(torch.exp(views[i] @ views[(i + 3) % 6] / 0.5) / sum(others)))
    assert float(simclr(one, two, 0.5)) == pytest.approx(total / 6, rel=1e-5)


def test_vicreg_is_the_sum_that_its_authors_compute():
    """Equations 1 to 6, with their code's means and halves, number by number."""
    draw = np.random.default_rng(0)
    one, two = draw.normal(scale=0.7, size=(2, 6, 4))
    total = 25 * sum((one[i, j] - two[i, j]) ** 2 for i in range(6) for j in range(4)) / 24
    for z in (one, two):
        total += 25 * sum(max(0.0, 1 - np.sqrt(z[:, j].var(ddof=1) + 1e-4)) for j in range(4)) / 4 / 2
        c = np.cov(z.T)
        total += sum(c[i, j] ** 2 for i in range(4) for j in range(4) if i != j) / 4
    assert float(vicreg(torch.tensor(one), torch.tensor(two))) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 8, 8), (1, 4, 5), (3, 96, 64)])
def test_networks_take_images_of_any_size(shape):
    encoder = Encoder(shape, 4)
    assert encoder(torch.rand(2, *shape)).shape == (2, 256)
    assert encoder.describe(torch.rand(2, *shape)).shape == (2, encoder.n_body)
    assert encoder.n_body <= 16 * 16


def test_changes_stay_within_their_bounds():
    X = torch.rand(50, 1, 12, 12)
    draw = torch.Generator().manual_seed(0)
    torch.testing.assert_close(Augmentation.of({}).apply(X, draw), X, atol=1e-5, rtol=0)
    brighter = Augmentation.of({"bright": 0.3}).apply(X, draw) / X
    assert 0.699 < float(brighter.min()) < 0.75
    assert 1.25 < float(brighter.max()) < 1.301
    flipped = Augmentation.of({"flip": True}).apply(X, draw)
    turned = [torch.allclose(f, x.flip(-1), atol=1e-4) for f, x in zip(flipped, X, strict=True)]
    same = [torch.allclose(f, x, atol=1e-4) for f, x in zip(flipped, X, strict=True)]
    assert sum(turned) + sum(same) == 50
    assert 10 < sum(turned) < 40
    bar = torch.zeros(1, 1, 9, 9)
    bar[:, :, :, 4] = 1
    thick = Augmentation.of({"thicken": 0.9}).apply(bar.expand(50, 1, 9, 9), draw).sum(dim=(1, 2, 3))
    assert float(thick.max()) > 15
    assert float(thick.min()) < 5
    hole = Augmentation.of({"erase": 0.5}).apply(torch.ones(200, 1, 12, 12), draw)
    assert 0 < int((hole == 0).sum(dim=(1, 2, 3)).max()) <= 36


def test_public_images_of_strokes_are_bent_and_others_are_not():
    from sklearn.datasets import load_digits

    glyphs = SelfSupervised(**SMALL | {"epochs": 1}).fit(load_digits().data[:50])
    assert glyphs.augmentation_ == Augmentation.of("glyphs")
    smooth = np.clip(np.indices((16, 16)).sum(axis=0) / 30 + images(20, 1)[:, :, None] / 5, 0, 1)
    rep = SelfSupervised(**SMALL | {"epochs": 1}).fit(smooth)
    assert rep.augmentation_ == Augmentation.of("mild")
    named = SelfSupervised(**SMALL | {"epochs": 1}, augmentation="mild").fit(smooth)
    np.testing.assert_array_equal(named.transform(smooth), rep.transform(smooth))


def test_what_is_wrong_is_refused_by_name():
    for settings, words in [
        ({"objective": "byol"}, "objective"),
        ({"width": 0}, "width"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 1}, "batch_size"),
        ({"temperature": 0}, "temperature"),
        ({"augmentation": "wild"}, "augmentation"),
        ({"augmentation": {"tilt": 1}}, "tilt"),
        ({"augmentation": {"rotate": -1}}, "rotate"),
        ({"precision": "half"}, "precision"),
        ({"random_state": -1}, "random_state"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            SelfSupervised(**SMALL | settings).fit(images())
    with pytest.raises(InvalidInputError, match="one image"):
        SelfSupervised(**SMALL).fit(images(1))
