"""Ways in which an audit was once made to say something false: true claims refuted, and faults let pass."""

from functools import partial

import numpy as np
import pytest

from pate import ConfidentGNMax, GNMax, NoisyHistogram, Votes, account, audit
from pate.audit._bounds import curve_test, half_counts, mu_bound, rates_bound
from pate.audit._claims import Claim
from pate.audit._game import MechanismRelease, NoisySum, audit_scores, game, played_as
from pate.audit.laws._subject import Cells
from pate.audit.testing import Numbers
from pate.exceptions import InvalidInputError
from pate.privacy.exact import GaussianNoise
from pate.privacy.exact._given_pair import given_pair


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("flip", [False, True])
def test_coins_of_a_users_generator_are_not_what_breaks_ties(seed, flip):
    coins = (np.random.default_rng(seed).random(1000) > 0.5) ^ flip
    assert not audit.one_run(np.zeros(1000), coins, claim=(0.5, 1e-5), published=True).refuted


@pytest.mark.parametrize("seed", range(4))
def test_discrete_scores_of_a_users_generator_refute_no_true_claim(seed):
    u = np.random.default_rng(seed).random(8000)
    out, in_ = (u[:4000] < 0.5) * 1.0, (u[4000:] < 0.6) * 1.0
    assert curve_test(out, in_, Claim.of((float(np.log(1.3)), 0.0))).p_value > 1e-3


@pytest.mark.long
def test_a_pair_whose_epsilon_no_float_can_show_is_bounded_from_below_by_a_number_it_exceeds():
    low, high = given_pair([[5, 5]] * 2000, [[4, 6]] * 2000, noise=GaussianNoise(0.5)).epsilon(1e-5).epsilon
    assert 600 < low < 7000
    assert high > low
    found = audit.pair([[5, 5]] * 2000, [[4, 6]] * 2000, GNMax(0.5), published=True)
    assert not found.refuted


@pytest.mark.parametrize("sigma", [0.005, 0.01, 0.04, 0.05])
@pytest.mark.parametrize("kind", [GNMax, NoisyHistogram])
def test_hardly_any_noise_is_what_it_claims_to_be(kind, sigma):
    assert not audit.pair([[5, 5]], [[4, 6]], kind(sigma), published=True).refuted


def test_a_claim_of_a_huge_epsilon_is_not_made_smaller():
    claim = Claim.of((2000.0, 0.0))
    assert claim.epsilon(0.0) == claim.epsilon(1e-5) == 2000.0
    assert claim.true_positives([0.0, 1e-9]).tolist() == [1.0, 1.0]
    found = audit.pair([[5, 5]], [[4, 6]], NoisyHistogram(0.04), claim=claim, published=True)
    assert not found.refuted


def test_a_folder_holds_one_release_and_one_score(tmp_path):
    kind = {"claim": Claim.gaussian(1.0), "n_runs": 400, "batch": 100, "published": True, "random_state": 0}
    worlds = np.zeros(1), np.ones(1)
    first = audit.game(NoisySum(1.0), *worlds, checkpoint_dir=tmp_path / "a", **kind)
    again = audit.game(NoisySum(1.0), *worlds, checkpoint_dir=tmp_path / "a", **kind)
    assert first.figures == again.figures
    with pytest.raises(InvalidInputError, match="whose release is another"):
        audit.game(NoisySum(0.05), *worlds, checkpoint_dir=tmp_path / "a", **kind)
    audit.game(NoisySum(0.05), *worlds, score=lambda o: 0 * o[:, 0], checkpoint_dir=tmp_path / "b", **kind)
    with pytest.raises(InvalidInputError, match="whose score is another"):
        audit.game(NoisySum(0.05), *worlds, score=lambda o: o[:, 0], checkpoint_dir=tmp_path / "b", **kind)


def test_releases_are_identified_by_what_they_hold():
    def made(by):
        def release(world, seed):
            return world * by if seed else release(world, 1)

        return release

    def plus(world, seed, by):
        return world + by

    assert played_as(made(2)) == played_as(made(2)) != played_as(made(3))
    assert played_as(partial(plus, by=1)) == played_as(partial(plus, by=1)) != played_as(partial(plus, by=2))
    halved = MechanismRelease(GNMax(4.0), sampler=lambda counts: counts[:, 0] // 2)
    assert played_as(halved) != played_as(MechanismRelease(GNMax(4.0)))
    assert played_as(GNMax.sample) != played_as(NoisyHistogram.sample)


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (0, 2)])
def test_noise_shared_by_any_two_of_three_classes_is_found(pair):
    honest, rng = NoisyHistogram(40.0), np.random.default_rng(0)

    def shared(counts):
        noise = rng.normal(0, 40, counts.shape)
        noise[:, pair[1]] = noise[:, pair[0]]
        return np.round((counts + noise) / honest.grid) * honest.grid

    found = audit.independence(honest, sampler=shared, max_releases=5_000)
    assert found.refuted
    assert "class" in found.finding
    assert not audit.independence(honest, noise_seed=0, max_releases=20_000).refuted


@pytest.mark.parametrize("label", [-2, -1, 2])
def test_a_label_that_the_claim_never_gives_is_no_score(label):
    release = MechanismRelease(GNMax(4.0), sampler=lambda counts: np.full(len(counts), label))
    with pytest.raises(InvalidInputError, match="releases nothing else"):
        audit.game(release, [[5, 5]], [[4, 6]], claim=GNMax(4.0).charge(1), n_runs=40, batch=20)


def test_a_refusal_is_a_score_where_the_claim_refuses():
    release = MechanismRelease(ConfidentGNMax(6.0, 2.0, 4.0), sampler=lambda counts: np.full(len(counts), -1))
    found = audit.game(release, [[5, 5]], [[4, 6]], claim=(1.0, 1e-5), n_runs=40, batch=20, published=True)
    assert not found.refuted


@pytest.mark.parametrize("bad", [[[1.4, -0.4]], [[np.nan, 0.5]], [[0.0, 0.0]]])
def test_what_is_no_law_is_not_bet_on(bad):
    law = np.array([[0.7, 0.3]])
    none, other = Cells(("coin",), law, {"bad": np.array(bad)}), Cells(("coin",), law, {"bad": law})
    for tallies in ([[20, 0]], [[0, 20]], [[14, 6]]):
        assert none.log_e(np.array(tallies))[0] == pytest.approx(other.log_e(np.array(tallies))[0])


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_law_of_numbers_without_a_scale_is_refused(scale):
    with pytest.raises(InvalidInputError, match="the claimed law must have a finite scale"):
        audit.law(lambda counts: Numbers(counts * 1.0, scale), sampler=lambda counts: counts * 1.0, bank=[[5, 5]])


@pytest.mark.parametrize("seed", [-1, "x", 1.5])
def test_a_seed_that_is_none_is_named(seed):
    with pytest.raises(InvalidInputError, match="random_state must be a whole number >= 0"):
        audit.game(NoisySum(1.0), np.zeros(1), np.ones(1), claim=(1.0, 1e-5), n_runs=10, random_state=seed)


def test_bounds_hold_where_they_are_next_to_nothing():
    rng = np.random.default_rng(3)
    out, in_ = rng.normal(size=300), rng.normal(0.2, 1, 300)
    p = curve_test(out, in_, Claim.gaussian(1e-9)).p_value
    assert 0 <= mu_bound(out, in_, level=1 - p * (1 + 1e-9)) < 1e-2
    assert half_counts(out, in_, delta=0.0)[1] == 150


@pytest.mark.parametrize(
    ("release", "worlds"),
    [(NoisySum(1.0), (np.zeros(1), np.ones(3))), (MechanismRelease(GNMax(2.0)), ([[5, 5]], [[4, 6], [5, 5]]))],
)
def test_worlds_of_two_shapes_are_refused(release, worlds):
    with pytest.raises(InvalidInputError, match="D and D_prime must have one shape"):
        audit.game(release, *worlds, claim=(1.0, 1e-5), n_runs=40)


def test_a_private_claim_makes_a_pair_private():
    votes = np.array([[50, 5]] * 20)
    private = account(Votes.from_counts(votes), GNMax(10.0), delta=1e-5).data_dependent.reveal()
    found = audit.pair(votes, votes + np.array([-1, 1]), GNMax(10.0), claim=private, published=True)
    assert found.sensitive


def test_a_folder_is_looked_at_under_one_claim(tmp_path):
    worlds = np.zeros(2), np.array([1.0, -1.0])
    options = {"n_runs": 100, "batch": 50, "random_state": 0, "published": True, "checkpoint_dir": tmp_path / "game"}
    game(NoisySum(1.0), *worlds, claim=Claim.gaussian(2.0), **options)
    with pytest.raises(InvalidInputError, match="claim is another"):
        game(NoisySum(1.0), *worlds, claim=Claim.gaussian(1.5), **options)
    with pytest.raises(InvalidInputError, match="early_stop is another"):
        game(NoisySum(1.0), *worlds, claim=Claim.gaussian(2.0), early_stop=False, **options)


def test_scores_that_say_nothing_are_named():
    found = audit_scores(np.zeros(50), np.zeros(50), claim=Claim.gaussian(1.0), published=True)
    assert "all scores are equal" in found.finding


@pytest.mark.parametrize("counts", [(1200, 1000, 5, 1000), (-3, 1000, 5, 1000)])
def test_errors_beyond_the_runs_are_refused(counts):
    with pytest.raises(InvalidInputError, match="false_positives"):
        rates_bound(*counts, delta=1e-5)
