"""A recipe: every setting of record voters, with why it was chosen."""

from __future__ import annotations

from dataclasses import dataclass


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
    >>> Round(1.0)
    Round(share=1.0, clip=None, of_student=False)
    """

    share: float
    clip: float | None = None
    of_student: bool = False


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
        Of the weights of the head, which is :class:`pate.heads.LikelihoodHead`.
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
