"""Games: runs, storage, early stopping and results."""

from __future__ import annotations

import json
import math
import os
import runpy
import signal
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.naive_bayes import GaussianNB

from pate.audit import Claim, game
from pate.audit._game import MechanismRelease, NoisySum, Plan, analyses, audit_scores
from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.mechanisms import ConfidentGNMax, GNMax, LNMax, NoisyHistogram
from pate.privacy.words import Guarantee

ZERO, ONE = np.zeros(1), np.ones(1)


def noisy(world, seed):
    """A release of one run at a time: a value and something that says nothing."""
    rng = np.random.default_rng(seed)
    return {"value": float(world + rng.normal()), "beside": rng.normal()}


def value(output):
    return output["value"]


def test_too_little_noise_is_refuted_early_and_enough_is_not():
    weak = game(
        NoisySum(0.5), ZERO, ONE, claim=Claim.gaussian(1.0), n_runs=2000, batch=250, random_state=0, published=True
    )
    assert weak.refuted
    assert weak.settings["runs looked at"] < 2000
    assert weak.n_releases < 4000
    assert weak["lower bound on mu"].value > 1.0
    assert "where the claim allows at most" in weak.finding
    honest = game(
        NoisySum(1.0), ZERO, ONE, claim=Claim.gaussian(1.0), n_runs=500, batch=250, random_state=0, published=True
    )
    assert not honest.refuted
    assert honest["lower bound on mu"].value <= 1.0
    assert honest.settings["runs looked at"] == 500
    assert honest.n_releases == 1000


@pytest.mark.long
def test_a_true_claim_is_refuted_no_more_often_than_promised_however_often_it_is_looked_at():
    found = 0
    for seed in range(25):
        made = game(
            NoisySum(1.0),
            ZERO,
            ONE,
            claim=Claim.gaussian(1.0),
            n_runs=100,
            batch=100,
            random_state=seed,
            false_alarms=0.2,
        )
        found += made.refuted
    assert found <= binom.isf(1e-5, 25, 0.2)


def test_the_alarms_of_all_looks_add_up():
    for n in (1, 24, 25, 26, 60, 1000, 4000):
        times, shares = zip(*analyses(n), strict=True)
        assert sum(shares) == pytest.approx(1.0)
        assert times[-1] == n
        assert list(times) == sorted(set(times))


def test_a_score_is_a_likelihood_a_function_or_a_classifier():
    claim = Claim.gaussian(0.5)
    own = game(noisy, 0.0, 2.0, claim=claim, score=value, n_runs=400, random_state=1)
    assert own.refuted
    assert "function of the user (value)" in own.tried
    learnt = game(NoisySum(0.5), ZERO, ONE, claim=claim, score=GaussianNB(), n_runs=600, batch=100, random_state=1)
    assert learnt.refuted
    assert learnt.settings["runs for training the score"] == 300
    assert learnt.settings["runs looked at"] <= 300
    with pytest.raises(InvalidInputError, match="log_ratio"):
        game(noisy, 0.0, 2.0, claim=claim, n_runs=10)
    with pytest.raises(InvalidInputError, match="one number per run"):
        game(noisy, 0.0, 2.0, claim=claim, score=lambda output: math.nan, n_runs=10)
    with pytest.raises(InvalidInputError, match="score must be"):
        game(noisy, 0.0, 2.0, claim=claim, score=3, n_runs=10)


def test_a_classifier_that_overfits_refutes_no_true_claim():
    """Its training runs say nothing else: noise in fifty columns, learnt by heart."""

    def release(world, seed, size):
        return np.random.default_rng(seed).normal(size=(size, 50))

    from sklearn.tree import DecisionTreeClassifier

    p = [
        game(release, 0, 1, claim=(1e-3, 1e-5), score=DecisionTreeClassifier(), n_runs=100, batch=100, random_state=s)
        for s in range(8)
    ]
    assert min(found["p-value of the claimed curve"].value for found in p) > 1e-3


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "mechanism",
    [GNMax(2.0), LNMax(2.0), ConfidentGNMax(threshold=8, sigma_threshold=2.0, sigma=2.0), NoisyHistogram(2.0)],
)
def test_every_mechanism_is_played_against_its_own_charge(mechanism):
    D, D_prime = [[5, 5, 0], [6, 3, 1]], [[4, 6, 0], [5, 4, 1]]
    release = MechanismRelease(mechanism)
    made = game(release, D, D_prime, claim=mechanism.charge(2), n_runs=1000, batch=500, random_state=3, published=True)
    assert not made.refuted
    # The log likelihood ratio has mean 1 under D once exponentiated, whatever is released.
    ratio = release.log_ratio(release(D, 9, 20_000), D, D_prime)
    assert np.exp(ratio).mean() == pytest.approx(1.0, abs=5 * np.exp(ratio).std() / math.sqrt(20_000))


def test_another_librarys_sampler_is_played():
    def sampler(counts):
        rng = np.random.default_rng(sampler.seed)
        sampler.seed += 1
        return (counts + rng.normal(0, 0.5, counts.shape)).argmax(axis=1)

    sampler.seed = 0
    release = MechanismRelease(GNMax(2.0), sampler=sampler)
    D, D_prime = [[2, 2]] * 10, [[1, 3]] * 10
    assert game(release, D, D_prime, claim=GNMax(2.0).charge(10), n_runs=500, batch=100, random_state=0).refuted
    with pytest.raises(InvalidInputError, match="one outcome for each"):
        game(
            MechanismRelease(GNMax(2.0), sampler=lambda counts: [0]), D, D_prime, claim=(1.0, 1e-5), n_runs=10, batch=10
        )
    with pytest.raises(InvalidInputError, match="whose laws are known"):
        MechanismRelease(NoisySum(1.0))


@pytest.mark.long
def test_workers_and_folders_change_nothing(tmp_path):
    how = {"claim": Claim.gaussian(1.0), "score": value, "n_runs": 60, "random_state": 5, "published": True}
    alone = game(noisy, 0.0, 1.0, **how)
    for more in ({"n_jobs": 2}, {"checkpoint_dir": tmp_path / "game"}, {"checkpoint_dir": tmp_path / "game"}):
        assert game(noisy, 0.0, 1.0, **how, **more).figures == alone.figures
    # Stopped while workers are at it.
    early = {**how, "claim": Claim.gaussian(0.01), "n_runs": 400}
    assert game(noisy, 0.0, 4.0, **early, n_jobs=2).figures == game(noisy, 0.0, 4.0, **early).figures
    assert stat.S_IMODE(os.stat(tmp_path / "game").st_mode) == 0o700
    assert all(stat.S_IMODE(os.stat(file).st_mode) == 0o600 for file in (tmp_path / "game").iterdir())


@pytest.mark.long
def test_a_game_goes_on_where_it_was_killed(tmp_path):
    folder = tmp_path / "game"
    script = tmp_path / "play.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, signal
            import numpy as np
            from pate.audit import Claim, game

            calls = []

            def release(world, seed):
                calls.append(seed)
                if os.environ.get("KILLED") and len(os.listdir({str(folder)!r})) > 4:
                    os.kill(os.getpid(), signal.SIGKILL)
                return world + np.random.default_rng(seed).normal()

            if __name__ == "__main__":
                game(release, 0.0, 1.0, claim=Claim.gaussian(1.0), score=float, n_runs=80,
                     checkpoint_dir={str(folder)!r})
            """
        ),
        encoding="utf-8",
    )
    killed = subprocess.run([sys.executable, str(script)], check=False, env={**os.environ, "KILLED": "1"})
    assert killed.returncode == -signal.SIGKILL
    assert sorted(file.name for file in folder.iterdir())[0] == "game.json"
    assert len(list(folder.iterdir())) == 5

    again = runpy.run_path(str(script))
    release, calls = again["release"], again["calls"]
    how = {"claim": Claim.gaussian(1.0), "score": float, "n_runs": 80}
    resumed = game(release, 0.0, 1.0, **how, checkpoint_dir=folder)
    assert len(calls) == 2 * 40  # four blocks of ten were there
    seed = json.loads((folder / "game.json").read_text(encoding="utf-8"))["seed"]
    assert game(release, 0.0, 1.0, **how, random_state=seed).figures == resumed.figures


def test_a_folder_holds_one_game(tmp_path):
    how = {"claim": (5.0, 1e-5), "score": value}
    game(noisy, 0.0, 1.0, n_runs=20, checkpoint_dir=tmp_path / "g", **how)
    for change in ({"n_runs": 30}, {"n_runs": 20, "random_state": 1}, {"n_runs": 20, "batch": 5}):
        with pytest.raises(InvalidInputError, match="is another"):
            game(noisy, 0.0, 1.0, checkpoint_dir=tmp_path / "g", **{**how, **change})
    with pytest.raises(InvalidInputError, match="worlds is another"):
        game(noisy, 0.0, 2.0, n_runs=20, checkpoint_dir=tmp_path / "g", **how)
    (tmp_path / "g" / "runs-000000010.npz").write_bytes(b"torn")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        game(noisy, 0.0, 1.0, n_runs=20, checkpoint_dir=tmp_path / "g", **how)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(InvalidInputError, match="no game"):
        game(noisy, 0.0, 1.0, n_runs=20, checkpoint_dir=tmp_path / "other", **how)
    (tmp_path / "g" / "game.json").write_text('{"schema": "pate-game-1", "seed": NaN}')
    with pytest.raises(InvalidInputError, match=r"game\.json.* cannot be read"):
        game(noisy, 0.0, 1.0, n_runs=20, checkpoint_dir=tmp_path / "g", **how)


def test_runs_share_no_seed():
    plan = Plan(3000, 10, False, 0)
    seeds = {plan.seed_of(world, run) for world in (0, 1) for run in range(3000)}
    assert len(seeds) == 6000
    assert max(seeds) < 2**63


def test_what_is_said_of_private_data_is_kept_in():
    made = game(noisy, 0.0, 3.0, claim=Claim.gaussian(0.1), score=value, n_runs=100, random_state=0)
    assert made.refuted
    assert made.sensitive
    assert "%" not in repr(made)
    with pytest.raises(SensitiveValueError):
        made.to_dict()
    cited = made.cited()
    # When it stopped is private too.
    assert cited["stood"] is False
    assert "up to 100" in cited["tried"]
    assert str(made.n_releases) not in str(cited)
    private = Guarantee(epsilon=0.111, delta=1e-5, kind="data-dependent", method="pld")
    private_claim = audit_scores([0.0, 1.0], [1.0, 1.0], claim=private, published=True)
    assert private_claim.sensitive
    assert "111" not in str(private_claim.cited())


def test_the_picture_is_the_roc_under_the_claims_curve():
    rng = np.random.default_rng(0)
    made = audit_scores(rng.normal(size=400), rng.normal(2, 1, 400), claim=Claim.gaussian(2.0), published=True)
    attack, claim, _ = made.picture.curves
    assert made.picture.scale == "log"
    assert min(attack.x) > 0
    assert list(attack.x) == sorted(attack.x)
    allowed = np.interp(attack.x, claim.x, claim.y)
    assert (np.array(attack.low) <= allowed + 1e-3).mean() > 0.9
    assert all(low <= y <= high for low, y, high in zip(attack.low, attack.y, attack.high, strict=True))
    assert type(made).from_dict(made.to_dict()) == made
    assert made.rows()[0]["layer"] == "game"


def test_a_bound_by_a_gaussian_curve_is_an_estimate_where_the_claim_is_none():
    scores = [0.0, 1.0, 2.0], [1.0, 2.0, 3.0]
    assert audit_scores(*scores, claim=(1.0, 1e-5))["epsilon of that mu"].estimate
    assert not audit_scores(*scores, claim=Claim.gaussian(1.0))["epsilon of that mu"].estimate
    assert audit_scores(*scores, claim=Claim.gaussian(1.0))["epsilon, Bayesian interval"].estimate


@pytest.mark.parametrize(
    "bad",
    [{"n_runs": 3}, {"n_runs": 2.5}, {"batch": 0}, {"false_alarms": 0}, {"level": 1.0}, {"delta": 0.0}, {"claim": 1}],
)
def test_bad_settings_are_refused_before_any_run(bad):
    with pytest.raises(InvalidInputError):
        game(NoisySum(1.0), ZERO, ONE, **{"claim": (1.0, 1e-5), "n_runs": 10, "random_state": 0, "batch": 10, **bad})
    with pytest.raises(InvalidInputError, match="release must be"):
        game(3, ZERO, ONE, claim=(1.0, 1e-5))
