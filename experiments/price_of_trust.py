"""What not trusting each other costs institutions, and what they gain by voting together all the same.

    PATE_DATA_HOME=... python experiments/price_of_trust.py     # resumes; an hour and more of one core
    python experiments/price_of_trust.py --data adult --seeds 2 # some of it
    python experiments/price_of_trust.py --page                 # the pages' tables and picture from the stored result
    python experiments/price_of_trust.py --smoke                # does it run?

Record voters, delta 1e-5, replace-one. "votes": k sites vote together, and any t of them may put together what they
know: epsilon is the coalition's. "alone": every site for itself, with the same public rows and the same epsilon, by
record voters or by DP-SGD, both with their defaults.

No network is needed for the accuracy of the first, and nothing is approximated by leaving it out. The sum of the
sites' ballots is that of all records, whoever holds them, and each of k sites adds noise of variance s^2 / (k - t),
where s is what the epsilon takes: the k - t sites that tell nobody their noise add s^2 together, and what is really
there has k / (k - t) times that variance. So the numbers that are opened have the law of those of one curator at the
smaller mu sqrt((k - t) / k), and what follows from them (the rule that chooses the recipe too, which sees the noise
that is there) is that curator's at the smaller epsilon. t = 0 is the curator's own run: splitting noise costs nothing.
Sums of discrete shares differ from the Gaussian by less than any of these figures shows.

MNIST and Adult are dealt to the sites at random. Diabetes 130 is cut by `admission_source_id`, codes with fewer than
1,000 rows making one site; that column is no feature. There the unit is a person: at one site (c = 1: their records at
another one are another unit), or at up to c = 2 sites that all of them declare, which takes half of the mu. MNIST has
one set of public images and one representation of them for all seeds, and the head of the ballots is the model: the
network that it would teach takes a quarter of an hour a fit.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _price_of_trust_page import DETAILS, PAGE, TIMES, of_engine, of_whole_institutions, picture, summary, tables
from _tables import Cell, filled, taken, write_page
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from pate import Budget, DPSGDClassifier, PATEClassifier, Queries, load_dataset
from pate.models.recipes import RecordsPlan, choose, fitted_representation
from pate.privacy.convert import gdp_from_budget, gdp_to_epsilon
from pate.release import ReleaseTerms
from pate.report.plots import figure_to_png
from pate.representations import FromTransformer, load

RESULT = Path(__file__).with_name("results") / "price_of_trust.json"
WORK = Path(__file__).parents[1] / "runs" / "price_of_trust"
SITE = "admission_source_id"


@dataclass(frozen=True)
class Config:
    """Everything that is fixed before a private row is looked at."""

    sites: tuple[tuple[str, tuple[int, ...]], ...] = (("adult", (10, 20)), ("diabetes130", (7,)), ("mnist", (10, 20)))
    n_public: tuple[tuple[str, int | None], ...] = (("adult", 8_000), ("diabetes130", None), ("mnist", 9_000))
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    delta: float = 1e-5
    seeds: int = 5
    fewest: int = 1_000


@dataclass(frozen=True)
class Held:
    """Private records with the site and the person of each, public rows, and test rows with their sites."""

    name: str
    X: Any
    y: Any
    X_public: Any
    X_test: Any
    y_test: Any
    n_classes: int
    persons: Any = None
    sites: Any = None
    test_sites: Any = None

    def dealt(self, k: int, seed: int) -> tuple[Any, Any]:
        """Return the site of each private and of each test record; a test record of no site has -1."""
        if self.sites is not None:
            return self.sites, self.test_sites
        order = np.random.default_rng([seed, k]).permutation(len(self.y))
        places = np.empty(len(self.y), dtype=np.int64)
        places[order] = np.arange(len(self.y)) % k
        return places, np.full(len(self.y_test), -1)

    def units(self, at_one_site: bool) -> Any:
        """Return the unit of each record; None: the record."""
        if self.persons is None or not at_one_site:
            return self.persons
        return self.persons * (self.sites.max() + 1) + self.sites


@lru_cache(maxsize=2)
def held(name: str, n_public: int | None, seed: int, fewest: int) -> Held:
    """Return a data set as its sites hold it."""
    data = load_dataset(name, random_state=0 if name == "mnist" else seed, n_public=n_public)
    parts, more = [data.private.X, data.public.X, data.test.X], {}
    if name == "mnist":
        parts = _represented(parts)
    if name == "diabetes130":
        codes = [part[SITE].astype(str).to_numpy() for part in parts]
        known = Counter(np.concatenate(codes).tolist())
        own = sorted(code for code, rows in known.items() if rows >= fewest)
        places = [np.array([own.index(c) if c in own else len(own) for c in found]) for found in codes]
        parts = [part.drop(columns=SITE) for part in parts]
        _, persons = np.unique(np.asarray(data.private.groups), return_inverse=True)
        more = {"persons": persons, "sites": places[0], "test_sites": places[2]}
    X, X_public, X_test = parts
    return Held(name, X, data.private.y, X_public, X_test, data.test.y, len(data.classes), **more)


def _represented(parts: list[Any]) -> list[Any]:
    """Return images in the default representation of the public ones, fitted and computed once."""
    file, kept = WORK / "mnist.safetensors", WORK / "mnist.npz"
    if not kept.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            fitted_representation("image", parts[1], image_shape=(28, 28), random_state=0).save(file)
        rep = load(file)
        cut = [np.concatenate([rep.transform(X[i : i + 1024]) for i in range(0, len(X), 1024)]) for X in parts]
        np.savez(kept, *[z.astype(np.float32) for z in cut])
    with np.load(kept) as found:
        return [found[f"arr_{i}"] for i in range(len(parts))]


def _without_network(facts: Any) -> Any:
    """Return pate's recipe, whose head has the whole budget and teaches no network."""
    recipe = choose(facts)
    own = [r for r in recipe.rounds if not r.of_student]
    whole = sum(r.share for r in own)
    return replace(recipe, student=None, rounds=tuple(replace(r, share=r.share / whole) for r in own))


def voted(data: Held, rows: Any, budget: Budget, groups: Any, seed: int) -> Any:
    """Return what record voters of these private rows answer on the test rows."""
    X, y, classes = taken(data.X, rows), data.y[rows], range(data.n_classes)
    if data.name == "mnist":
        plan = RecordsPlan.of(
            ReleaseTerms(budget=budget, noise_seed=seed), data.X_public, classes=tuple(classes), n_units=len(y),
            unit="record", kind="glyph", representation=FromTransformer(FunctionTransformer()).fit(data.X_public),
            rule=_without_network, random_state=0, force=True,
        )  # fmt: skip
        return plan.run(X, y)[1].predict(data.X_test)
    clf = PATEClassifier(
        budget=budget, classes=classes, random_state=seed, noise_seed=seed, queries=Queries(force=True)
    )
    return clf.fit(X, y, X_public=data.X_public, groups=groups).predict(data.X_test)


def learnt(data: Held, rows: Any, budget: Budget, groups: Any, seed: int) -> Any:
    """Return what a model by DP-SGD of these private rows answers on the test rows."""
    clf = DPSGDClassifier(budget=budget, classes=range(data.n_classes), random_state=seed, noise_seed=seed)
    clf.fit(taken(data.X, rows), data.y[rows], X_public=data.X_public, groups=groups)
    return clf.predict(data.X_test)


@lru_cache
def together(name: str, n_public: int | None, seed: int, epsilon: float, at_one_site: bool, config: Config) -> float:
    """Return the accuracy of one curator's run at this epsilon."""
    data = held(name, n_public, seed, config.fewest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for curators of private tables
        found = voted(
            data, np.arange(len(data.y)), Budget(epsilon, config.delta), data.units(at_one_site), 1_000 + seed
        )
    return round(float((found == data.y_test).mean()), 5)


def of_votes(data: str, k: int, t: int, c: int, epsilon: float, seed: int, config: Config) -> dict[str, Any]:
    """Return the accuracy of k sites' votes, of which t put together what they know; k = 1 is one curator."""
    mu = gdp_from_budget(epsilon, config.delta)
    present = epsilon if (t, c) == (0, 1) else gdp_to_epsilon(mu * math.sqrt((k - t) / k) / c, config.delta)
    accuracy = together(data, dict(config.n_public)[data], seed, present, k > 1, config)
    outsider = epsilon if t == 0 else gdp_to_epsilon(mu * math.sqrt((k - t) / k), config.delta)
    return {"accuracy": accuracy, "times": round(math.sqrt(k / (k - t)) * c, 4), "outsider": round(outsider, 4)}


def of_one_alone(data: str, k: int, by: str, epsilon: float, seed: int, config: Config) -> dict[str, Any]:
    """Return the accuracy of each site's own model: on all test rows, and each on the test rows of its site."""
    own = held(data, dict(config.n_public)[data], seed, config.fewest)
    places, test_places = own.dealt(k, seed)
    on_all, right = [], np.zeros(len(own.y_test), dtype=bool)
    for site in range(k):
        rows = np.flatnonzero(places == site)
        groups = None if own.persons is None else own.persons[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method = {"records": voted, "dpsgd": learnt}[by]
            found = method(own, rows, Budget(epsilon, config.delta), groups, 10_000 * (seed + 1) + 100 * k + site)
        on_all.append(round(float((found == own.y_test).mean()), 5))
        mine = test_places == site
        right[mine] = (found == own.y_test)[mine]
    at_home = round(float(right.mean()), 5) if (test_places >= 0).all() else round(float(np.mean(on_all)), 5)
    return {"accuracy": round(float(np.mean(on_all)), 5), "at_home": at_home, "by_site": on_all}


def facts_of(data: str, k: int, config: Config) -> dict[str, Any]:
    """Return what the table says of the data and the sites of the first seed."""
    own = held(data, dict(config.n_public)[data], 0, config.fewest)
    places, _ = own.dealt(k, 0)
    sizes = np.bincount(places, minlength=k).tolist()
    found = {"private": len(own.y), "public": len(own.X_public), "test": len(own.y_test), "sites": sizes,
             "commonest": round(float(np.bincount(own.y_test).max() / len(own.y_test)), 4)}  # fmt: skip
    if own.persons is not None:
        stays = set(zip(own.persons.tolist(), places.tolist(), strict=True))
        seen = Counter(Counter(person for person, _ in stays).values())
        found["persons_at"] = {str(n): seen[n] for n in sorted(seen)}
    return found


def of_institutions(k: int, sigma: float, seed: int, n_queries: int, config: Config) -> dict[str, Any]:
    """Return the accuracy of one vote of each of k institutions under noise, and what it costs an institution.

    Any of them may vote for another class on every query: that moves two counts by one each.
    """
    data = load_dataset("optdigits", random_state=seed)
    parts = np.array_split(np.random.default_rng([seed, k]).permutation(len(data.private.y)), k)
    votes = np.zeros((len(data.test.y), len(data.classes)))
    for rows in parts:
        model = LogisticRegression(max_iter=200).fit(data.private.X[rows], data.private.y[rows])
        votes[np.arange(len(votes)), model.predict(data.test.X)] += 1
    noise = np.random.default_rng([seed, 7]).normal(size=votes.shape)
    right = [(np.argmax(votes + scale * noise, axis=1) == data.test.y).mean() for scale in (0.0, sigma)]
    epsilon = gdp_to_epsilon(math.sqrt(2 * n_queries) / sigma, config.delta)
    return {"noiseless": round(float(right[0]), 4), "accuracy": round(float(right[1]), 4), "epsilon": round(epsilon, 2)}


def coalitions(k: int) -> list[int]:
    """Return the t that are shown: none, one, three, and the most below half."""
    return sorted({0, 1, 3, (k - 1) // 2})


def cells(config: Config) -> Iterator[Cell]:
    """Yield what is to be measured."""
    for data, ks in config.sites:
        for k in ks:
            yield "facts", {"data": data, "k": k}, partial(facts_of, data, k, config)
    for k, sigma, seed in product((10, 20), (3.0, 10.0, 30.0), range(config.seeds)):
        key = {"data": "optdigits", "k": k, "sigma": sigma, "seed": seed, "n_queries": 50}
        asked = {name: key[name] for name in ("k", "sigma", "seed", "n_queries")}
        yield "institutions", key, partial(of_institutions, **asked, config=config)
    for (data, ks), seed in product(config.sites, range(config.seeds)):
        runs = [(1, 0, 1), *((k, t, 1) for k in ks for t in coalitions(k))]
        if data == "diabetes130":
            runs.append((ks[0], coalitions(ks[0])[-1], 2))
        for epsilon in config.epsilons:
            for k, t, c in runs:
                key = {"data": data, "k": k, "t": t, "c": c, "epsilon": epsilon, "seed": seed}
                yield "votes", key, partial(of_votes, **key, config=config)
            for k, by in product(ks[:1] if data == "mnist" else ks, ("records", "dpsgd")):
                key = {"data": data, "k": k, "by": by, "epsilon": epsilon, "seed": seed}
                yield "alone", key, partial(of_one_alone, **key, config=config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="tables and picture from the stored result alone")
    parser.add_argument("--smoke", action="store_true", help="does it run?")
    parser.add_argument("--data", nargs="+", help="these data sets alone")
    parser.add_argument("--seeds", type=int, default=5, help="the first so many seeds alone")
    parser.add_argument("--epsilons", nargs="+", type=float, help="these alone")
    given, config = parser.parse_args(), Config()
    if given.smoke:
        config = Config(sites=(("pendigits", (10,)),), n_public=(("pendigits", 500),), epsilons=(3.0,), seeds=1)
    if given.page:
        told = json.loads(RESULT.read_text(encoding="utf-8"))
    else:
        todo = (
            cell for cell in cells(config)
            if cell[0] == "institutions" or (
                (not given.data or cell[1]["data"] in given.data) and cell[1].get("seed", 0) < given.seeds
                and (not given.epsilons or cell[1].get("epsilon", given.epsilons[0]) in given.epsilons)
            )
        )  # fmt: skip
        told = filled(config, ("facts", "institutions", "votes", "alone"), todo, None if given.smoke else RESULT)
    print(tables(told))
    if not given.smoke:
        write_page(PAGE, "price", summary(told))
        write_page(DETAILS, "institutions", of_whole_institutions(told))
        if TIMES.exists():
            write_page(DETAILS, "costs", of_engine(json.loads(TIMES.read_text(encoding="utf-8"))))
        (PAGE.parent / "images" / "price_of_trust.png").write_bytes(figure_to_png(picture(told), dpi=110))


if __name__ == "__main__":
    main()
