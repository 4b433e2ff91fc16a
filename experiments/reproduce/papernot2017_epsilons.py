"""PATE 2017: the epsilons of its students, from the published votes, by the paper's moments and by composition alone.

    PATE_DATA_HOME=... python experiments/reproduce/papernot2017_epsilons.py

The paper says noise Lap(1/gamma) with 1/gamma = 20. Its script (analysis.py) takes gamma = 0.1, twice that, and so
Lap(10): the published epsilons are those. Both are given here; the labels themselves were drawn with Lap(20).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from _table import Figure, main, or_why_not
from _votes import published_counts

from pate.data import load_dataset, load_votes
from pate.privacy.papernot import laplace_moments

NAME = "papernot2017_epsilons"
TITLE = "PATE 2017: epsilons of the published votes"
_TABLE = "Papernot et al. 2017, table of utility and privacy of the students"
_OWN = "measured here"
_SVHN = "on the votes of the 2018 archive: whether they are those of 2017 is not known here"


@dataclass(frozen=True)
class Config:
    """What analysis.py does.

    Attributes
    ----------
    scale, scale_in_text : float
        1/gamma of the script, and of the paper's text; a query is (2 gamma)-differentially private.
    n_moments : int
        Moments 1 to 8 ("moments" in the script).
    draws : int
        Of 1,000 queries at random: which ones the student of 8.03 asked was not published.
    """

    scale: float = 10.0
    scale_in_text: float = 20.0
    delta: float = 1e-5
    delta_svhn: float = 1e-6
    n_moments: int = 8
    n_few: int = 100
    n_svhn_few: int = 500
    n_many: int = 1000
    draws: int = 200
    seeds: tuple[int, ...] = (0,)
    figures: tuple[Figure, ...] = (
        Figure("few", "MNIST, 100 queries: epsilon by moments, Lap(10)", _TABLE, 2.04, 0.01,
               "the paper seems to cut off after two digits, not to round"),
        Figure("many", "MNIST, the first 1,000 queries: epsilon by moments, Lap(10)", _TABLE, 8.03, 0.1,
               "what the script does where no indices are given; which 1,000 the student asked was not published"),
        Figure("many random", "MNIST, 1,000 queries at random: the same, mean over choices", _OWN,
               why="the choice of the queries moves epsilon by more than the difference to the paper"),
        Figure("many random sd", "MNIST, 1,000 queries at random: standard deviation over choices", _OWN),
        Figure("few text", "MNIST, 100 queries: epsilon by moments, Lap(20) as in the text", _OWN,
               why="the labels were drawn with this noise"),
        Figure("many text", "MNIST, the first 1,000 queries: the same with Lap(20)", _OWN),
        Figure("few pure", "MNIST, 100 queries: epsilon by composition alone (delta 0), Lap(20)", _OWN,
               why="2 gamma a query: what holds whatever the votes are"),
        Figure("many pure", "MNIST, 1,000 queries: epsilon by composition alone (delta 0), Lap(20)", _OWN),
        Figure("lap20", "MNIST, accuracy of the labels of Lap(20) (%)", "Papernot et al. 2017, section 4.1", 93.18, 0.5,
               "on the 9,000 queries with published votes; theirs on the test set"),
        Figure("svhn few", "SVHN, 500 queries: epsilon by moments, Lap(10)", _TABLE, 5.04, 0.01, _SVHN),
        Figure("svhn many", "SVHN, 1,000 queries: epsilon by moments, Lap(10)", _TABLE, 8.19, 0.01, _SVHN),
    )  # fmt: skip


SMOKE = replace(Config(), draws=2)


def epsilon(moments, n_moments, delta):
    """Return the least epsilon over the moments: (log moment + log 1/delta) / order."""
    orders = np.arange(1, n_moments + 1)
    return float(np.min(moments + math.log(1 / delta) / orders))


def measure(config, seed):
    orders = 1.0 + np.arange(1, config.n_moments + 1)

    def cost(counts, scale):
        # A query's bound over the moment, which is what adds up.
        return laplace_moments(counts, scale, orders)

    def mnist():
        votes = load_votes("papernot_mnist")
        few = votes.student_indices[: config.n_few]
        rng = np.random.default_rng(seed)
        queries = [rng.choice(len(votes.counts), config.n_many, replace=False) for _ in range(config.draws)]
        found = {}
        for name, scale in (("", config.scale), (" text", config.scale_in_text)):
            each = cost(votes.counts, scale)
            found["few" + name] = epsilon(each[few].sum(axis=0), config.n_moments, config.delta)
            found["many" + name] = epsilon(each[: config.n_many].sum(axis=0), config.n_moments, config.delta)
            if not name:
                many = [epsilon(each[q].sum(axis=0), config.n_moments, config.delta) for q in queries]
                found |= {"many random": float(np.mean(many)), "many random sd": float(np.std(many, ddof=1))}
        found["few pure"] = 2 * config.n_few / config.scale_in_text
        found["many pure"] = 2 * config.n_many / config.scale_in_text
        return found

    def labels():
        votes = load_votes("papernot_mnist")
        truth = load_dataset("mnist", protocol="paper").public.y_for_evaluation
        return 100 * float((votes.student_labels == truth).mean())

    def svhn():
        each = cost(published_counts("svhn_250_teachers"), config.scale)
        said = (("svhn few", config.n_svhn_few), ("svhn many", config.n_many))
        return {k: epsilon(each[:n].sum(axis=0), config.n_moments, config.delta_svhn) for k, n in said}

    keys = [f.key for f in config.figures if f.key != "lap20" and not f.key.startswith("svhn")]
    return {
        **or_why_not(mnist, *keys),
        **or_why_not(labels, "lap20"),
        **or_why_not(svhn, "svhn few", "svhn many"),
    }


if __name__ == "__main__":
    main(NAME, TITLE, Config(), SMOKE, measure, __doc__)
