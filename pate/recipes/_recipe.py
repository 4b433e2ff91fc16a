"""A recipe: every setting of record voters, with why it was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from pate.core.checks import check_choice, check_real, shown
from pate.exceptions import InvalidInputError
from pate.records.ballots import check_clip

#: What :attr:`Recipe.student` may be, beside None.
STUDENTS = ("ridge", "forest", "image")


@dataclass(frozen=True)
class Round:
    """One round of ballots.

    Parameters
    ----------
    share : float
        Of mu^2: the shares of a recipe sum to 1.
    clip : float or None
        None: records vote with their class. Else with their disagreement with the model so far, clipped to this norm.
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
        for name in ("share", "clip"):  # a ledger knows a plan by its words, and 1 is 1.0
            value = getattr(self, name)
            if isinstance(value, int) and not isinstance(value, bool):
                object.__setattr__(self, name, float(value))


@dataclass(frozen=True)
class Recipe:
    """How records vote and what is made of it; printed, one line of reason for each choice.

    Attributes
    ----------
    representation : {"kernel", "encoded", "given"}
        ``kernel``: principal components of a kernel of the encoded columns; ``encoded``: of the encoded columns
        (quantiles, thermometers, one-hot); ``given``: of what the caller's representation makes.
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
        Of the weights of a :class:`pate.heads.LikelihoodHead`. None: the head is a :class:`pate.heads.DescentHead`, and
        every round has a clip, the first one too.
    student : {"ridge", "forest", "image"} or None
        Who learns what the head says of the public rows: a ridge on their own coordinates
        (:class:`pate.heads.SelfTrainedHead`), trees on their columns (:class:`pate.heads.ForestHead`), or a network on
        public images (:class:`pate.students.ImageStudent`).
    reasons : tuple of (str, str)
        What was chosen, and why.

    Examples
    --------
    >>> from pate.recipes import PublicFacts, choose
    >>> print(choose(PublicFacts(n_units=1_000, n_classes=10, mu=0.14, n_public=400)))  # doctest: +ELLIPSIS
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
    """Refuse a recipe that could not be run to its end: all rounds are charged before the second one is cast.

    Raises
    ------
    InvalidInputError
        The first round has a clip or is of the student; a later one has no clip; one of the student is not among the
        last, or there is no image student; a share, a clip, the prior or the student is none.
    """
    rounds = recipe.rounds
    if not isinstance(rounds, tuple) or not rounds or not all(isinstance(r, Round) for r in rounds):
        raise InvalidInputError(f"recipe.rounds must be a tuple of Round, one or more, got {shown(rounds)}.")
    descent = recipe.prior_scale is None
    if descent and recipe.space != "signed":
        raise InvalidInputError(
            "recipe must have a prior_scale, got None: rounds that all have a clip are of signed ballots."
        )
    for i, one in enumerate(rounds):
        name = f"recipe.rounds[{i}]"
        check_real(f"{name}.share", one.share, low=1e-9, high=1e9)
        if not isinstance(one.of_student, bool):
            raise InvalidInputError(f"{name}.of_student must be True or False, got {shown(one.of_student)}.")
        if i == 0 and (one.of_student or (not descent and one.clip is not None)):
            raise InvalidInputError(
                f"{name} must have {'' if descent else 'clip=None and '}of_student=False, got {one}: there is no model "
                "yet that records could disagree with. Put a round of the head's own first."
            )
        if i or descent:
            if one.clip is None:
                raise InvalidInputError(
                    f"{name} must have a clip, got {one}: later rounds are of disagreements. Try clip=0.5, or a single "
                    "round."
                )
            check_clip(one.clip)
        if one.of_student and recipe.student != "image":
            raise InvalidInputError(
                f"{name} must have of_student=False, got {one}: it is for student='image', and the recipe's is "
                f"{shown(recipe.student)}."
            )
        if i and rounds[i - 1].of_student and not one.of_student:
            raise InvalidInputError(
                f"{name} must be of the student, as the round before it is, got {one}: the head is done when the "
                "student learns from it. Put the student's rounds last."
            )
    if recipe.student is not None:
        check_choice("recipe.student", recipe.student, STUDENTS)
    if recipe.prior_scale is not None:
        check_real("recipe.prior_scale", recipe.prior_scale, low=0, low_open=True)
