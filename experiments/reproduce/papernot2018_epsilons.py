"""PATE 2018, table 1: epsilon and number of answers of Confident-GNMax, from the published votes.

    PATE_DATA_HOME=... python experiments/reproduce/papernot2018_epsilons.py

The paper's epsilon is an expectation over the test's noise, in one direction (Theorem 6, the older conversion), and
depends on the votes. Beside it stand what the exact law proves of the same votes, in both directions, and what may be
published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from _table import Figure, main, or_why_not
from _votes import published_counts

from pate import ConfidentGNMax, GNMax, Votes, account
from pate.data import load_votes
from pate.privacy.convert import rdp_to_epsilon
from pate.privacy.papernot import PAPER_ORDERS, expected_confident_rdp, log_answer_probability

NAME = "papernot2018_epsilons"
TITLE = "PATE 2018, table 1: epsilons of the published votes"
_TABLE_1 = "Papernot et al. 2018, table 1"
_OWN = "measured here"
_NO_VOTES = "their votes are not part of this project; see docs/reproduction.md for where they are"
_CHOICE = "which queries were asked was not published: this is the mean over all that have votes"


@dataclass(frozen=True)
class Case:
    """A row of table 1, with the number of queries of the paper's generate_table.sh."""

    threshold: float
    sigma_threshold: float
    sigma: float
    n_queries: int
    delta: float = 1e-5


@dataclass(frozen=True)
class Config:
    """The cases, and the figures."""

    mnist: Case = Case(200.0, 150.0, 40.0, 640)
    svhn: Case = Case(300.0, 200.0, 40.0, 8500, 1e-6)
    adult: Case = Case(300.0, 200.0, 40.0, 1500)
    seeds: tuple[int, ...] = (0,)
    figures: tuple[Figure, ...] = (
        Figure("mnist", "MNIST: epsilon, as the paper computes it", _TABLE_1, 1.97, 0.03, _CHOICE),
        Figure("mnist answers", "MNIST: expected answers to 640 queries", _TABLE_1, 286, 3, _CHOICE),
        Figure("mnist first", "MNIST: epsilon of the first 640 queries, as the paper computes it", _OWN),
        Figure("mnist exact", "MNIST, first 640: epsilon of the exact law, refusals included, both directions", _OWN,
               why="tighter, and also for the direction that the paper leaves out"),
        Figure("mnist public", "MNIST, 640 queries, at most 286 answers: epsilon that may be published", _OWN,
               why="the worst case over all votes"),
        Figure("mnist gnmax", "MNIST, first 640, all answered (GNMax, sigma 40): epsilon, likewise", _OWN,
               why="what the threshold test saves"),
        Figure("svhn", "SVHN: epsilon, as the paper computes it", _TABLE_1, 4.96, 0.05, _NO_VOTES),
        Figure("svhn answers", "SVHN: expected answers to 8,500 queries", _TABLE_1, 3098, 30, _NO_VOTES),
        Figure("adult", "Adult: epsilon, as the paper computes it", _TABLE_1, 1.90, 0.03, _NO_VOTES),
        Figure("adult answers", "Adult: expected answers to 1,500 queries", _TABLE_1, 524, 6, _NO_VOTES),
    )  # fmt: skip


SMOKE = replace(Config(), mnist=Case(200.0, 150.0, 40.0, 20))


def as_published(counts, case):
    """Return epsilon and answers of as many queries as the case has, at the mean cost of these."""
    each = expected_confident_rdp(counts, case.threshold, case.sigma_threshold, case.sigma)
    yes, _ = log_answer_probability(counts, case.threshold, case.sigma_threshold)
    curve = case.n_queries * each.mean(axis=0)
    epsilon, _ = rdp_to_epsilon(curve, case.delta, orders=PAPER_ORDERS, conversion="mironov")
    return float(epsilon), case.n_queries * float(np.exp(yes).mean())


def of_mnist(case, n_answers):
    """Return all that is measured on the MNIST votes."""
    counts = load_votes("papernot_mnist").counts
    first = Votes.from_counts(counts[: case.n_queries])
    mechanism = ConfidentGNMax(threshold=case.threshold, sigma_threshold=case.sigma_threshold, sigma=case.sigma)
    report = account(first, mechanism, delta=case.delta, max_answers=min(n_answers, case.n_queries))
    everything = account(first, GNMax(sigma=case.sigma), delta=case.delta)
    epsilon, answers = as_published(counts, case)
    return {
        "mnist": epsilon,
        "mnist answers": answers,
        "mnist first": report.papernot2018.reveal().epsilon,
        "mnist exact": report.data_dependent.reveal().epsilon,
        "mnist public": report.public.epsilon,
        "mnist gnmax": everything.papernot2018.reveal().epsilon,
    }


def measure(config, seed):
    figures = {f.key: f for f in config.figures}
    n_answers = round(figures["mnist answers"].published)
    found = or_why_not(lambda: of_mnist(config.mnist, n_answers), *(k for k in figures if k.startswith("mnist")))
    for name, case in (("svhn", config.svhn), ("adult", config.adult)):

        def published(name=name, case=case):
            epsilon, answers = as_published(published_counts(f"{name}_250_teachers"), case)
            return {name: epsilon, f"{name} answers": answers}

        found |= or_why_not(published, name, f"{name} answers")
    return found


if __name__ == "__main__":
    main(NAME, TITLE, Config(), SMOKE, measure, __doc__)
