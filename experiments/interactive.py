"""What are offsets of Confident-GNMax's test worth? On the 2018 paper's own MNIST votes, at public costs.

    PATE_DATA_HOME=... python experiments/interactive.py          # two minutes of one core; goes on where it was ended
    PATE_DATA_HOME=... python experiments/interactive.py --page   # the tables of docs/defaults.md from the stored JSON
    PATE_DATA_HOME=... python experiments/interactive.py --smoke  # does it run?

*Classes*: how unequal are the shares of queries answered by true class, and what do offsets do about it? Exact
expectations, no draws. The offsets "by the votes" are found from the private votes, which a curator may not do for
free: they show what is reachable. Those "by released counts" come from noisy histograms of a few queries, whose price
is stated.

*Interactive*: Confident-GNMax against Interactive-GNMax (Papernot et al. 2018, algorithm 2) at one public price: as
many queries asked, as many answers at most, the same noise; and noisy counts at the same epsilon, of which those with a
small margin are left out. A student (logistic regression on principal components of the public pixels) learns from the
labels, reinforced ones too, and is scored on images that nobody was asked about. Queries are random rows, or spread
over the public rows by clusters, which is what PATEClassifier does. The settings of each method are the best of a grid,
chosen by the student's accuracy over some seeds and measured on others: a favour to all, and a larger one to those with
more settings. The paper's own epsilon of the same runs (Theorem 6, expected costs, one direction, the sum along the
path that was taken) stands beside: private, and no guarantee for an adaptive run.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from _tables import filled, write_page
from scipy.special import ndtr
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from pate import Budget, ConfidentGNMax, NoisyHistogram, Votes, calibrate, load_dataset, open_session
from pate.data import load_votes
from pate.data.queries import select_queries
from pate.models.students import fit_student
from pate.privacy.convert import rdp_to_epsilon
from pate.privacy.exact import GaussianNoise, ThresholdTest, log_probs
from pate.privacy.papernot import PAPER_ORDERS, log_q_gaussian, rdp_bound
from pate.release import label_interactively, release_labels

ROOT = Path(__file__).resolve().parents[1]
RESULT, PAGE = ROOT / "experiments" / "results" / "interactive.json", ROOT / "docs" / "defaults.md"
SETTING = ("n", "cap", "share", "ratio", "later", "gap")
TABLES = ("classes", "runs", "chosen")
METHODS = ("Confident-GNMax", "Interactive-GNMax", "noisy counts")


@dataclass(frozen=True)
class Config:
    """Everything that decides the tables."""

    threshold: float = 200.0
    sigma_threshold: float = 60.0
    sigma: float = 40.0
    n_counted: int = 300
    sigma_counted: float = 64.0
    draws: int = 4
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0)
    delta: float = 1e-5
    queries: tuple[str, ...] = ("random", "auto")
    n_queries: tuple[int, ...] = (100, 300)
    caps: tuple[float, ...] = (0.4,)
    thresholds: tuple[float, ...] = (0.6, 0.8)
    ratios: tuple[float, ...] = (2.0,)
    later: tuple[float, ...] = (0.2, 0.4)
    n_counts: tuple[int, ...] = (50, 100, 200)
    gaps: tuple[float, ...] = (0.0, 0.12, 0.24, 0.36)
    n_rounds: int = 4
    sure: float = 0.9
    components: int = 50
    n_scored: int = 1000
    seeds: tuple[int, ...] = (0, 1, 2)
    fresh_seeds: tuple[int, ...] = tuple(range(10, 24))


SMOKE = replace(Config(), draws=1, epsilons=(2.0,), n_queries=(100,), caps=(0.5,), thresholds=(0.6,), ratios=(2.0,),
                later=(0.4,), seeds=(0,), fresh_seeds=(10,))  # fmt: skip


# Offsets by class.


def rates(counts, groups, offsets, config):
    """Return the share of queries answered by group, and over all."""
    test = ThresholdTest(config.threshold, config.sigma_threshold, tuple(map(float, offsets)))
    passed = np.exp(test.log_answer(test.top(counts)))
    return np.array([passed[groups == j].mean() for j in range(counts.shape[1])]), float(passed.mean())


def equalised(counts, groups, config):
    """Return offsets, in whole votes, by which every group is answered as often as all are without offsets."""
    offsets = np.zeros(counts.shape[1])
    _, wanted = rates(counts, groups, offsets, config)
    for _ in range(300):
        found, _ = rates(counts, groups, offsets, config)
        offsets += config.sigma_threshold * (found - wanted)
    return np.round(offsets)


def by_class(counts, y, config):
    """Return rates by true class, and accuracy of answers, with offsets of several origins."""
    none = np.zeros(counts.shape[1])

    def row(name, offsets, where, **more):
        each, overall = rates(counts[where], y[where], offsets, config)
        test = ThresholdTest(config.threshold, config.sigma_threshold, tuple(map(float, offsets)))
        joint = np.exp(log_probs(counts[where], noise=GaussianNoise(config.sigma), threshold=test))
        right = joint[np.arange(len(joint)), y[where]].sum() / joint[:, :-1].sum()
        passed = 1 - joint[:, -1]
        agreed = float(passed @ (counts[where].argmax(axis=1) == y[where]) / passed.sum())
        return {"offsets": name, "least": float(each.min()), "most": float(each.max()), "answered": overall,
                "accuracy": float(right),
                "plurality right": agreed, "values": [float(c) for c in offsets], **more}  # fmt: skip

    everyone = np.arange(len(counts))
    yield "none", lambda: row("none", none, everyone)
    yield "by the votes", lambda: row("by the votes", equalised(counts, y, config), everyone)

    def released():
        rows = []
        price = NoisyHistogram(config.sigma_counted).charge(config.n_counted).guarantee(config.delta)
        for draw in range(config.draws):
            order = np.random.default_rng(draw).permutation(len(counts))
            some, rest = order[: config.n_counted], np.sort(order[config.n_counted :])
            told = release_labels(
                Votes.from_counts(counts[some]),
                NoisyHistogram(config.sigma_counted),
                budget=Budget(price.epsilon * 1.001, config.delta),
                noise_seed=draw,
            )
            offsets = equalised(told.noisy_counts, told.labels, config)
            rows.append(row("by released counts", offsets, rest))
        mean = {key: float(np.mean([r[key] for r in rows])) for key in rows[0] if isinstance(rows[0][key], float)}
        return {"offsets": "by released counts", **mean, "values": [], "epsilon": price.epsilon}

    yield "by released counts", released


# Interactive-GNMax.


class World:
    """Votes, images and labels, in which a run is one random order of the queries."""

    def __init__(self, config):
        counts = load_votes("papernot_mnist").counts
        images, self.y = rows_voted_on(len(counts))
        self.counts, self.config = counts, config
        self.z = PCA(config.components, random_state=0).fit_transform(images)
        self.z /= self.z.std()
        self.scored = np.arange(len(counts) - config.n_scored, len(counts))
        self.n_asked = len(counts) - config.n_scored

    def asked(self, queries, n_queries, seed):
        """Return the rows to ask about, in the order in which they are asked."""
        found = select_queries(self.z[: self.n_asked], n_queries, strategy=queries, random_state=seed, one_scale=True)
        return np.random.default_rng(seed).permutation(found)

    def run(self, mechanism, queries, n_queries, cap, epsilon, seed, later):
        """Return what one run released, and how good its student is."""
        config, k = self.config, int(self.counts[0].sum())
        asked = self.asked(queries, n_queries, seed)
        votes, seen = Votes.from_counts(self.counts[asked]), self.z[asked]
        budget = Budget(epsilon, config.delta)
        session = open_session(mechanism, n_queries=n_queries, n_teachers=k, classes=10, budget=budget,
                               max_answers=cap, noise_seed=seed)  # fmt: skip
        used = np.zeros(self.counts[asked].shape)
        rounds = np.array_split(np.arange(len(asked)), config.n_rounds)
        begun = []

        def learn(labels):
            fitted = fit_student(LogisticRegression(max_iter=500), seen, labels, random_state=0)
            p = np.zeros(used.shape)
            p[:, np.asarray(fitted.classes_)] = fitted.predict_proba(seen)
            begun.append(rounds[len(begun) + 1])
            used[begun[-1]] = k * p[begun[-1]] - (mechanism.threshold - later)
            return p

        n_rounds = 1 if later is None else config.n_rounds
        found = label_interactively(session, votes, learn, n_rounds=n_rounds, later_threshold=later, sure=config.sure)
        truth, tried = self.y[asked], found.status != "not asked"
        return {
            "answered": found.n_answered,
            "reinforced": int(found.reinforced.sum()),
            "right": float((found.labels == truth)[found.answered].mean()) if found.n_answered else 1.0,
            "reinforced right": float((found.labels == truth)[found.reinforced].sum()),
            "accuracy": self.score(seen, found.labels),
            "as published": as_published(self.counts[asked][tried], used[tried], mechanism, config.delta),
        }

    def by_counts(self, n_queries, gap, queries, epsilon, seed):
        """Return the same of noisy counts, of which those are kept whose margin is at least ``gap`` of the votes."""
        asked, budget = self.asked(queries, n_queries, seed), Budget(epsilon, self.config.delta)
        mechanism = calibrate(NoisyHistogram(1.0), budget, n_queries=n_queries)
        counts = self.counts[asked]
        found = release_labels(Votes.from_counts(counts), mechanism, budget=budget, noise_seed=seed)
        found = found.decide(gap=gap * int(counts[0].sum()))
        right = (found.labels == self.y[asked])[found.answered]
        return {
            "answered": found.n_answered,
            "reinforced": 0,
            "right": float(right.mean()) if found.n_answered else 1.0,
            "reinforced right": 0.0,
            "accuracy": self.score(self.z[asked], found.labels),
        }

    def score(self, seen, labels):
        """Return how often a student of these labels is right on rows that nobody was asked about."""
        student = fit_student(LogisticRegression(max_iter=500), seen, labels, random_state=0)
        return float((student.predict(self.z[self.scored]) == self.y[self.scored]).mean())


def rows_voted_on(n):
    """Return the first images of MNIST's test part, which the votes are about, and their labels."""
    public = load_dataset("mnist", protocol="paper", n_public=n).public
    return np.asarray(public.X, dtype=np.float64).reshape(n, -1), np.asarray(public.y_for_evaluation)


def as_published(counts, offsets, mechanism, delta):
    """Return the paper's epsilon of these queries, with these offsets: expected costs, one direction."""
    if not len(counts):
        return 0.0
    h = ((counts - offsets).max(axis=1) - mechanism.threshold) / mechanism.sigma_threshold
    yes, no = ndtr(h), ndtr(-h)
    answer = rdp_bound(log_q_gaussian(counts, mechanism.sigma), mechanism.sigma, PAPER_ORDERS)
    with np.errstate(divide="ignore"):
        test = rdp_bound(np.log(np.minimum(yes, no)), np.sqrt(2) * mechanism.sigma_threshold, PAPER_ORDERS)
    curve = (yes[:, None] * answer + test).sum(axis=0)
    return float(rdp_to_epsilon(curve, delta, orders=PAPER_ORDERS, conversion="mironov")[0])


def settings(config, method):
    """Yield the settings that a method may choose from."""
    if method == METHODS[2]:
        yield from ({"n": n, "gap": gap} for n, gap in product(config.n_counts, config.gaps))
        return
    for n, cap, share, ratio in product(config.n_queries, config.caps, config.thresholds, config.ratios):
        for later in (None,) if method == METHODS[0] else config.later:
            yield {"n": n, "cap": round(cap * n), "share": share, "ratio": ratio, "later": later}


def mean_of(world, epsilon, queries, setting, seeds):
    """Return the means over seeds of one setting."""
    if "gap" in setting:
        found = [world.by_counts(setting["n"], setting["gap"], queries, epsilon, seed) for seed in seeds]
        mean = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
        return {**mean, "accuracies": [f["accuracy"] for f in found]}
    k = int(world.counts[0].sum())
    shape = ConfidentGNMax(setting["share"] * k, setting["ratio"], 1.0)
    budget = Budget(epsilon, world.config.delta)
    mechanism = calibrate(shape, budget, n_queries=setting["n"], max_answers=setting["cap"])
    later = None if setting["later"] is None else setting["later"] * k
    found = [world.run(mechanism, queries, setting["n"], setting["cap"], epsilon, seed, later) for seed in seeds]
    mean = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
    return {"sigma": mechanism.sigma, **mean, "accuracies": [f["accuracy"] for f in found]}


def cells(config, world):
    """Yield what is to be measured, in order."""
    counts = load_votes("papernot_mnist").counts
    for name, measure in by_class(counts, rows_voted_on(len(counts))[1], config):
        yield "classes", {"offsets": name}, measure
    for epsilon, queries, method in product(config.epsilons, config.queries, METHODS):
        for setting in settings(config, method):
            key = {"epsilon": epsilon, "queries": queries, "method": method, **setting}
            yield "runs", key, lambda e=epsilon, q=queries, s=setting: mean_of(world, e, q, s, config.seeds)


def best_of(config, world, runs):
    """Yield the best setting of each method, on seeds that it was not chosen by."""
    for epsilon, queries, method in product(config.epsilons, config.queries, METHODS):
        key = {"epsilon": epsilon, "queries": queries, "method": method}

        def measure(key=key):
            best = max((r for r in runs if key.items() <= r.items()), key=lambda r: r["accuracy"])
            setting = {name: best[name] for name in SETTING if name in best}
            return setting | mean_of(world, key["epsilon"], key["queries"], setting, config.fresh_seeds)

        yield "chosen", key, measure


# The page.


def page(result):
    """Return both tables."""
    lines = [
        "| offsets | answered, worst class | best class | worst / best | over all | votes right, if passed | right |",
        "|---|---|---|---|---|---|---|",
    ]
    said = {"by released counts": "by released counts (epsilon {:.3g})"}
    for r in result["classes"]:
        name = said.get(r["offsets"], r["offsets"]).format(r.get("epsilon", 0.0))
        least, most, over_all = (f"{r[key]:.3f}" for key in ("least", "most", "answered"))
        right = " | ".join(f"{r[key]:.4f}" for key in ("plurality right", "accuracy"))
        lines.append(f"| {name} | {least} | {most} | {r['least'] / r['most']:.2f} | {over_all} | {right} |")
    lines += [
        "",
        "| epsilon | queries | method | asked, most answers | answered (right) | reinforced (right) | student (gain) | "
        "as the paper counts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    names = {"random": "at random", "auto": "spread over the public rows"}
    order = list(names)
    for r in sorted(
        result["chosen"], key=lambda r: (r["epsilon"], order.index(r["queries"]), METHODS.index(r["method"]))
    ):
        own = f"{r['reinforced']:.0f} ({r['reinforced right'] / r['reinforced']:.0%})" if r["reinforced"] else ""
        asked = f"{r['n']}, {r.get('cap', r['n'])}"
        theirs = f"{r['as published']:.2f}" if "as published" in r else ""
        alike = {"epsilon": r["epsilon"], "queries": r["queries"], "method": METHODS[0]}
        plain = next(s for s in result["chosen"] if alike.items() <= s.items())
        gain = np.subtract(r["accuracies"], plain["accuracies"])
        more = f", {gain.mean():+.3f} +- {gain.std(ddof=1) / len(gain) ** 0.5:.3f}" if r is not plain else ""
        told = f"{r['answered']:.0f} ({r['right']:.0%}) | {own} | {r['accuracy']:.3f}{more}"
        lines.append(f"| {r['epsilon']:g} | {names[r['queries']]} | {r['method']} | {asked} | {told} | {theirs} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        write_page(PAGE, "interactive", page(json.loads(RESULT.read_text(encoding="utf-8"))))
        return
    config, result = (SMOKE, None) if given.smoke else (Config(), RESULT)
    world = World(config)
    runs = filled(config, TABLES, cells(config, world), result)
    best = filled(config, TABLES, best_of(config, world, runs["runs"]), result)
    print(page({**runs, "chosen": best["chosen"]}))


if __name__ == "__main__":
    main()
