"""Who is ahead at which epsilon, for all looks together.

Every pair that could have been spoken of counts as a look, also where only the leader by mean is named: choosing the
leader by the same means is then covered, whoever it turns out to be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from pate.comparison.statistics import Design, PairedDifference, Word, accuracies, difference_of
from pate.core.checks import check_int, check_real, did_you_mean, shown
from pate.exceptions import InvalidInputError

__all__ = ["EpsilonVerdict", "SideVerdict", "side_verdicts", "verdicts"]

#: Name -> epsilon -> one boolean array per repeat.
RightsByName = Mapping[str, Mapping[float, Sequence[Any]]]


@dataclass(frozen=True, kw_only=True)
class EpsilonVerdict:
    """Who leads at one epsilon, and ahead of whom.

    Attributes
    ----------
    epsilon : float
    leader : str
        The greatest mean accuracy.
    means : dict of name to float
        Accuracies, greatest first.
    pairs : dict of (name, name) to PairedDifference
        All pairs, the greater mean first.
    looks : int
    """

    epsilon: float
    leader: str
    means: dict[str, float]
    pairs: dict[tuple[str, str], PairedDifference]
    looks: int

    @property
    def against(self) -> dict[str, PairedDifference]:
        """The leader's differences, by rival."""
        return {b: found for (a, b), found in self.pairs.items() if a == self.leader}

    @property
    def ahead_of(self) -> tuple[str, ...]:
        """The rivals that the leader is surely ahead of."""
        return tuple(name for name, found in self.against.items() if found.verdict == "ahead")

    @property
    def undecided(self) -> tuple[str, ...]:
        """The rivals that may be as good, or better."""
        return tuple(name for name, found in self.against.items() if found.verdict != "ahead")


@dataclass(frozen=True, kw_only=True)
class SideVerdict:
    """One side's contestants against the other side's at one epsilon.

    Attributes
    ----------
    epsilon : float
    ours, theirs : str
        The greatest mean of each side.
    deciding : (str, str)
        One of ours and one of theirs, on whom the verdict stands. Ahead or behind: who is ahead of the whole other side
        (the greatest mean of such), and the rival who comes nearest. Undecided: the greatest mean of all, and the
        rival it is least told apart from.
    difference : PairedDifference
        Between these two.
    verdict : {"ahead", "behind", "undecided"}
        ``ahead``: one of ours is ahead of everyone of theirs. ``behind``: one of theirs is ahead of everyone of ours.
    pairs : dict of (ours, theirs) to PairedDifference
    looks : int
    """

    epsilon: float
    ours: str
    theirs: str
    deciding: tuple[str, str]
    difference: PairedDifference
    verdict: Word
    pairs: dict[tuple[str, str], PairedDifference]
    looks: int

    @property
    def not_behind(self) -> bool:
        """Whether nobody of theirs was shown to be ahead: "at or above" by the rule, which few repeats reach easily."""
        return self.verdict != "behind"


def verdicts(
    rights: RightsByName,
    epsilons: Sequence[float],
    *,
    same_rows: bool,
    test_share: float | None = None,
    groups: Any = None,
    level: float = 0.95,
    looks: int | None = None,
) -> tuple[EpsilonVerdict, ...]:
    """Return who leads at each epsilon, against each rival.

    Parameters
    ----------
    rights : mapping of name to mapping of epsilon to one boolean array per repeat
        Whether each test row was predicted rightly. Who has nothing at an epsilon takes no part there.
    epsilons : sequence of float
        Those looked at.
    same_rows, test_share, groups, level
        As in :func:`pate.comparison.statistics.paired_difference`.
    looks : int or None
        None counts all pairs at all epsilons. More, where the same page says more than this.

    Returns
    -------
    tuple of EpsilonVerdict
        In the order of ``epsilons``; without those where nobody took part.

    Raises
    ------
    InvalidInputError
        Contestants without an epsilon that is looked at, fewer looks than are taken, arrays that do not meet.

    Notes
    -----
    The chance that any pair at any epsilon is called ahead or behind wrongly is at most ``1 - level`` (Bonferroni over
    all of them; :mod:`pate.comparison.statistics` says of what each interval is made).

    Examples
    --------
    >>> one, other = [[True] * 90 + [False] * 10] * 3, [[True] * 88 + [False] * 12] * 3
    >>> found = verdicts({"A": {1.0: one, 3.0: one}, "B": {1.0: other}}, [1.0, 3.0], same_rows=True)
    >>> [(v.epsilon, v.leader, v.ahead_of, v.undecided) for v in found]
    [(1.0, 'A', (), ('B',)), (3.0, 'A', (), ())]
    """
    at = _present(rights, epsilons)
    needed = sum(math.comb(len(names), 2) for names in at.values())
    design = Design(same_rows, test_share, groups, level, _looks(looks, needed))
    found = []
    for epsilon, names in at.items():
        means = {name: float(accuracies(rights[name][epsilon]).mean()) for name in names}
        means = dict(sorted(means.items(), key=lambda item: -item[1]))
        pairs = {(a, b): _pair(rights, a, b, epsilon, design) for a, b in combinations(means, 2)}
        leader = next(iter(means))
        found.append(EpsilonVerdict(epsilon=epsilon, leader=leader, means=means, pairs=pairs, looks=design.looks))
    return tuple(found)


def side_verdicts(
    rights: RightsByName,
    epsilons: Sequence[float],
    *,
    ours: Sequence[str],
    theirs: Sequence[str],
    same_rows: bool,
    test_share: float | None = None,
    groups: Any = None,
    level: float = 0.95,
    looks: int | None = None,
) -> tuple[SideVerdict, ...]:
    """Return how one side stands against the best of the other at each epsilon.

    Parameters
    ----------
    rights, epsilons, same_rows, test_share, groups, level
        As in :func:`verdicts`.
    ours, theirs : sequences of names
        The sides. One name against a few needs far fewer looks than all pairs; name it before anything is measured.
    looks : int or None
        None counts every one of ours against every one of theirs, at every epsilon.

    Returns
    -------
    tuple of SideVerdict
        In the order of ``epsilons``; without those where one side took no part.

    Raises
    ------
    InvalidInputError
        As :func:`verdicts`; a name that nobody has, or that is on both sides, an empty side.

    Notes
    -----
    The best of a side is chosen by the same means that are compared, which flatters it. Hence nothing is said of it
    that was not tested for everyone: "ahead" is ahead of all rivals, and every pair counts as a look.

    Examples
    --------
    >>> one, other = [[True] * 90 + [False] * 10] * 3, [[True] * 88 + [False] * 12] * 3
    >>> found, = side_verdicts({"A": {1.0: one}, "B": {1.0: other}}, [1.0], ours=["B"], theirs=["A"], same_rows=True)
    >>> found.verdict, found.not_behind, round(found.difference.mean, 2)
    ('undecided', True, -0.02)
    """
    for side, names in (("ours", ours), ("theirs", theirs)):
        unknown = [name for name in names if name not in rights]
        if isinstance(names, str) or not names or unknown:
            near = did_you_mean(unknown[0], rights) if unknown else ""
            raise InvalidInputError(f"{side} must list contestants of {list(rights)}, got {names!r}.{near}")
    if set(ours) & set(theirs):
        raise InvalidInputError(f"ours and theirs must have no name in common, got {sorted(set(ours) & set(theirs))}.")
    at = {
        epsilon: ([name for name in ours if name in names], [name for name in theirs if name in names])
        for epsilon, names in _present({name: rights[name] for name in [*ours, *theirs]}, epsilons).items()
    }
    at = {epsilon: sides for epsilon, sides in at.items() if all(sides)}
    needed = sum(len(a) * len(b) for a, b in at.values())
    design = Design(same_rows, test_share, groups, level, _looks(looks, needed))
    found = []
    for epsilon, (here, there) in at.items():
        pairs = {(a, b): _pair(rights, a, b, epsilon, design) for a, b in product(here, there)}
        means = {name: float(accuracies(rights[name][epsilon]).mean()) for name in [*here, *there]}
        best_a, best_b = (max(side, key=means.__getitem__) for side in (here, there))
        verdict, deciding = _decided(pairs, means)
        found.append(
            SideVerdict(
                epsilon=epsilon,
                ours=best_a,
                theirs=best_b,
                deciding=deciding,
                difference=pairs[deciding],
                verdict=verdict,
                pairs=pairs,
                looks=design.looks,
            )
        )
    return tuple(found)


def _decided(
    pairs: Mapping[tuple[str, str], PairedDifference], means: Mapping[str, float]
) -> tuple[Word, tuple[str, str]]:
    """Return what holds of the sides, and the pair on which that stands."""
    against: dict[str, list[tuple[PairedDifference, tuple[str, str]]]] = {}
    for pair, found in pairs.items():
        against.setdefault(pair[0], []).append((found, pair))
        against.setdefault(pair[1], []).append((found.reversed(), pair))
    ranked = sorted(against, key=lambda name: -means[name])
    sure = [name for name in ranked if all(found.verdict == "ahead" for found, _ in against[name])]
    # A difference has the sign of its means: whoever has the greatest is behind nobody, so that one is undecided.
    first = against[sure[0] if sure else ranked[0]]
    rivals = first if sure else [one for one in first if one[0].verdict == "undecided"] or first
    _, pair = min(rivals, key=lambda one: one[0].mean if one[0].low is None else one[0].low)
    return ("undecided" if not sure else "ahead" if sure[0] == pair[0] else "behind"), pair


def _present(rights: RightsByName, epsilons: Sequence[float]) -> dict[float, list[str]]:
    if not isinstance(rights, Mapping) or not all(isinstance(of, Mapping) for of in rights.values()) or not rights:
        raise InvalidInputError(
            f"rights must map names to epsilons to one boolean array per repeat, got {shown(rights)}."
        )
    wanted = [check_real("epsilon", e, low=0, low_open=True) for e in epsilons]
    if len(set(wanted)) != len(wanted):
        raise InvalidInputError(f"epsilons must be listed once each, got {wanted}.")
    absent = [name for name, of in rights.items() if not set(of) & set(wanted)]
    if absent:
        raise InvalidInputError(
            f"rights[{absent[0]!r}] has none of the epsilons {wanted}, got {sorted(rights[absent[0]])}."
        )
    at = {epsilon: [name for name, of in rights.items() if epsilon in of] for epsilon in wanted}
    return {epsilon: names for epsilon, names in at.items() if names}


def _looks(said: int | None, needed: int) -> int:
    needed = max(needed, 1)
    if said is None:
        return needed
    return check_int("looks", said, low=needed, remedy=f"So many pairs are looked at: {needed}.")


def _pair(rights: RightsByName, a: str, b: str, epsilon: float, design: Design) -> PairedDifference:
    return difference_of(rights[a][epsilon], rights[b][epsilon], design, (a, b))
