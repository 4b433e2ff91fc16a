"""The rule that chooses a recipe, the settings of record voters, from public facts alone.

The reason for each number is in docs/record-recipes.md; all were chosen on splits of training parts and on made-up
tables, by ``experiments/rule_development.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from pate._core.checks import check_choice, check_int, check_real, shown
from pate.exceptions import InvalidInputError
from pate.records.ballot_sum import check_clip

# The input of a rule: numbers that are public before any private record is read.

KINDS = ("table", "mixed", "image", "glyph", "text")
ADJACENCIES = ("replace-one", "add-or-remove")
#: A component whose public variance is below this share of the largest one's is rounding.
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class PublicFacts:
    """The public facts that a recipe is chosen from; nothing here may be counted on private cells.

    Parameters
    ----------
    n_units : int
        How many private records (persons, where they are protected) vote. Public where neighbours replace one; else
        the nominal number.
    n_classes : int
        At least 2.
    mu : float
        The budget of all rounds together, as Gaussian differential privacy.
    n_public : int
        Public rows, on which representation and head are fitted; 0 where there are none.
    kind : {"table", "mixed", "image", "glyph", "text"}
        ``table``: all columns are numbers; ``mixed``: some are categories; ``glyph``: images made of strokes.
    spectrum : sequence of float or None
        Variances of the representation's components over the public rows.
    adjacency : {"replace-one", "add-or-remove"}

    Raises
    ------
    InvalidInputError
        A value out of its range.

    Examples
    --------
    >>> facts = PublicFacts(n_units=10_000, n_classes=10, mu=0.14, n_public=2_000)
    >>> round(facts.evidence)
    99
    >>> PublicFacts(n_units=10_000, n_classes=1, mu=0.14, n_public=2_000)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: n_classes must be a whole number >= 2, got 1.
    """

    n_units: int
    n_classes: int
    mu: float
    n_public: int
    kind: str = "table"
    spectrum: tuple[float, ...] | None = None
    adjacency: str = "replace-one"

    def __post_init__(self) -> None:
        check_int("n_units", self.n_units, low=1)
        check_int("n_classes", self.n_classes, low=2)
        check_real("mu", self.mu, low=0, low_open=True)
        check_int("n_public", self.n_public, low=0)
        check_choice("kind", self.kind, KINDS)
        check_choice("adjacency", self.adjacency, ADJACENCIES)
        object.__setattr__(self, "spectrum", _variances(self.spectrum))

    @property
    def evidence(self) -> float:
        """A class's share of the ballots over the noise on one cell: n mu / (m Delta), Delta that of a soft ballot.

        Records and budget count through this product alone: twice the records do as much as twice the mu.
        """
        delta = math.sqrt(2) if self.adjacency == "replace-one" else math.sqrt(1 - 1 / self.n_classes)
        return self.n_units * self.mu / (self.n_classes * delta)

    @property
    def most_components(self) -> int:
        """The most components that public rows can estimate: half of their number, without those that are rounding."""
        half = max(self.n_public // 2, 1)
        if self.spectrum is None:
            return half
        return min(half, sum(v > _LEAST_VARIANCE * max(self.spectrum) for v in self.spectrum))


def _variances(spectrum: Iterable[float] | None) -> tuple[float, ...] | None:
    if spectrum is None:
        return None
    try:
        values = np.asarray(tuple(spectrum), dtype=float)
    except (TypeError, ValueError):
        raise InvalidInputError(f"spectrum must hold public variances, got {shown(spectrum)}.") from None
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise InvalidInputError(
            f"spectrum must hold at least one public variance, finite, none negative and not all 0, got "
            f"{shown(values)}. Take None where there is none."
        )
    return tuple(values.tolist())


# A recipe: every setting of record voters, with the reason for it.

#: What :attr:`Recipe.student` may be, beside None.
STUDENTS = ("ridge", "forest", "image")


@dataclass(frozen=True)
class Round:
    """One round in which every record casts a ballot: its share of the budget, and what records vote on.

    Parameters
    ----------
    share : float
        Of mu^2: the shares of a recipe sum to 1.
    clip : float or None
        None: records vote with their class. Else with their residual under the model so far, clipped to this norm.
    of_student : bool
        The model is the image student, and the ballots' space its features.

    Examples
    --------
    >>> Round(1)
    Round(share=1.0, clip=None, of_student=False)
    """

    share: float
    clip: float | None = None
    of_student: bool = False

    def __post_init__(self) -> None:
        for name in ("share", "clip"):  # a ledger identifies a plan by its text, in which 1 must be 1.0
            value = getattr(self, name)
            if isinstance(value, int) and not isinstance(value, bool):
                object.__setattr__(self, name, float(value))


@dataclass(frozen=True)
class Recipe:
    """A recipe: all settings of record voters, from representation to student, with the reason for each choice.

    Attributes
    ----------
    representation : {"kernel", "encoded", "given"}
        ``kernel``: principal components of a kernel of the encoded columns; ``encoded``: of the encoded columns
        (quantiles, thermometers, one-hot); ``given``: of the caller's representation.
    space : {"soft", "signed"}
        Kind of ballot: :class:`pate.records.SoftSpace` or :class:`pate.records.SignedSpace`.
    n_components : int
        Numbers per class in a ballot: centres of a soft space, components of a signed one.
    k : int or None
        Nearest centres that a soft ballot goes to.
    alpha, constant : float or None
        Whitening of a signed space, and its constant coordinate.
    rounds : tuple of Round
    prior_scale : float or None
        Scale of the prior on the weights of a :class:`pate.models.heads.LikelihoodHead`. None: the head is a
        :class:`pate.models.heads.DescentHead`, and every round has a clip, the first one too.
    student : {"ridge", "forest", "image"} or None
        The model trained on the head's labels of the public rows: a ridge on their own coordinates
        (:class:`pate.models.heads.SelfTrainedHead`), trees on their columns (:class:`pate.models.heads.ForestHead`), or
        a network on public images (:class:`pate.models.students.ImageStudent`).
    reasons : tuple of (str, str)
        Each choice, and the reason for it.

    Examples
    --------
    >>> from pate.models.recipes import PublicFacts, choose
    >>> print(
    ...     choose(PublicFacts(n_units=1_000, n_classes=10, mu=0.14, n_public=400))
    ... )  # doctest: +ELLIPSIS
    representation kernel: ...
    """

    representation: str
    space: str
    n_components: int
    k: int | None
    alpha: float | None
    constant: float | None
    rounds: tuple[Round, ...]
    prior_scale: float | None
    student: str | None
    reasons: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"{what}: {why}" for what, why in self.reasons)


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe whose rounds could not all be run: all are charged before the second one is cast."""
    rounds = recipe.rounds
    if not isinstance(rounds, tuple) or not rounds or not all(isinstance(r, Round) for r in rounds):
        raise InvalidInputError(f"recipe.rounds must be a tuple of Round, one or more, got {shown(rounds)}.")
    descent = recipe.prior_scale is None
    if descent and recipe.space != "signed":
        raise InvalidInputError(
            "recipe must have a prior_scale, got None: without one ballots must be signed, as all rounds have a clip."
        )
    for i, one in enumerate(rounds):
        name = f"recipe.rounds[{i}]"
        check_real(f"{name}.share", one.share, low=1e-9, high=1e9)
        if not isinstance(one.of_student, bool):
            raise InvalidInputError(f"{name}.of_student must be True or False, got {shown(one.of_student)}.")
        if i == 0 and (one.of_student or (not descent and one.clip is not None)):
            raise InvalidInputError(
                f"{name} must have {'' if descent else 'clip=None and '}of_student=False, got {one}: there is no model "
                "yet for residuals. Put a round of class ballots first."
            )
        if i or descent:
            if one.clip is None:
                raise InvalidInputError(
                    f"{name} must have a clip, got {one}: later rounds are of residuals. Try clip=0.5, or a single "
                    "round."
                )
            check_clip(one.clip)
        if one.of_student and recipe.student != "image":
            raise InvalidInputError(
                f"{name} must have of_student=False, got {one}: it needs student='image', and the recipe has "
                f"{shown(recipe.student)}."
            )
        if i and rounds[i - 1].of_student and not one.of_student:
            raise InvalidInputError(
                f"{name} must have of_student=True, as the round before it, got {one}: the head is final when the "
                "student learns from it. Put the student's rounds last."
            )
    if recipe.student is not None:
        check_choice("recipe.student", recipe.student, STUDENTS)
    if recipe.prior_scale is not None:
        check_real("recipe.prior_scale", recipe.prior_scale, low=0, low_open=True)


# The method, records that vote or DP-SGD, chosen from public facts alone.

#: With fewer public rows no map can be fitted, and DP-SGD is chosen.
FEWEST_PUBLIC = 20
#: Without public rows synthetic ones of a schema are better than DP-SGD on it from this evidence on: read off Adult,
#: pendigits, spambase and optdigits (experiments/no_public_rows.py).
_SYNTHETIC_FROM = 45.0


def chosen_method(facts: PublicFacts, *, declared: bool = False) -> tuple[str, str]:
    """Return the method for ``voters="auto"``, ``"records"`` or ``"dpsgd"``, and the reason for it.

    The reason is for the statement. The number of public rows decides; where there are none, and ``declared`` says that
    a schema of the columns is known, the evidence does: then records vote on synthetic rows.

    Examples
    --------
    >>> from dataclasses import replace
    >>> facts = PublicFacts(n_units=10_000, n_classes=10, mu=0.14, n_public=2_000)
    >>> chosen_method(facts)[0], chosen_method(replace(facts, n_public=0))
    ('records', ('dpsgd', 'there are no public rows for a map that records could vote on'))
    >>> chosen_method(replace(facts, n_public=0), declared=True)[0]
    'records'
    """
    if not facts.n_public and declared:
        e = f"the evidence n mu / (m Delta) is {facts.evidence:.3g}"
        if facts.evidence >= _SYNTHETIC_FROM:
            return "records", f"there are no public rows, and {e}: {_SYNTHETIC_FROM:g} or more make synthetic ones"
        return "dpsgd", f"there are no public rows, and {e}: synthetic ones take {_SYNTHETIC_FROM:g}"
    if not facts.n_public:
        return "dpsgd", "there are no public rows for a map that records could vote on"
    if facts.n_public < FEWEST_PUBLIC:
        return (
            "dpsgd",
            f"{facts.n_public} public rows make no map that records could vote on: that takes {FEWEST_PUBLIC}",
        )
    return "records", f"{facts.n_public:,} public rows make a map that records can vote on"


#: Below this evidence tables of numbers take soft ballots of few clusters, smoothed by a ridge on public rows: noise
#: costs more there than a wrong public distribution. Clusters need at least so many public rows.
_SOFT_BELOW, _SOFT_ROWS = 20.0, 200
#: Rounds of equal shares, and fewer where records times components are so many that rounds take minutes.
_MANY, _FEW, _FEW_FROM = 40, 20, 1e8
#: The clip of these rounds: with a small one nearly every residual has the full norm.
_CLIP = 0.1
#: Components at an evidence of _AT, growing with its power _GROWTH, and for tables with the root of the number of
#: classes from _FEW_CLASSES on; whitening, of images more of it, and constant.
_COMPONENTS, _AT, _GROWTH, _FEW_CLASSES = 17.0, 20.0, 0.75, 5
_FEWEST, _MOST = 16, 256
_ALPHA, _ALPHA_OF_IMAGES, _CONSTANT = 0.5, 0.8, 0.2
#: Components of images whose head labels rows for a network, at an evidence of 92 for 10 classes; they grow with the
#: root of the number of classes.
_OF_IMAGES, _OF_IMAGES_AT, _OF_IMAGES_CLASSES, _MOST_OF_IMAGES = 128, 92.0, 10, 512
#: Centres of a soft ballot per class at an evidence of 1, and the power by which they grow.
_CENTRES = {"table": (3.0, 0.3), "glyph": (20.0, 0.0)}
_MOST_CENTRES = 400
#: A centre is the mean of at least so many public rows.
_ROWS_PER_CENTRE = 4
_NEAREST = 8
#: Rounds of a likelihood head from this evidence on: (evidence, shares of mu^2, clip of the rounds after the first).
_ROUNDS: dict[str, tuple[tuple[float, tuple[float, ...], float], ...]] = {
    "table": ((15.0, (0.5, 0.5), 0.7),),
    "image": ((200.0, (0.5, 0.5), 0.7), (1000.0, (0.2,) + (0.16,) * 5, 0.3)),
}
#: A network is trained on a head's labels of public images only if there are so many.
_STUDENT_ROWS = 1_000
#: From this evidence on records vote with their residuals under it: evidence, share of mu^2, and clip.
_STUDENT_ROUND = {"image": (40.0, 0.4, 0.5), "glyph": (200.0, 0.5, 0.5)}
#: Logits of m classes spread over a multiple of log m: the prior of a likelihood head, and its least with a constant.
_PRIOR, _LEAST_PRIOR = 0.65, 1.0
#: From this evidence on a head is more accurate than a ridge trained on its labels of the public rows.
_RIDGE_BELOW = 100.0


def choose(facts: PublicFacts) -> Recipe:
    """Return the recipe for record voters: all settings, chosen by a rule from public facts alone.

    It depends on ``facts`` alone, so the choice costs no privacy. Record voters: every private record votes
    (docs/records.md).

    Examples
    --------
    >>> few = choose(PublicFacts(n_units=1_000, n_classes=10, mu=0.14, n_public=400))
    >>> few.space, few.n_components, len(few.rounds), few.student
    ('soft', 60, 1, 'ridge')
    >>> many = choose(PublicFacts(n_units=100_000, n_classes=10, mu=0.14, n_public=10_000))
    >>> many.space, many.n_components, len(many.rounds), many.student
    ('signed', 256, 40, None)
    """
    weak = facts.kind == "table" and facts.evidence < _SOFT_BELOW and facts.n_public >= _SOFT_ROWS
    has_network = facts.kind == "image" and facts.n_public >= _STUDENT_ROWS
    return _by_likelihood(facts) if weak or has_network or facts.kind == "glyph" else by_descent(facts)


def by_descent(facts: PublicFacts, *, ordered: bool = False) -> Recipe:
    """Return a recipe of descent; ``ordered`` classes, the bins of a number, take no more components for being many."""
    representation = _REPRESENTATION[facts.kind]
    measured = facts.kind in ("table", "mixed") and not ordered
    times = math.sqrt(max(facts.n_classes / _FEW_CLASSES, 1.0)) if measured else 1.0
    wanted = round(_COMPONENTS * (facts.evidence / _AT) ** _GROWTH * times)
    n = max(1, min(max(wanted, _FEWEST), _MOST, facts.most_components))
    n_rounds = _MANY if facts.n_units * n < _FEW_FROM else _FEW
    alpha = _ALPHA_OF_IMAGES if facts.kind == "image" else _ALPHA
    reasons = (
        (f"representation {representation}", _REPRESENTATIONS[representation]),
        (f"signed ballots of {n} components", f"{_evidence(facts)}, {facts.n_public} public rows"),
        (
            f"{n_rounds} rounds, clipped to {_CLIP:g}",
            "each record votes with its residual under the model so far; private rows may differ from public ones",
        ),
        ("descent", "every released sum is a step of gradient descent, shrunk by its known noise"),
    )
    rounds = (Round(1 / n_rounds, _CLIP),) * n_rounds
    return Recipe(representation, "signed", n, None, alpha, _CONSTANT, rounds, None, None, reasons)


def _by_likelihood(facts: PublicFacts) -> Recipe:
    representation = _REPRESENTATION[facts.kind]
    space, n, k, why = _space(facts)
    student, why_student = _student(facts)
    rounds, why_rounds = _rounds(facts, student)
    scale = _PRIOR * math.log(facts.n_classes)
    alpha = constant = None
    if space == "signed":  # the constant carries the classes' shares, if the prior lets it
        scale, alpha, constant = max(scale, _LEAST_PRIOR), _ALPHA_OF_IMAGES, _CONSTANT
    reasons = (
        (f"representation {representation}", _REPRESENTATIONS[representation]),
        (f"{space} ballots", why),
        (f"{len(rounds)} round{'s' * (len(rounds) > 1)}", why_rounds),
        (f"head with a prior of scale {scale:.2g}", f"the likeliest model given the noisy sums; {_evidence(facts)}"),
        (f"student {student}" if student else "no student", why_student),
    )
    return Recipe(representation, space, n, k, alpha, constant, rounds, scale, student, reasons)


def _space(facts: PublicFacts) -> tuple[str, int, int | None, str]:
    if facts.kind == "image":
        per_class = math.sqrt(facts.n_classes / _OF_IMAGES_CLASSES)
        wanted = round(_OF_IMAGES * (facts.evidence / _OF_IMAGES_AT) ** _GROWTH * per_class)
        n = max(1, min(max(wanted, _FEWEST), _MOST_OF_IMAGES, facts.most_components))
        return "signed", n, None, f"{n} components for {_evidence(facts)}, {facts.n_public} public rows"
    per_class, growth = _CENTRES[facts.kind]
    wanted = round(per_class * facts.n_classes * max(facts.evidence, 1.0) ** growth)
    most = max(facts.n_public // _ROWS_PER_CENTRE, 2)
    n = max(2, min(max(wanted, _FEWEST), _MOST_CENTRES, most))
    k = max(1, min(_NEAREST, n // 2))
    why = "strokes make clusters" if facts.kind == "glyph" else f"evidence is below {_SOFT_BELOW:g}"
    near = f"{n} centres, {_ROWS_PER_CENTRE} public rows to each at least, the {k} nearest share a ballot"
    return "soft", n, k, f"{why}; {near}"


def _evidence(facts: PublicFacts) -> str:
    return f"evidence n mu / (m Delta) = {facts.evidence:.3g}"


def without_student(recipe: Recipe) -> Recipe:
    """Return the recipe without a student: the head gets the whole budget.

    Examples
    --------
    >>> known = choose(
    ...     PublicFacts(n_units=40_000, n_classes=10, mu=0.14, n_public=9_000, kind="image")
    ... )
    >>> bare = without_student(known)
    >>> (known.student, bare.student), round(sum(r.share for r in bare.rounds), 9)
    (('image', None), 1.0)
    """
    if recipe.student is None:
        return recipe
    own = [r for r in recipe.rounds if not r.of_student]
    whole = sum(r.share for r in own)
    rounds = tuple(replace(r, share=r.share / whole) for r in own)
    reasons = (*recipe.reasons[:-1], ("no student", "the head itself is the model"))
    return replace(recipe, student=None, rounds=rounds, reasons=reasons)


_REPRESENTATION = {"table": "kernel", "mixed": "encoded"} | dict.fromkeys(("image", "glyph", "text"), "given")
_REPRESENTATIONS = {
    "kernel": "columns of numbers: components of a Laplacian kernel at the public median distance need no tuning",
    "encoded": "some columns are categories: quantiles, thermometers and one-hot columns, nearly linear already",
    "given": "images and texts have their own representations",
}


def _student(facts: PublicFacts) -> tuple[str | None, str]:
    if facts.kind in _STUDENT_ROUND and facts.n_public >= _STUDENT_ROWS:
        return "image", f"{facts.n_public} public images, {_STUDENT_ROWS} or more, train a network on the head's labels"
    e = f"evidence {facts.evidence:.3g}"
    if facts.evidence < _RIDGE_BELOW:
        return "ridge", f"{e} is below {_RIDGE_BELOW:g}: a ridge on the public rows smooths out noise"
    return None, f"{e} is {_RIDGE_BELOW:g} or more: a ridge would be less accurate than the head"


def _rounds(facts: PublicFacts, student: str | None) -> tuple[tuple[Round, ...], str]:
    rounds, why = _head_rounds(facts)
    start, share, clip = _STUDENT_ROUND.get(facts.kind, (math.inf, 0.0, 0.0))
    if student != "image" or facts.evidence < start:
        return rounds, why
    before = (replace(r, share=r.share * (1 - share)) for r in rounds)
    return (*before, Round(share, clip, of_student=True)), f"{why}; the last is of residuals under the student"


def _head_rounds(facts: PublicFacts) -> tuple[tuple[Round, ...], str]:
    known = _ROUNDS.get(facts.kind, ())
    steps = [step for step in known if facts.evidence >= step[0]]
    if not steps:
        why = f"evidence is below {known[0][0]:g}: noise would drown residuals" if known else "a head of clusters"
        return (Round(1.0),), why
    reached, (first, *later), clip = steps[-1]
    rounds = (Round(first), *(Round(share, clip) for share in later))
    return rounds, f"evidence is {reached:g} or more; residuals clipped to {clip:g}"
