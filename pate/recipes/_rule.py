"""The public rule: a recipe from public facts alone.

What each number rests on is written down in docs/record-recipes.md; it was chosen on splits of training parts
and on made tables, by ``experiments/rule_development.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pate.recipes._facts import PublicFacts
from pate.recipes._recipe import Recipe, Round

#: Below this evidence tables of numbers take soft ballots of few clusters, which a ridge of public rows smooths: noise
#: costs more there than a public law that is trusted wrongly. So many public rows make the clusters.
_SOFT_BELOW, _SOFT_ROWS = 20.0, 200
#: Rounds of equal shares, and fewer where records times components are so many that rounds take minutes.
_MANY, _FEW, _FEW_FROM = 40, 20, 1e8
#: The clip of these rounds: a small one lets nearly every record vote at full size.
_CLIP = 0.1
#: Components at an evidence of _AT, growing with its power _GROWTH; whitening, of images more of it, and constant.
_COMPONENTS, _AT, _GROWTH = 17.0, 20.0, 0.75
_FEWEST, _MOST = 16, 256
_ALPHA, _ALPHA_OF_IMAGES, _CONSTANT = 0.5, 0.8, 0.2
#: Centres of a soft ballot per class at an evidence of 1, and the power by which they grow.
_CENTRES = {"table": (3.0, 0.3), "glyph": (20.0, 0.0)}
_MOST_CENTRES = 400
#: A centre is the mean of at least so many public rows.
_ROWS_PER_CENTRE = 4
_NEAREST = 8
#: From this evidence on soft ballots of tables have a second round, of disagreements: half of mu^2, and its clip.
_SECOND_FROM, _SECOND_CLIP = 15.0, 0.7
#: A network learns what a head says of public images, of so many at least.
_STUDENT_ROWS = 1_000
#: From this evidence on records vote with their disagreement with it: the share of mu^2 kept for that, and the clip.
_STUDENT_ROUND = {"image": (40.0, 0.4, 0.5), "glyph": (200.0, 0.5, 0.5)}
#: Logits of m classes spread over a multiple of log m: the prior of a likelihood head.
_PRIOR = 0.65
#: Above it a head of strokes knows more than its own labels of public rows teach a ridge.
_RIDGE_BELOW = 100.0


def choose(facts: PublicFacts) -> Recipe:
    """Return the settings of record voters for public facts.

    Nothing but ``facts`` is looked at, so that the choice costs no privacy.

    Parameters
    ----------
    facts : PublicFacts

    Returns
    -------
    Recipe

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
    return _by_likelihood(facts) if weak or facts.kind == "glyph" else _by_descent(facts)


def _by_descent(facts: PublicFacts) -> Recipe:
    representation = _REPRESENTATION[facts.kind]
    wanted = round(_COMPONENTS * (facts.evidence / _AT) ** _GROWTH)
    n = max(1, min(max(wanted, _FEWEST), _MOST, facts.most_components))
    n_rounds = _MANY if facts.n_units * n < _FEW_FROM else _FEW
    alpha = _ALPHA_OF_IMAGES if facts.kind == "image" else _ALPHA
    own: tuple[Round, ...] = (Round(1 / n_rounds, _CLIP),) * n_rounds
    student, why_student = _image_student(facts) if facts.kind == "image" else (None, "")
    rounds, why_rounds = _with_student(facts, student, own, "no law of the public rows is trusted")
    reasons = (
        (f"representation {representation}", _REPRESENTATIONS[representation]),
        (f"signed ballots of {n} components", f"{_told(facts)}, {facts.n_public} public rows"),
        (
            f"{n_rounds} rounds, clipped to {_CLIP:g}",
            f"each record votes with what it has against the model so far; {why_rounds}",
        ),
        ("descent", "every released sum is a step, shrunk by what is known of its noise"),
        *(((f"student {student}", why_student),) if student else ()),
    )
    return Recipe(representation, "signed", n, None, alpha, _CONSTANT, rounds, None, student, reasons)


def _by_likelihood(facts: PublicFacts) -> Recipe:
    representation = _REPRESENTATION[facts.kind]
    n, k, why = _soft(facts)
    student, why_student = _student(facts)
    rounds, why_rounds = _with_student(facts, student, *_head_rounds(facts))
    scale = _PRIOR * math.log(facts.n_classes)
    reasons = (
        (f"representation {representation}", _REPRESENTATIONS[representation]),
        ("soft ballots", why),
        (f"{len(rounds)} round{'s' * (len(rounds) > 1)}", why_rounds),
        (f"head with a prior of scale {scale:.2g}", f"the likeliest classifier given the noisy sums; {_told(facts)}"),
        (f"student {student}" if student else "no student", why_student),
    )
    return Recipe(representation, "soft", n, k, None, None, rounds, scale, student, reasons)


def _soft(facts: PublicFacts) -> tuple[int, int, str]:
    per_class, growth = _CENTRES[facts.kind]
    wanted = round(per_class * facts.n_classes * max(facts.evidence, 1.0) ** growth)
    most = max(facts.n_public // _ROWS_PER_CENTRE, 2)
    n = max(2, min(max(wanted, _FEWEST), _MOST_CENTRES, most))
    k = max(1, min(_NEAREST, n // 2))
    why = "strokes make clusters" if facts.kind == "glyph" else f"evidence is below {_SOFT_BELOW:g}"
    near = f"{n} centres, {_ROWS_PER_CENTRE} public rows to each at least, the {k} nearest share a ballot"
    return n, k, f"{why}; {near}"


def _told(facts: PublicFacts) -> str:
    return f"evidence n mu / (m Delta) = {facts.evidence:.3g}"


def without_student(recipe: Recipe) -> Recipe:
    """Return the recipe with nobody who learns from its head: all of the budget is the head's own.

    Examples
    --------
    >>> known = choose(PublicFacts(n_units=40_000, n_classes=10, mu=0.14, n_public=9_000, kind="image"))
    >>> bare = without_student(known)
    >>> (known.student, bare.student), round(sum(r.share for r in bare.rounds), 9)
    (('image', None), 1.0)
    """
    if recipe.student is None:
        return recipe
    own = [r for r in recipe.rounds if not r.of_student]
    whole = sum(r.share for r in own)
    rounds = tuple(replace(r, share=r.share / whole) for r in own)
    reasons = (*recipe.reasons[:-1], ("no student", "the head is asked itself"))
    return replace(recipe, student=None, rounds=rounds, reasons=reasons)


_REPRESENTATION = {"table": "kernel", "mixed": "encoded"} | dict.fromkeys(("image", "glyph", "text"), "given")
_REPRESENTATIONS = {
    "kernel": "columns of numbers: components of a Laplacian kernel at the public median distance need no tuning",
    "encoded": "some columns are categories: quantiles, thermometers and one-hot columns, nearly linear already",
    "given": "images and texts have representations of their own",
}


def _image_student(facts: PublicFacts) -> tuple[str | None, str]:
    if facts.n_public < _STUDENT_ROWS:
        return None, f"{facts.n_public} public images are too few for a network"
    return "image", f"{facts.n_public} public images, {_STUDENT_ROWS} or more, teach a network what the head says"


def _student(facts: PublicFacts) -> tuple[str | None, str]:
    if facts.kind == "glyph" and facts.n_public >= _STUDENT_ROWS:
        return _image_student(facts)
    e = f"evidence {facts.evidence:.3g}"
    if facts.evidence < _RIDGE_BELOW:
        return "ridge", f"{e} is below {_RIDGE_BELOW:g}: public rows' own clusters smooth what noise made ragged"
    return None, f"{e} is {_RIDGE_BELOW:g} or more: the head knows more than its own labels teach"


def _with_student(
    facts: PublicFacts, student: str | None, rounds: tuple[Round, ...], why: str
) -> tuple[tuple[Round, ...], str]:
    """Return the rounds with that of an image student after them, where there is evidence enough for it."""
    start, share, clip = _STUDENT_ROUND.get(facts.kind, (math.inf, 0.0, 0.0))
    if student != "image" or facts.evidence < start:
        return rounds, why
    before = (replace(r, share=r.share * (1 - share)) for r in rounds)
    return (*before, Round(share, clip, of_student=True)), f"{why}; the last is of disagreements with the student"


def _head_rounds(facts: PublicFacts) -> tuple[tuple[Round, ...], str]:
    if facts.kind == "glyph":
        return (Round(1.0),), "a head of clusters"
    if facts.evidence < _SECOND_FROM:
        return (Round(1.0),), f"evidence is below {_SECOND_FROM:g}: disagreements would drown"
    why = f"evidence is {_SECOND_FROM:g} or more; disagreements clipped to {_SECOND_CLIP:g}"
    return (Round(0.5), Round(0.5, _SECOND_CLIP)), why
