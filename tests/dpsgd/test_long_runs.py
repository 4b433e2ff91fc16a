"""Runs that are killed and taken up, watched, cut short; neighbours of several kinds; persons."""

from __future__ import annotations

import os
import shutil
import signal
import stat

import numpy as np
import pytest
import torch
from dpsgd_steps import by_value, train

from pate import Budget, DPSGDClassifier, Ledger
from pate.dpsgd import ExponentialAveraging, _run
from pate.dpsgd._checkpoint import Checkpoint
from pate.dpsgd._run import build_engine
from pate.dpsgd._units import Units
from pate.dpsgd.clipping import QuantileClipping
from pate.dpsgd.mechanisms import BandedFTRL, TreeFTRL
from pate.exceptions import BudgetExceededError, InvalidInputError, LedgerError
from pate.privacy.noise.source import NoiseSource

RNG = np.random.default_rng(5)
X = RNG.normal(size=(120, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


def settings(**more):
    options = {"budget": Budget(3.0, 1e-3), "classes": [0, 1], "expected_batch_size": 20, "n_steps": 12, **more}
    return by_value(**options)


def make(**more):
    return DPSGDClassifier("linear", **settings(**more))


def weights(clf):
    return torch.cat([p.detach().flatten() for p in clf.module_.parameters()])


class Killed(BaseException):
    pass


def kill_at(step, seen=None):
    def callback(now):
        if seen is not None:
            seen[now.step] = torch.cat([p.detach().flatten() for p in now.module.parameters()])
        if now.step == step:
            raise Killed

    return callback


# ---------------------------------------------------------------- checkpoints


@pytest.mark.few(1)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("step", [1, 7, 12])
def test_a_killed_run_gives_what_it_would_have_given(tmp_path, step, optimizer):
    """A key, not a seed: the noise is the operating system's, and the same again after a kill."""
    path = tmp_path / "run"
    seen = {}
    options = {"checkpoint_dir": path, "optimizer": optimizer}
    with pytest.raises(Killed):
        make(**options, callbacks=[kill_at(step, seen)]).fit(X, Y)
    (file,) = path.iterdir()
    assert [stat.S_IMODE(place.stat().st_mode) for place in (file, path)] == [0o600, 0o700]
    again = {}
    clf = make(**options, callbacks=[kill_at(99, again)]).fit(X, Y)
    assert sorted(seen) == list(range(1, step + 1))
    assert sorted(again) == list(range(step + 1, 13))
    assert clf.n_steps_ == 12
    assert clf.guarantee_.kind == "public"
    assert not list(path.iterdir())
    assert "SHAKE-256" in clf.statement_.noise_source


@pytest.mark.long
def test_steps_after_the_last_file_are_done_again_bit_for_bit(tmp_path, monkeypatch):
    """Killed with the last file far behind: what had been computed comes out again, so it is let out once."""
    path = tmp_path / "run"
    seen, stop, original = [], 8, torch.optim.SGD.step

    def step(self, *args):
        original(self)
        seen.append(torch.cat([p.detach().flatten().clone() for p in self.param_groups[0]["params"]]))
        if len(seen) == stop:
            raise Killed

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    monkeypatch.setattr("pate.dpsgd._checkpoint._SHARE", 1e-9)  # one file at the start, and never another one
    with pytest.raises(Killed):
        make(checkpoint_dir=path).fit(X, Y)
    first, stop = list(seen), 10**9
    seen.clear()
    make(checkpoint_dir=path).fit(X, Y)
    assert (len(first), len(seen)) == (8, 12)
    for a, b in zip(first, seen, strict=False):
        assert torch.equal(a, b)


@pytest.mark.long
def test_a_seeded_run_taken_up_is_the_run_that_was_never_killed(tmp_path):
    options = {"noise_seed": 4, "random_state": 1}
    with pytest.raises(Killed):
        make(**options, checkpoint_dir=tmp_path / "a", callbacks=[kill_at(5)]).fit(X, Y)
    taken_up = make(**options, checkpoint_dir=tmp_path / "a").fit(X, Y)
    assert torch.equal(weights(taken_up), weights(make(**options).fit(X, Y)))


@pytest.mark.long
def test_a_run_taken_up_is_charged_once(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", currency="renyi", total=Budget(4.0, 1e-3))
    for step in (2, 5):
        with pytest.raises(Killed):
            make(ledger=ledger, checkpoint_dir=tmp_path / "a", callbacks=[kill_at(step)]).fit(X, Y)
    (tmp_path / "elsewhere").mkdir()
    other = Ledger(tmp_path / "elsewhere" / "m.sqlite", currency="renyi", total=Budget(4.0, 1e-3))
    with pytest.raises(InvalidInputError, match="ledger must be the one that was charged"):
        make(ledger=other, checkpoint_dir=tmp_path / "a").fit(X, Y)
    with pytest.raises(InvalidInputError, match="another run"):
        make(checkpoint_dir=tmp_path / "a").fit(X, Y)
    clf = make(ledger=ledger, checkpoint_dir=tmp_path / "a").fit(X, Y)
    assert len(ledger.releases()) == 1
    assert clf.statement_.ledger_releases == (1,)
    make(ledger=ledger, n_steps=1, budget=Budget(0.1, 1e-3)).fit(X, Y)  # a new run is a new spend
    assert len(ledger.releases()) == 2


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.1},
        {"n_steps": 13},
        {"budget": Budget(2.9, 1e-3)},
        {"noise_multiplier": 9.0},
        {"max_grad_norm": 0.5},
        {"noise_seed": 3},
        {"random_state": 3},
    ],
)
def test_another_run_is_not_taken_up(tmp_path, change):
    with pytest.raises(Killed):
        make(checkpoint_dir=tmp_path / "a", callbacks=[kill_at(2)]).fit(X, Y)
    with pytest.raises(InvalidInputError, match="another run"):
        make(checkpoint_dir=tmp_path / "a", **change).fit(X, Y)
    other = X.copy()
    other[3, 3] += 1
    with pytest.raises(InvalidInputError, match="another run"):
        make(checkpoint_dir=tmp_path / "a").fit(other, Y)
    with pytest.raises(InvalidInputError, match="another run"):
        make(checkpoint_dir=tmp_path / "a").fit(X, 1 - Y)


class Scaled(torch.nn.Module):
    """Whose gradients depend on a number that stands in no weight."""

    def __init__(self, n_features, n_classes, by=1.0):
        super().__init__()
        self.linear = torch.nn.Linear(n_features, n_classes)
        self.by = torch.as_tensor(by, dtype=torch.float32).expand(5000)[:n_features]

    def forward(self, x):
        return self.linear(x * self.by)


def by(scale):
    return lambda n_features, n_classes: Scaled(n_features, n_classes, scale)


def keep_first(monkeypatch, path, copy):
    """Have the file of a run before its first step copied, as a backup would."""
    write = Checkpoint.write

    def kept(*given, **options):
        write(*given, **options)
        if not copy.exists():
            shutil.copytree(path, copy)

    monkeypatch.setattr(Checkpoint, "write", kept)


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"module": by(1.0)}, {"module": by(-1.0)}),
        (
            {"module": Scaled, "module_kwargs": {"by": np.ones(5000)}},
            {"module": Scaled, "module_kwargs": {"by": np.r_[np.ones(3), -np.ones(3), np.ones(4994)]}},
        ),
    ],
)
def test_another_module_gets_no_noise_a_second_time(tmp_path, monkeypatch, first, second):
    """Neither has a name of its own: with the same noise on both gradients their difference would be bare."""
    path, copy = tmp_path / "run", tmp_path / "old"
    keep_first(monkeypatch, path, copy)
    options = {"checkpoint_dir": path, "random_state": 0}
    once = DPSGDClassifier(**settings(**options, **first)).fit(X, Y)
    shutil.copytree(copy, path, dirs_exist_ok=True)
    with pytest.raises(InvalidInputError, match="another module"):
        DPSGDClassifier(**settings(**options, **second)).fit(X, Y)
    again = DPSGDClassifier(**settings(**options, **first)).fit(X, Y)
    assert torch.equal(weights(once), weights(again))


@pytest.mark.long
def test_a_run_starts_from_the_weights_that_it_had(tmp_path, monkeypatch):
    """Also one taken up before its first step, of a module that starts from bits of its own."""
    path, copy = tmp_path / "run", tmp_path / "old"
    keep_first(monkeypatch, path, copy)

    def odd(n_features, n_classes):
        made = Scaled(n_features, n_classes)
        with torch.no_grad():
            made.linear.bias.copy_(torch.tensor(list(os.urandom(n_classes))) / 256)
        return made

    options = settings(checkpoint_dir=path, random_state=0, module=odd)
    once = DPSGDClassifier(**options).fit(X, Y)
    shutil.copytree(copy, path, dirs_exist_ok=True)
    assert torch.equal(weights(once), weights(DPSGDClassifier(**options).fit(X, Y)))


@pytest.mark.long
def test_a_kill_in_the_middle_of_a_file_leaves_no_key_when_the_run_has_ended(tmp_path):
    path = tmp_path / "run"
    pid = os.fork()
    if pid == 0:
        replace, calls = os.replace, iter(range(99))
        os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL) if next(calls) == 2 else replace(*names)
        make(checkpoint_dir=path, callbacks=[lambda now: False]).fit(X, Y)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert len(list(path.iterdir())) == 2
    clf = make(checkpoint_dir=path).fit(X, Y)
    assert "in a file that is gone now" in str(clf.statement_)
    assert not list(path.iterdir())


@pytest.mark.long
def test_no_key_stays_behind_where_the_folder_changes_or_at_the_end_of_a_link(tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(tmp_path)
    make(checkpoint_dir="run", callbacks=[lambda now: os.chdir(other)]).fit(X, Y)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Killed):
        make(checkpoint_dir="run", callbacks=[kill_at(2)]).fit(X, Y)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    make(checkpoint_dir="link").fit(X, Y)
    assert not list((tmp_path / "run").iterdir())
    assert not list(other.iterdir())


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_kept(tmp_path, dtype):
    class Half(torch.nn.Module):
        def __init__(self, n_features, n_classes):
            super().__init__()
            self.linear = torch.nn.Linear(n_features, n_classes, dtype=dtype)

        def forward(self, x):
            return self.linear(x.to(dtype))

    options = settings(module=Half, checkpoint_dir=tmp_path / "run", noise_seed=1, random_state=0, optimizer="adam")
    with pytest.raises(Killed):
        DPSGDClassifier(**options, callbacks=[kill_at(2)]).fit(X, Y)
    clf = DPSGDClassifier(**options).fit(X, Y)
    whole = DPSGDClassifier(**{**options, "checkpoint_dir": None}).fit(X, Y)
    assert torch.equal(weights(clf), weights(whole))


def test_a_file_that_is_none_of_ours_or_cannot_be_written(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.safetensors").write_text("hello")
    with pytest.raises(InvalidInputError, match="must be a file written by pate"):
        make(checkpoint_dir=tmp_path / "a").fit(X, Y)
    assert (tmp_path / "a" / "run.safetensors").read_text() == "hello"
    with pytest.raises(InvalidInputError, match=r"checkpoint_dir=.* cannot be written"):
        make(checkpoint_dir=tmp_path / "a" / "run.safetensors").fit(X, Y)


def test_a_keyed_source_repeats_itself_and_its_children_do_not():
    key = os.urandom(32)
    a, b = NoiseSource(key=key), NoiseSource(key=key)
    assert not a.seeded
    assert (a.words(5) == b.words(5)).all()
    assert not (a.words(5) == NoiseSource(key=key).words(5)).any()
    children = [NoiseSource(key=key).child(*path).words(4) for path in ((0,), (1,), (0, 1), (1, 0), ())]
    assert len({w for child in children for w in child.tolist()} | set(NoiseSource(key=key).words(4).tolist())) == 24
    bits = np.unpackbits(NoiseSource(key=key).words(100_000).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(len(bits))
    with pytest.raises(InvalidInputError, match="secret must be"):
        NoiseSource(key=b"short")


# ---------------------------------------------------------------- watching, and ending early


@pytest.mark.long
def test_callbacks_see_every_step_and_may_end_the_fit():
    seen = []
    clf = make(callbacks=[seen.append, lambda now: now.step == 4]).fit(X, Y)
    assert [now.step for now in seen] == [1, 2, 3, 4]
    assert clf.n_steps_ == 4
    assert clf.guarantee_.epsilon == make().fit(X, Y).guarantee_.epsilon  # of all that was planned
    costs = [now.epsilon for now in seen]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1] < clf.guarantee_.epsilon
    assert torch.equal(torch.cat([p.flatten() for p in seen[-1].module.parameters()]), weights(clf))


def test_a_callbacks_own_error_is_its_own():
    def fail(now):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        make(callbacks=[fail]).fit(X, Y)
    with pytest.raises(InvalidInputError, match="callbacks must be functions"):
        make(callbacks=["print"]).fit(X, Y)


@pytest.mark.long
def test_training_stops_before_the_step_that_would_exceed():
    sigma = 4.0
    with pytest.raises(BudgetExceededError, match="noise_multiplier=4"):
        make(noise_multiplier=sigma, n_steps=200).fit(X, Y)
    clf = make(noise_multiplier=sigma, n_steps=200, on_exhausted="stop").fit(X, Y)
    assert 1 < clf.n_steps_ < 200
    assert clf.guarantee_.epsilon <= 3.0
    with pytest.raises(BudgetExceededError):
        make(noise_multiplier=sigma, n_steps=clf.n_steps_ + 1).fit(X, Y)
    with pytest.raises(BudgetExceededError):
        make(noise_multiplier=0.3, n_steps=200, on_exhausted="stop").fit(X, Y)
    with pytest.raises(InvalidInputError, match="on_exhausted='stop' needs noise_multiplier"):
        make(on_exhausted="stop").fit(X, Y)


def test_the_bar_says_what_is_spent(capsys):
    make(verbose=True).fit(X, Y)
    assert "DP-SGD steps: 12 done" in capsys.readouterr().err


# ---------------------------------------------------------------- neighbours


@pytest.mark.long
def test_zero_out_has_the_numbers_of_add_or_remove_and_a_public_n():
    out = make(adjacency="zero-out").fit(X, Y)
    less = make(adjacency="add-or-remove", nominal_n=120).fit(X, Y)
    assert out.noise_multiplier_ == pytest.approx(less.noise_multiplier_, rel=1e-4)
    assert out.noise_multiplier_ < make().fit(X, Y).noise_multiplier_
    assert out.statement_.n_units == 120
    assert "counts for nothing" in out.statement_.accounting
    assert "not comparable with replace-one" in out.statement_.accounting


@pytest.mark.long
def test_a_rate_may_stand_for_the_number():
    clf = make(adjacency="add-or-remove", sample_rate=0.2).fit(X, Y)
    assert clf.sample_rate_ == 0.2
    assert clf.noise_multiplier_ == make(adjacency="add-or-remove", nominal_n=100).fit(X, Y).noise_multiplier_
    for wrong in ({"sample_rate": 0.2, "nominal_n": 100}, {}):
        with pytest.raises(InvalidInputError, match="one of the two"):
            make(adjacency="add-or-remove", **wrong).fit(X, Y)
    with pytest.raises(InvalidInputError, match="sample_rate is for"):
        make(sample_rate=0.2).fit(X, Y)


def test_under_add_or_remove_no_error_tells_how_many_there_are():
    clf = make(adjacency="add-or-remove", nominal_n=100)
    both = np.stack([Y, Y], axis=1)
    others = (X, Y, both), (X, Y, both[:-1]), (X, Y, "ids"), (X, Y, list(map(list, both[:-1]))), (X, Y, [[1], [2, 3]])
    for bad in ((X, Y[:-1], None), (X, Y, np.zeros(119)), (X[:, 0], Y), (X, both), (X, 1), *others):
        with pytest.raises(InvalidInputError) as refused:
            clf.fit(*bad[:2], groups=bad[2] if len(bad) == 3 else None)
        assert "119" not in str(refused.value)
        assert "120" not in str(refused.value)


@pytest.mark.long
def test_the_bar_is_made_of_constants(monkeypatch):
    noted = []

    def track(items, *, note, **words):
        noted.append([note(i) for i in range(13)])
        yield from items

    monkeypatch.setattr(_run, "track", track)
    make(noise_seed=1).fit(X, Y)
    make(noise_seed=2).fit(-X, 1 - Y)
    assert noted[0] == noted[1]


# ---------------------------------------------------------------- persons


def one_step(rows, labels, owners, *, rows_per_unit=3, clip=1.0):
    """Return the sum of the persons' clipped gradients, by a step that takes everybody and adds next to no noise."""
    torch.manual_seed(0)
    engine = build_engine("linear", 6, 2)
    module = engine.module
    before = torch.cat([p.detach().flatten().clone() for p in module.parameters()])
    train(engine, rows, labels, owners=owners, rows_per_unit=rows_per_unit, clip=clip, shared_draws=True)
    return before - torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.long
@pytest.mark.parametrize("many", [1, 2, 50])
def test_a_person_with_many_records_moves_the_model_no_more_than_one_with_one(many):
    """The last person's rows are as loud as rows can be, and all say the same."""
    owners = np.repeat(np.arange(9), [4, 1, 2, 9, 3, 1, 1, 2, many])
    rows = RNG.normal(size=(len(owners), 6)).astype(np.float32)
    labels = RNG.integers(0, 2, len(owners))
    loud, others = rows.copy(), labels.copy()
    loud[owners == 8], others[owners == 8] = 1e3, 1
    rows[owners == 8], labels[owners == 8] = 1e3, 0
    # Persons with more than three records draw again which: here no one but the last one has.
    keep = np.concatenate([np.flatnonzero(owners == i)[:3] for i in range(8)] + [np.flatnonzero(owners == 8)])
    a = one_step(rows[keep], labels[keep], owners[keep])
    b = one_step(loud[keep], others[keep], owners[keep])
    gone = one_step(rows[keep][owners[keep] < 8], labels[keep][owners[keep] < 8], owners[keep][owners[keep] < 8])
    assert 1.9 < float((a - b).norm()) <= 2 * (1 + 1e-3)
    assert 0.9 < float((a - gone).norm()) <= 1 + 1e-3


def test_which_records_a_person_casts_is_theirs_alone():
    owners = np.repeat(np.arange(4), [1, 2, 3, 7])
    units = Units(np.arange(13.0, dtype=np.float32)[:, None], np.zeros(13, np.int64), owners, 3)
    rows, _, weights = units.take(np.array([0, 1, 2, 3]), NoiseSource(0))
    cast = rows.reshape(4, 3).numpy()
    counted = weights.reshape(4, 3).numpy()
    np.testing.assert_allclose(counted.sum(axis=1), 1.0)
    for person, chosen in enumerate(cast):
        mine = chosen[counted[person] > 0]
        assert len(set(mine)) == min(3, [1, 2, 3, 7][person])
        assert set(owners[mine.astype(int)]) == {person}
    taken = np.concatenate([units.take(np.array([3]), NoiseSource(i))[0].ravel() for i in range(700)])
    counts = np.bincount(taken.astype(int), minlength=13)[6:]
    assert abs(counts - 300).max() < 5 * np.sqrt(300)  # each of the seven equally often


@pytest.mark.long
def test_persons_are_protected_as_one():
    owners = np.repeat(np.arange(60), 2)
    clf = make(expected_batch_size=10, epochs=2, n_steps=None).fit(X, Y, groups=owners)
    assert clf.n_steps_ == 12  # of persons, not of records
    assert clf.sample_rate_ == pytest.approx(10 / 60)
    s = clf.statement_
    assert (s.unit, s.n_units) == ("group", 60)
    assert "at most 8 records in a step" in s.mechanism
    with pytest.raises(InvalidInputError, match="60 private persons"):
        make(expected_batch_size=61).fit(X, Y, groups=owners)
    with pytest.raises(InvalidInputError, match="groups must have shape"):
        make().fit(X, Y, groups=owners[:-1])


@pytest.mark.long
def test_persons_learn_what_records_learn():
    rng = np.random.default_rng(0)
    owners = rng.integers(0, 300, 1500)
    rows = rng.normal(size=(1500, 5))
    labels = (rows[:, 0] > 0).astype(int)
    clf = make(expected_batch_size=60, n_steps=100, budget=Budget(8.0, 1e-3), noise_seed=0, random_state=0)
    assert clf.fit(rows, labels, groups=[f"p{i}" for i in owners]).score(rows, labels) > 0.9


@pytest.mark.long
def test_a_persons_ledger_is_of_persons(tmp_path):
    owners = np.repeat(np.arange(60), 2)
    ledger = Ledger(tmp_path / "l.sqlite", currency="renyi", total=Budget(9.0, 1e-3))
    make(ledger=ledger, expected_batch_size=10).fit(X, Y, groups=owners)
    with pytest.raises(LedgerError):
        make(ledger=ledger).fit(X, Y)


# ---------------------------------------------------------------- who settings go through


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {"clipping": "per-layer"},
        {"clipping": "automatic"},
        {"clipping": "quantile"},
        {"clipping": QuantileClipping(0.3, count_noise=9.0)},
        {"schedule": "cosine", "averaging": "tail"},
        {"averaging": ExponentialAveraging(0.9), "optimizer": "adam-bc"},
        {"mechanism": "ftrl"},
        {"mechanism": BandedFTRL(3)},
        {"mechanism": TreeFTRL()},
    ],
)
def test_every_setting_can_be_killed_and_taken_up(tmp_path, options):
    more = {"noise_seed": 4, "random_state": 1, **options}
    with pytest.raises(Killed):
        make(**more, checkpoint_dir=tmp_path / "a", callbacks=[kill_at(7)]).fit(X, Y)
    taken_up = make(**more, checkpoint_dir=tmp_path / "a").fit(X, Y)
    whole = make(**more).fit(X, Y)
    assert torch.equal(weights(taken_up), weights(whole))
    assert whole.statement_.mechanism == taken_up.statement_.mechanism
    one_layer = options.get("clipping") == "per-layer"  # is one group
    assert torch.equal(weights(whole), weights(make(noise_seed=4, random_state=1).fit(X, Y))) == one_layer


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clipping": "hard"}, "clipping must be"),
        ({"clipping": QuantileClipping}, "clipping must be"),
        ({"schedule": "step"}, "schedule must be"),
        ({"schedule": 3}, "schedule must be"),
        ({"averaging": "all"}, "averaging must be"),
        ({"averaging": 0.5}, "averaging must be"),
        ({"mechanism": "shuffle-all"}, "mechanism must be"),
        ({"mechanism": BandedFTRL}, "mechanism must be"),
        ({"clipping": QuantileClipping(count_noise=0.1)}, "count_noise must be more than half"),
    ],
)
def test_what_cannot_be_meant_is_refused(change, words):
    with pytest.raises(InvalidInputError, match=words):
        make(**change).fit(X, Y)
