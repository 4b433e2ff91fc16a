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
#: Components of images whose head teaches a network, at an evidence of 92 for 10 classes, as the root of their number.
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
#: A network learns what a head says of public images, of so many at least.
_STUDENT_ROWS = 1_000
#: From this evidence on records vote with their disagreement with it: the share of mu^2 kept for that, and the clip.
_STUDENT_ROUND = {"image": (40.0, 0.4, 0.5), "glyph": (200.0, 0.5, 0.5)}
#: Logits of m classes spread over a multiple of log m: the prior of a likelihood head, and its least with a constant.
_PRIOR, _LEAST_PRIOR = 0.65, 1.0
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
    taught = facts.kind == "image" and facts.n_public >= _STUDENT_ROWS
    return _by_likelihood(facts) if weak or taught or facts.kind == "glyph" else _by_descent(facts)


def _by_descent(facts: PublicFacts) -> Recipe:
    representation = _REPRESENTATION[facts.kind]
    wanted = round(_COMPONENTS * (facts.evidence / _AT) ** _GROWTH)
    n = max(1, min(max(wanted, _FEWEST), _MOST, facts.most_components))
    n_rounds = _MANY if facts.n_units * n < _FEW_FROM else _FEW
    alpha = _ALPHA_OF_IMAGES if facts.kind == "image" else _ALPHA
    reasons = (
        (f"representation {representation}", _REPRESENTATIONS[representation]),
        (f"signed ballots of {n} components", f"{_told(facts)}, {facts.n_public} public rows"),
        (
            f"{n_rounds} rounds, clipped to {_CLIP:g}",
            "each record votes with what it has against the model so far; no law of the public rows is trusted",
        ),
        ("descent", "every released sum is a step, shrunk by what is known of its noise"),
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
        (f"head with a prior of scale {scale:.2g}", f"the likeliest classifier given the noisy sums; {_told(facts)}"),
        (f"student {student}" if student else "no student", why_student),
    )
    return Recipe(representation, space, n, k, alpha, constant, rounds, scale, student, reasons)


def _space(facts: PublicFacts) -> tuple[str, int, int | None, str]:
    if facts.kind == "image":
        per_class = math.sqrt(facts.n_classes / _OF_IMAGES_CLASSES)
        wanted = round(_OF_IMAGES * (facts.evidence / _OF_IMAGES_AT) ** _GROWTH * per_class)
        n = max(1, min(max(wanted, _FEWEST), _MOST_OF_IMAGES, facts.most_components))
        return "signed", n, None, f"{n} components for {_told(facts)}, {facts.n_public} public rows"
    per_class, growth = _CENTRES[facts.kind]
    wanted = round(per_class * facts.n_classes * max(facts.evidence, 1.0) ** growth)
    most = max(facts.n_public // _ROWS_PER_CENTRE, 2)
    n = max(2, min(max(wanted, _FEWEST), _MOST_CENTRES, most))
    k = max(1, min(_NEAREST, n // 2))
    why = "strokes make clusters" if facts.kind == "glyph" else f"evidence is below {_SOFT_BELOW:g}"
    near = f"{n} centres, {_ROWS_PER_CENTRE} public rows to each at least, the {k} nearest share a ballot"
    return "soft", n, k, f"{why}; {near}"


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


def _student(facts: PublicFacts) -> tuple[str | None, str]:
    if facts.kind in _STUDENT_ROUND and facts.n_public >= _STUDENT_ROWS:
        return "image", f"{facts.n_public} public images, {_STUDENT_ROWS} or more, teach a network what the head says"
    e = f"evidence {facts.evidence:.3g}"
    if facts.evidence < _RIDGE_BELOW:
        return "ridge", f"{e} is below {_RIDGE_BELOW:g}: public rows' own clusters smooth what noise made ragged"
    return None, f"{e} is {_RIDGE_BELOW:g} or more: the head knows more than its own labels teach"


def _rounds(facts: PublicFacts, student: str | None) -> tuple[tuple[Round, ...], str]:
    rounds, why = _head_rounds(facts)
    start, share, clip = _STUDENT_ROUND.get(facts.kind, (math.inf, 0.0, 0.0))
    if student != "image" or facts.evidence < start:
        return rounds, why
    before = (replace(r, share=r.share * (1 - share)) for r in rounds)
    return (*before, Round(share, clip, of_student=True)), f"{why}; the last is of disagreements with the student"


def _head_rounds(facts: PublicFacts) -> tuple[tuple[Round, ...], str]:
    known = _ROUNDS.get(facts.kind, ())
    steps = [step for step in known if facts.evidence >= step[0]]
    if not steps:
        why = f"evidence is below {known[0][0]:g}: disagreements would drown" if known else "a head of clusters"
        return (Round(1.0),), why
    reached, (first, *later), clip = steps[-1]
    rounds = (Round(first), *(Round(share, clip) for share in later))
    return rounds, f"evidence is {reached:g} or more; disagreements clipped to {clip:g}"
