"""Next words drawn by teachers' votes: by one public race, by each teacher for itself, and the most probable ones.

    python experiments/coordinated_votes.py            # a quarter of an hour of one core, then the page
    python experiments/coordinated_votes.py --page     # the table of docs/language-models.md from the stored JSON
    python experiments/coordinated_votes.py --smoke    # does it run?

The private notes are made up, so that it is known which words may follow a prompt, and how often. Teachers count words
(scikit-learn, nothing to download). Every prompt is asked under many seeds: what comes out should be drawn from the law
of the notes. A finished row is kept: a killed run goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _tables import Cell, filled, write_page
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from pate import Budget, CoordinatedVoter, GNMax, NoisyHistogram, TeacherEnsemble, Votes, calibrate, release_labels

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "coordinated_votes.json"
PAGE = ROOT / "docs" / "language-models.md"
TABLES = ("gaps", "words")
Array = npt.NDArray[np.float64]

#: How votes are cast.
HOW = {
    "one race": "one public race",
    "apart": "each draws for itself",
    "most probable": "likeliest word",
}
MECHANISMS = {"GNMax": GNMax(1.0), "NoisyHistogram": NoisyHistogram(1.0)}


@dataclass(frozen=True)
class Config:
    """Fixed before anything is drawn."""

    n_teachers: int = 250
    notes_per_shard: int = 120
    n_words: int = 40
    n_symptoms: int = 6
    words_per_symptom: int = 8
    draws: int = 40  # of each prompt, under a seed each
    worlds: tuple[int, ...] = (0, 1, 2)
    epsilons: tuple[float, ...] = (1.0, 3.0)
    delta: float = 1e-5
    #: Dirichlet concentrations about a law of 20 of 50 words; None: all teachers alike.
    concentrations: tuple[float | None, ...] = (None, 50.0, 10.0)
    n_gaps: int = 200


SMOKE = Config(n_teachers=12, notes_per_shard=40, n_symptoms=2, draws=3, worlds=(0,), epsilons=(50.0,), n_gaps=3)


# ---- how far votes agree, for distributions that are made up ----


def first_over_second(counts: npt.NDArray[Any]) -> int:
    first = np.sort(counts)
    return int(first[-1] - first[-2])


def gaps(config: Config, concentration: float | None) -> dict[str, Any]:
    """Return the median lead of the first word over the second, drawn by one race and apart."""
    rng, race, apart = np.random.default_rng(0), [], []
    for seed in range(config.n_gaps):
        law = rng.dirichlet(np.ones(20))
        shape = (config.n_teachers, 1)
        some = np.tile(law, shape) if concentration is None else rng.dirichlet(concentration * law, config.n_teachers)
        odds = np.hstack([some, np.zeros((config.n_teachers, 30))])
        votes = CoordinatedVoter([_says(p) for p in odds], classes=range(50), seed=seed).vote([[0.0]])
        race.append(first_over_second(votes.counts[0]))
        apart.append(first_over_second(_each_for_itself(odds[:, None], rng)[0]))
    return {"race": float(np.median(race)), "apart": float(np.median(apart))}


def _says(p: Array) -> Any:
    return lambda rows: np.tile(p, (len(rows), 1))


def _each_for_itself(odds: Array, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return counts, shape (n_rows, n_words), of votes that each teacher draws with numbers of its own."""
    drawn = (rng.random((*odds.shape[:2], 1)) > np.cumsum(odds, axis=2)).sum(axis=2).clip(0, odds.shape[2] - 1)
    return np.array([np.bincount(column, minlength=odds.shape[2]) for column in drawn.T])


# ---- notes, and teachers that count their words ----


@dataclass(frozen=True)
class World:
    """Made-up notes: a word (a drug, say) follows a symptom with the probabilities ``law``."""

    law: Array  # (n_symptoms, n_words)
    prompts: list[str]
    ensemble: TeacherEnsemble


@cache
def world(config: Config, seed: int) -> World:
    """Return the notes' law, public prompts, and teachers of a shard of notes each."""
    rng = np.random.default_rng(seed)
    law = np.zeros((config.n_symptoms, config.n_words))
    for row in law:
        row[rng.choice(config.n_words, config.words_per_symptom, replace=False)] = rng.dirichlet(
            np.full(config.words_per_symptom, 2.0)
        )
    n = config.n_teachers * config.notes_per_shard
    symptoms = rng.integers(config.n_symptoms, size=n)
    words = [int(rng.choice(config.n_words, p=law[s])) for s in symptoms]
    notes = [f"note {i}: symptom{s}, given" for i, s in enumerate(symptoms)]
    counts = make_pipeline(CountVectorizer(token_pattern=r"symptom\d+"), MultinomialNB(alpha=0.05))
    teachers = TeacherEnsemble(counts, config.n_teachers, classes=range(config.n_words), random_state=seed)
    prompts = [f"symptom{s}, given" for s in range(config.n_symptoms)]
    return World(law, prompts, teachers.fit(notes, words, X_public=prompts))


@cache
def votes_on(config: Config, seed: int, how: str) -> list[Votes]:
    """Return the votes on all prompts, once for every draw."""
    at, rng = world(config, seed), np.random.default_rng([seed, 1])
    if how == "one race":
        return [CoordinatedVoter(at.ensemble, seed=1_000 * seed + i).vote(at.prompts) for i in range(config.draws)]
    if how == "most probable":
        return [at.ensemble.vote(at.prompts)] * config.draws
    odds = np.zeros((config.n_teachers, config.n_symptoms, config.n_words))
    for i, model in enumerate(at.ensemble.teachers_):
        odds[i][:, model.classes_] = model.predict_proba(at.prompts)
    return [Votes.from_counts(_each_for_itself(odds, rng)) for _ in range(config.draws)]


def words(config: Config, seed: int, how: str, epsilon: float, mechanism: str) -> dict[str, Any]:
    """Release a word for every prompt and draw, and hold them against the law of the notes."""
    at, cast = world(config, seed), votes_on(config, seed, how)
    asked = Votes.from_counts(np.vstack([votes.counts for votes in cast]), n_teachers=config.n_teachers)
    budget = Budget(epsilon, config.delta)
    noisy = calibrate(MECHANISMS[mechanism], budget, n_queries=asked.n_queries)
    labels = release_labels(asked, noisy, budget=budget).labels.astype(int).reshape(config.draws, config.n_symptoms)
    shares = np.array([[np.bincount(column, minlength=config.n_words)] for column in labels.T]) / config.draws
    rng = np.random.default_rng([seed, 2])
    fresh = np.array([rng.multinomial(config.draws, law, size=200) for law in at.law]) / config.draws
    law = at.law[:, None]
    return {
        "sigma": noisy.sigma,
        "queries": asked.n_queries,
        "gap": float(np.median([first_over_second(row) for row in asked.counts])),
        "possible": float(np.where(law > 0, shares, 0).sum(axis=2).mean()),
        **{
            f"{name}{of}": float(found.mean())
            for of, drawn in (("", shares), (" of fresh draws", fresh))
            for name, found in (
                ("distance", abs(drawn - law).sum(axis=2) / 2),
                ("different", ((drawn > 0) & (law > 0)).sum(axis=2)),
            )
        },
    }


def cells(config: Config) -> Iterator[Cell]:
    for concentration in config.concentrations:
        yield "gaps", {"concentration": concentration}, lambda c=concentration: gaps(config, c)
    for seed in config.worlds:
        for epsilon in config.epsilons:
            for mechanism in MECHANISMS:
                for how in HOW:
                    key = {"world": seed, "epsilon": epsilon, "mechanism": mechanism, "how": how}
                    yield "words", key, lambda k=key: words(config, k["world"], k["how"], k["epsilon"], k["mechanism"])


# ---- the page ----

#: What a row says, and how it is written; all but the last three of each mechanism.
_OF_BOTH = {
    "sigma": ".0f", "possible": ".0%", "distance": ".2f", "different": ".1f",
    "gap": ".0f", "distance of fresh draws": ".2f", "different of fresh draws": ".1f",
}  # fmt: skip


def gap_table(results: dict[str, Any]) -> str:
    lines = ["| teachers' distributions | one race | apart |", "|---|---|---|"]
    for row in results["gaps"]:
        c = row["concentration"]
        said = "all alike" if c is None else f"Dirichlet, concentration {c:g}"
        lines.append(f"| {said} | {row['race']:.0f} | {row['apart']:.0f} |")
    return "\n".join(lines)


def word_table(results: dict[str, Any]) -> str:
    """Return means over worlds, a line for each way of voting; of both mechanisms where they differ."""
    lines = ["| epsilon (sigma) | votes | lead | possible | distance | seen |", "|---" * 6 + "|"]
    mean: dict[str, float] = {}
    for epsilon in results["config"]["epsilons"]:
        for how, said in HOW.items():
            alike = [row for row in results["words"] if (row["epsilon"], row["how"]) == (epsilon, how)]
            if not alike:
                continue
            of = [alike, *([row for row in alike if row["mechanism"] == name] for name in MECHANISMS)]
            mean, *both = [{k: float(np.mean([row[k] for row in rows])) for k in _OF_BOTH} for rows in of]
            figures = {k: "/".join(format(one[k], f) for one in both) for k, f in _OF_BOTH.items()}
            lines.append(
                f"| {epsilon:g} ({figures['sigma']}) | {said} | {mean['gap']:.0f} | {figures['possible']} "
                f"| {figures['distance']} | {figures['different']} |"
            )
    fresh = f"| {mean['distance of fresh draws']:.2f} | {mean['different of fresh draws']:.1f} |"
    lines.append(f"| no noise | the notes' law itself | | 100% {fresh}")
    return "\n".join(lines)


def publish(results: dict[str, Any], page: Path) -> None:
    write_page(page, "words", word_table(results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="does it run? Nothing is written")
    parser.add_argument("--page", action="store_true", help="the page's tables from the stored JSON")
    asked = parser.parse_args()
    if asked.smoke:
        made = filled(SMOKE, TABLES, cells(SMOKE), None)
        print(gap_table(made), word_table(made), sep="\n\n")
        return
    config = Config()
    publish(filled(config, TABLES, () if asked.page else cells(config), RESULT), PAGE)


if __name__ == "__main__":
    main()
