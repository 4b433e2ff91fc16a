"""The published analyses, reproduced on the published votes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from papernot_smooth import (
    gnmax_local_sensitivity,
    papernot2018_conditions,
    papernot2018_smooth,
    threshold_local_sensitivity,
)
from scipy import special

from pate import ConfidentGNMax, GNMax, LNMax, NoisyHistogram, SensitiveValueError, Votes, account
from pate.exceptions import InvalidInputError
from pate.privacy import papernot, rdp_to_epsilon

CONFIDENT = ConfidentGNMax(threshold=200, sigma_threshold=150, sigma=40)


def test_confident_gnmax_on_the_2018_votes(mnist2018_counts):
    """Papernot et al. 2018, Table 1 (MNIST): the figures of the published analysis."""
    votes = Votes.from_counts(mnist2018_counts[:640], n_teachers=250)
    report = account(votes, CONFIDENT, delta=1e-5, pld=False)
    answers = report.expected_answers.reveal()
    assert answers == pytest.approx(282.7, abs=0.05)
    assert report.papernot2018.reveal().epsilon == pytest.approx(1.9988, abs=5e-5)
    # the same bound with the newer conversion: what the published analysis could have said, in one direction
    curve = papernot.expected_confident_rdp(votes.counts, 200.0, 150.0, 40.0).sum(axis=0)
    with_cks, _ = rdp_to_epsilon(curve, 1e-5, orders=papernot.PAPER_ORDERS, conversion="cks")
    assert with_cks == pytest.approx(1.7119, abs=5e-5)
    assert report.data_dependent.reveal().epsilon < 0.9293 < with_cks
    # a comparison figure only: the expected number of answers depends on the votes
    from pate.privacy import gdp_to_epsilon

    assert gdp_to_epsilon((640 / 150**2 + 2 * answers / 40**2) ** 0.5, 1e-5) == pytest.approx(2.527, abs=5e-4)


@pytest.mark.long
def test_public_epsilon_does_not_depend_on_the_votes(mnist2018_counts):
    rng = np.random.default_rng(0)
    other = rng.multinomial(250, np.full(10, 0.1), size=640)
    for mechanism in (CONFIDENT, GNMax(sigma=40.0), LNMax(scale=20.0), NoisyHistogram(sigma=40.0)):
        a = account(Votes.from_counts(mnist2018_counts[:640]), mechanism, delta=1e-5, pld=False).public
        b = account(Votes.from_counts(other), mechanism, delta=1e-5, pld=False).public
        assert a == b


def test_histogram_data_dependent_cost_is_its_public_one():
    report = account(Votes.from_counts([[240, 10]] * 7), NoisyHistogram(sigma=40.0), delta=1e-5)
    assert report.data_dependent.reveal().epsilon == report.public.epsilon
    assert report.papernot2018 is None


@given(
    st.lists(st.integers(0, 250), min_size=2, max_size=8).filter(lambda c: sum(c) > 0),
    st.sampled_from([5.0, 20.0, 40.0, 100.0]),
)
def test_the_2018_bound_never_exceeds_the_public_one(counts, sigma):
    orders = np.array([1.5, 2, 4, 8, 32])
    bound = papernot.rdp_bound(papernot.log_q_gaussian([counts], sigma), sigma, orders)
    assert (bound >= 0).all()
    assert (bound <= orders / sigma**2 * (1 + 1e-12)).all()


def test_q_bounds_the_true_probability():
    """Proposition 7 against simulation: q is above the measured frequency of another winner."""
    rng = np.random.default_rng(1)
    counts = np.array([[60, 50, 20, 0], [90, 10, 10, 10], [40, 40, 30, 20]])
    noisy = counts[:, None, :] + rng.normal(0, 20, (3, 200_000, 4))
    wrong = (noisy.argmax(axis=2) != counts.argmax(axis=1)[:, None]).mean(axis=1)
    assert (np.exp(papernot.log_q_gaussian(counts, 20.0)) >= wrong - 4e-3).all()
    noisy = counts[:, None, :] + rng.laplace(0, 20, (3, 200_000, 4))
    wrong = (noisy.argmax(axis=2) != counts.argmax(axis=1)[:, None]).mean(axis=1)
    assert (np.exp(papernot.log_q_laplace(counts, 20.0)) >= wrong - 4e-3).all()


def test_golden_forward_divergences_lie_below_theorem_6(data_home):
    """The exact forward divergence (golden numbers computed elsewhere) never exceeds the 2018 bound."""
    import json

    path = data_home.parent / "golden_dev.json"
    if not path.exists():
        pytest.skip("golden_dev.json is not beside PATE_DATA_HOME")
    golden = json.loads(path.read_text())
    checked = 0
    for row in golden["per_query"]:
        bound = papernot.rdp_bound(
            papernot.log_q_gaussian([row["counts"]], row["sigma"]), row["sigma"], golden["orders"]
        )[0]
        assert (np.array(row["forward"]) <= bound * (1 + 1e-9)).all()
        checked += 1
    assert checked > 5


def by_the_formulas(counts, threshold, sigma1, sigma2, delta):
    """Epsilon and expected answers query by query, as smooth_sensitivity_table.py of the 2018 paper defines them."""
    orders = np.concatenate([np.arange(2, 101, 0.5), np.logspace(2, np.log10(500), 100)])

    def cost(log_q, sigma):  # Theorem 6 and Proposition 10
        public, mu2 = orders / sigma**2, sigma * math.sqrt(-log_q)
        mu1 = mu2 + 1
        if mu2 <= 1:
            return public
        limit = (mu2 - 1) * mu2 / sigma**2 - mu2 * (math.log(mu1 / (mu1 - 1)) + math.log(mu2 / (mu2 - 1)))
        if log_q > limit or -log_q <= mu2 / sigma**2:
            return public
        kept = math.log1p(-math.exp(log_q))
        a = kept - math.log1p(-math.exp((log_q + mu2 / sigma**2) * (1 - 1 / mu2)))
        b = mu1 / sigma**2 - log_q / (mu1 - 1)
        bound = np.logaddexp(kept + (orders - 1) * a, log_q + (orders - 1) * b) / (orders - 1)
        return np.where(orders < mu1, np.minimum(bound, public), public)

    total, answers = np.zeros(len(orders)), 0.0
    for row in counts:
        gaps = row.max() - np.delete(row, row.argmax())
        q = min(special.ndtr(-gaps / (math.sqrt(2) * sigma2)).sum(), 1 - 1 / len(row))  # Proposition 7
        answered = special.ndtr((row.max() - threshold) / sigma1)
        test = cost(math.log(min(answered, 1 - answered)), math.sqrt(2) * sigma1)
        total += test + answered * cost(math.log(q), sigma2)
        answers += answered
    return float(np.min(total - math.log(delta) / (orders - 1))), answers


@pytest.mark.parametrize(("n_classes", "threshold"), [(2, 300.0), (2, 200.0), (10, 200.0)])
def test_the_published_script_by_its_formulas(n_classes, threshold):
    """At two classes and a threshold that no count reaches too: the settings of Adult in table 1."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(n_classes, 0.25), 300)
    counts = rng.multinomial(250, 0.9 * shares + 0.1 / n_classes)
    want, answers = by_the_formulas(counts, threshold, 200.0, 40.0, 1e-5)
    mechanism = ConfidentGNMax(threshold=threshold, sigma_threshold=200, sigma=40)
    report = account(Votes.from_counts(counts), mechanism, delta=1e-5, pld=False)
    assert report.papernot2018.reveal().epsilon == pytest.approx(want, rel=1e-12)
    assert report.expected_answers.reveal() == pytest.approx(answers, rel=1e-12)
    assert want < 0.9 * rdp_to_epsilon(mechanism.public_rdp(papernot.PAPER_ORDERS) * 300, 1e-5,
                                       orders=papernot.PAPER_ORDERS)[0]  # fmt: skip


def test_sensitive_numbers_do_not_get_out(mnist2018_counts):
    import copy
    import json
    import pickle

    report = account(Votes.from_counts(mnist2018_counts[:50]), CONFIDENT, delta=1e-5)
    secret = report.data_dependent
    number = f"{secret.reveal().epsilon:.4g}"
    for text in (repr(report), str(report), repr(secret), f"{secret}", f"{secret!s:>40}"):
        assert number not in text
    attempts = (
        lambda: secret < 1,
        lambda: secret == secret,
        lambda: bool(secret),
        lambda: float(secret),
        lambda: hash(secret),
        lambda: pickle.dumps(secret),
        lambda: copy.deepcopy(secret),
        lambda: json.dumps({"epsilon": secret}),
        lambda: secret.reveal().to_dict(),
    )
    for attempt in attempts:
        with pytest.raises((SensitiveValueError, TypeError)):
            attempt()
    assert secret.reveal().to_dict(include_sensitive=True)["kind"] == "data-dependent"


@pytest.mark.parametrize("bad", [-1.0, 0.0, float("nan"), float("inf"), "40", True])
def test_noise_that_is_no_noise_is_refused(bad):
    votes = [[200, 50]]
    calls = [
        lambda: papernot.log_q_gaussian(votes, bad),
        lambda: papernot.rdp_bound([-5.0], bad, [2.0]),
        lambda: papernot.log_answer_probability(votes, 200.0, bad),
        lambda: papernot.expected_confident_rdp(votes, 200.0, bad, 40.0),
        lambda: papernot.expected_confident_rdp(votes, 200.0, 150.0, bad),
        lambda: papernot.log_q_laplace(votes, bad),
        lambda: papernot.laplace_moments(votes, bad, [2.0]),
        lambda: gnmax_local_sensitivity(votes, bad, 4.0),
        lambda: threshold_local_sensitivity(votes, 250, 200.0, bad, 4.0),
        lambda: papernot2018_smooth(votes, bad, order=8.0, beta=0.01, delta=1e-5),
        lambda: papernot2018_conditions(bad, 8.0, 10),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match=r"sigma|scale"):
            call()


@pytest.mark.parametrize(
    "bad", [[[250, float("nan")]], [[250, -1]], [250, 0], [[250]], [["a secret", "b"]], [[250, 1j]]]
)
def test_votes_that_are_no_votes_are_refused_and_not_quoted(bad):
    calls = [
        lambda: papernot.log_q_gaussian(bad, 40.0),
        lambda: papernot.log_q_laplace(bad, 40.0),
        lambda: papernot.log_answer_probability(bad, 200.0, 150.0),
        lambda: papernot.laplace_moments(bad, 20.0, [2.0]),
        lambda: gnmax_local_sensitivity(bad, 40.0, 4.0),
        lambda: papernot2018_smooth(bad, 40.0, order=8.0, beta=0.01, delta=1e-5),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match="counts must be") as caught:
            call()
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None


def test_other_parameters_of_the_papers_are_checked():
    with pytest.raises(InvalidInputError, match="log_q"):
        papernot.rdp_bound([0.1], 40.0, [2.0])
    with pytest.raises(InvalidInputError, match="log_q"):
        papernot.rdp_bound([float("nan")], 40.0, [2.0])
    with pytest.raises(InvalidInputError, match="threshold"):
        papernot.log_answer_probability([[200, 50]], float("nan"), 150.0)
    with pytest.raises(InvalidInputError, match="belong together"):
        papernot2018_smooth([[200, 50]], 40.0, order=8.0, beta=0.01, delta=1e-5, threshold=200.0)
    with pytest.raises(InvalidInputError, match="beta"):
        papernot2018_smooth([[200, 50]], 40.0, order=8.0, beta=float("nan"), delta=1e-5)
    with pytest.raises(InvalidInputError, match="sum to the number of teachers"):
        gnmax_local_sensitivity([[200, 50], [200, 51]], 40.0, 4.0)
