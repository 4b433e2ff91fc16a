"""Faults of charging: refusals, random numbers of answers, equal costs, and stopping on what is private."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from planted_accounting import ASKED, GNMAX, TIE, TIE_PRIME
from wall import Mutant
from wall_looks import DELTA, by_check, by_pair, by_replay

from pate import Accountant, Budget, Charge, ConfidentGNMax, Ledger, Votes, release_labels
from pate.data import recognised_by
from pate.exceptions import PateError
from pate.ledger import Registration, _ledger, _verify
from pate.ledger._chain import canonical, key_path
from pate.privacy.exact import GaussianNoise, per_teacher_rdp, vote_groups
from pate.privacy.words import Guarantee

SURE, SURE_PRIME = [250, 0], [249, 1]


class RefusalsAreFree(ConfidentGNMax):
    """Only what is answered is charged."""

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        _, answered = self._asked(n_queries, max_answers)
        return Charge.gaussian_argmax(self.sigma) * answered


class ExpectedAnswers(ConfidentGNMax):
    """As many answers are charged as queries are expected to pass, one in five."""

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        asked, answered = self._asked(n_queries, max_answers)
        return super().charge(asked, answered // 5)


class EqualCostsMerged(Accountant):
    """Steps are kept by their cost: two of one cost become one."""

    def close(self) -> Charge:
        self._closed = True
        return Charge.total({cost: count for _, cost, count in self._steps}.items())


def _two_releases(accountant: Accountant) -> Guarantee:
    half = GNMAX.charge(ASKED // 2)
    return accountant.add(half).add(half).guarantee(DELTA)


# ---- stopping on what is private: a row of X holds one teacher's votes ----

N_CLASSES = 10
BUDGET = Budget(50.0, DELTA)
#: Between the exact losses of one query at 126 to 124 and at 125 to 125, order 8.
LIMIT, ORDER = 3.170e-3, 8.0
LATER = 20


def teachers(seed: int) -> tuple[np.ndarray, np.ndarray, None]:
    """250 teachers: 126 say 0 and 124 say 1; in later queries the former say 2, the latter 3."""
    first = np.repeat([0, 1], [126, 124])
    return np.column_stack([first, *[first + 2] * LATER]), np.zeros(250, dtype=np.int64), None


def one_switches(data: tuple[Any, ...]) -> tuple[Any, ...]:
    X, y, groups = data
    X = X.copy()
    X[0, 0] = 1
    return X, y, groups


def _votes(labels: np.ndarray) -> Votes:
    return Votes.from_labels(labels, classes=range(N_CLASSES))


def _released(labels: np.ndarray) -> np.ndarray:
    return release_labels(_votes(labels), GNMAX, budget=BUDGET).labels


def everybody(X, y, groups=None):
    """The honest release: every teacher votes on every query."""
    return np.concatenate([_released(X[:, :1]), _released(X[:, 1:])])


def without_the_expensive(X, y, groups=None):
    """A filter by teacher: a teacher whose exact loss is spent votes no more and one person's vote retires others."""
    first = _released(X[:, :1])
    losses = per_teacher_rdp(vote_groups(X[:, :1], n_classes=N_CLASSES), [ORDER], noise=GaussianNoise(GNMAX.sigma))
    left = losses.max(axis=(1, 2)) < LIMIT
    return np.concatenate([first, _released(X[left, 1:])])


def fixed_number(X, y, groups=None):
    return _released(np.repeat(X[:, :1], LATER, axis=1))


def until_it_is_spent(X, y, groups=None):
    """Answers go on until the data-dependent cost reaches the budget."""
    cost = GNMAX.exact_rdp(_votes(X[:, :1]).counts, [ORDER])[0, 0]
    return _released(np.repeat(X[:, :1], int(LATER * LIMIT / cost), axis=1))


# ---- released files ----

#: What an officer reads, and a forger would rather have otherwise.
_FORGED: dict[str, Any] = {
    "threat_model": "anybody, the curator too", "released": "one number", "noise_source": "a quantum computer",
    "assumptions": (), "label_file_sha256": "ab" * 32, "mu": 1e-3, "curve": ((1e-6, 1e-3),), "tuning": "none",
}  # fmt: skip


def by_digest(statement: Any, ledger: Ledger) -> bool:
    """The honest check: word for word what the ledger was given."""
    return ledger.verify(files=[statement.to_dict()]).as_released


def by_some_entries(statement: Any, ledger: Ledger) -> bool:
    """Epsilon, mechanism and unit are looked up in the ledger; the rest is not checked."""
    (row,) = ledger.releases(statement.ledger_releases)
    same = row.charge.guarantee(statement.guarantee.delta).epsilon == statement.guarantee.epsilon
    return same and row.mechanism in statement.mechanism and statement.unit == (ledger.registration or {})["unit"]


def _passing_edits(check: Callable[[Any, Ledger], bool]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        statement = release_labels(Votes.from_counts([[9, 1]]), GNMAX, budget=BUDGET, ledger=ledger).statement
        assert check(statement, ledger)
        passed = [name for name, value in _FORGED.items() if check(replace(statement, **{name: value}), ledger)]
    return f"an edited {passed[0]} passes" if passed else ""


def _without_a_key(key: bytes, *signed: Any) -> str:
    """Anyone who has the ledger can make this."""
    return hashlib.sha256(canonical(signed).encode()).hexdigest()


def _forger_binds(patches: list[Any]) -> str:
    """A person with the ledger and a key of their own binds a file; the check has the curator's key again."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        ledger, file = Ledger(Path(folder) / "ledger.sqlite"), Path(folder) / "labels.csv"
        release_labels(Votes.from_counts([[9, 1]]), GNMAX, budget=BUDGET, ledger=ledger)
        file.write_text("row,label\n0,forged\n")
        key = key_path(ledger.path).read_text()
        key_path(ledger.path).write_text("ab" * 32)
        with mock.patch.object(Ledger, "_signing_key", return_value=b"\xab" * 32):
            ledger.bind(file)
        key_path(ledger.path).write_text(key)
        try:
            return "a forger's file passes" if ledger.verify(files=[file]).as_released else ""
        except PateError:
            return ""


# ---- the same people again ----


def _row_less(*, sketch: bool) -> str:
    """Return what a second ledger says of a table that has one row less than the one in the ledger beside it."""
    X, y = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300) % 2
    whole, less = (recognised_by(X[rows], y[rows]) for rows in (slice(None), slice(1, None)))
    if not sketch:  # recognised by the exact records alone
        less["sketch"] = ((), ())
    with tempfile.TemporaryDirectory() as folder:
        Ledger(Path(folder) / "a.sqlite", total=BUDGET).register(Registration("record", (0, 1), **whole))
        return Ledger(Path(folder) / "b.sqlite").check_beside("the table", Registration("record", (0, 1), **less))


def row_less() -> str:
    return _row_less(sketch=True)


def row_less_unseen() -> str:
    return _row_less(sketch=False)


def _silent(said: str) -> str:
    return "" if "largely of the same records" in said else "299 of 300 people get a whole budget again, without a word"


def _pair(claimed: Any, faulty: Any, law: Any, votes: Any, votes_prime: Any, times: int = ASKED) -> dict[str, Any]:
    return {"pair": by_pair(claimed, faulty, law, votes, votes_prime, times)}


#: Its test says more than its answers do.
LOUD_TEST = (250.0, 20.0, 100.0)
_PASSES = (-1000.0, 150.0, 40.0)
MUTANTS = (
    Mutant(
        "refused queries uncharged",
        "forks of Confident-GNMax, and of the sparse vector technique (Lyu, Su, Li 2017)",
        _pair(
            lambda: ConfidentGNMax(*LOUD_TEST).charge(ASKED),
            lambda: RefusalsAreFree(*LOUD_TEST).charge(ASKED),
            ConfidentGNMax(*LOUD_TEST),
            SURE,
            SURE_PRIME,
        ),
    ),
    Mutant(
        "expected instead of realised cost",
        "planners whose forecast is reported as the cost",
        _pair(
            lambda: ConfidentGNMax(*_PASSES).charge(ASKED),
            lambda: ExpectedAnswers(*_PASSES).charge(ASKED),
            ConfidentGNMax(*_PASSES),
            TIE,
            TIE_PRIME,
        ),
    ),
    Mutant(
        "two equal costs merged in a sum",
        "accounts kept in a set or by value",
        _pair(lambda: _two_releases(Accountant()), lambda: _two_releases(EqualCostsMerged()), GNMAX, TIE, TIE_PRIME),
    ),
    Mutant(
        "answers stopped by data-dependent cost",
        "runs that stop when the data-dependent epsilon reaches its target",
        {"replay": by_replay(fixed_number, until_it_is_spent, teachers, one_switches)},
    ),
    Mutant(
        "teachers dropped by data-dependent cost",
        "individual accounting that takes the exact loss for a filter",
        {"replay": by_replay(everybody, without_the_expensive, teachers, one_switches)},
    ),
    Mutant(
        "an edited statement passes the check",
        "our own first check, which compared a few entries with the ledger",
        {"check": by_check(lambda: by_digest, lambda: by_some_entries, _passing_edits)},
    ),
    Mutant(
        "released files signed without a key",
        "hash chains and lists of checksums, which a person who edits a file makes again",
        {
            "check": by_check(
                list,
                lambda: [mock.patch.object(module, "signature", _without_a_key) for module in (_ledger, _verify)],
                _forger_binds,
            )
        },
    ),
    Mutant(
        "a fresh budget for the same people",
        "ledgers that know a table by its exact rows",
        {"check": by_check(row_less, row_less_unseen, _silent)},
        blind={
            "replay": "neighbours are charged to a ledger each, made for the replay",
            "pair": "it is about a second ledger, and within each of them the account is right",
        },
    ),
)
