"""The public rule: a recipe from public facts alone.

What each number rests on is written down in docs/record-recipes.md; it was chosen on splits of training parts
and on made tables, by ``experiments/rule_development.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pate.recipes._facts import PublicFacts
from pate.recipes._recipe import Recipe, Round

#: Soft ballots below this evidence, signed ones from it on: noise per component costs more than directions tell.
_SIGNED_FROM = {"table": 30.0, "mixed": 0.0, "image": 0.0, "glyph": math.inf, "text": 90.0}
#: ... of a table, where so many public rows find its components; fewer ask for more evidence, in proportion.
_ROWS_FOR_SIGNED = 1_000
#: Components of a signed ballot at an evidence of _SIGNED_AT, growing with its power _GROWTH.
_SIGNED_AT = {"table": (64, 55.0), "mixed": (40, 226.0), "image": (128, 92.0), "text": (64, 92.0)}
_GROWTH = 0.75
#: That many for so many classes, and in proportion to the root of their number.
_CLASSES_AT = {"table": 6, "mixed": 2, "image": 10, "text": 10}
_FEWEST, _MOST_SIGNED, _MOST_CENTRES = 16, 512, 400
#: Centres of a soft ballot per class at an evidence of 1, growing with its power _CENTRES_GROWTH.
_CENTRES_PER_CLASS = {"table": 3.0, "mixed": 3.0, "image": 12.0, "glyph": 20.0, "text": 3.0}
_CENTRES_GROWTH = {"table": 0.3, "mixed": 0.3, "image": 0.3, "glyph": 0.0, "text": 0.3}
#: A centre is the mean of at least so many public rows.
_ROWS_PER_CENTRE = 4
_NEAREST = 8
#: Whitening: categories are rare in many directions, which a stronger one would lift.
_ALPHA = {"table": 0.8, "mixed": 0.5, "image": 0.8, "text": 0.8}
#: The constant coordinate of a signed ballot carries the classes' shares, which mixed tables need most.
_CONSTANT = {"table": 0.0, "mixed": 0.3, "image": 0.0, "text": 0.0}
#: Rounds from this evidence on: (evidence, shares of mu^2, clip of the rounds after the first).
_ROUNDS: dict[str, tuple[tuple[float, tuple[float, ...], float], ...]] = {
    "table": ((15.0, (0.5, 0.5), 0.7), (45.0, (0.2,) + (0.8 / 3,) * 3, 0.5)),
    "mixed": ((1000.0, (0.5, 0.5), 0.7),),
    "image": ((200.0, (0.5, 0.5), 0.7), (1000.0, (0.2,) + (0.16,) * 5, 0.3)),
    "glyph": (),
    "text": ((200.0, (0.5, 0.5), 0.7), (1000.0, (0.2,) + (0.16,) * 5, 0.3)),
}
#: A network learns what a head says of public images, of so many at least.
_STUDENT_ROWS = 1_000
#: From this evidence on records vote with their disagreement with it: the share of mu^2 kept for that, and the clip.
_STUDENT_ROUND = {"image": (40.0, 0.4, 0.5), "glyph": (200.0, 0.5, 0.5)}
#: Logits of m classes spread over a multiple of log m: the head's prior.
_PRIOR = 0.65
#: Encoded categories are nearly linear in the logit: not narrower than this.
_LEAST_PRIOR = {"mixed": 1.0}
#: Above it the head knows more than its own labels of public rows teach a ridge.
_RIDGE_BELOW = 100.0
#: Trees learn what a head says of columns from this evidence on, from so many rows at least, and from so many
#: probabilities at most: a forest is the size of these.
_FOREST_FROM, _FOREST_ROWS, _FOREST_CELLS = 30.0, 300, 1_000_000


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
    >>> few.space, few.n_components, len(few.rounds)
    ('soft', 60, 1)
    >>> many = choose(PublicFacts(n_units=100_000, n_classes=10, mu=0.14, n_public=10_000))
    >>> many.space, many.n_components, len(many.rounds)
    ('signed', 512, 4)
    """
    evidence = facts.evidence
    representation = {"table": "kernel", "mixed": "encoded"}.get(facts.kind, "given")
    space, n_components, k, alpha, why = _space(facts)
    constant = _CONSTANT[facts.kind] if space == "signed" else None
    student, why_student = _student(facts)
    rounds, why_rounds = _rounds(facts, student)
    scale = max(_PRIOR * math.log(facts.n_classes), _LEAST_PRIOR.get(facts.kind, 0.0))
    told = f"evidence n mu / (m Delta) = {evidence:.3g}"
    reasons = (
        (f"representation {representation}", _REPRESENTATIONS[representation]),
        (f"{space} ballots", why),
        (f"{len(rounds)} round{'s' * (len(rounds) > 1)}", why_rounds),
        (
            f"head with a prior of scale {scale:.2g}",
            f"the likeliest classifier given the noisy sums; {told}",
        ),
        (f"student {student}" if student else "no student", why_student),
    )
    return Recipe(
        representation, space, n_components, k, alpha, constant, rounds, scale, student, reasons
    )  # fmt: skip


def without_student(recipe: Recipe) -> Recipe:
    """Return the recipe with nobody who learns from its head: all of the budget is the head's own.

    Examples
    --------
    >>> known = choose(PublicFacts(n_units=40_000, n_classes=10, mu=0.14, n_public=9_000, kind="image"))
    >>> bare = without_student(known)
    >>> (known.student, bare.student), round(sum(r.share for r in bare.rounds), 9)
    (('image', None), 1.0)
    """
    own = [r for r in recipe.rounds if not r.of_student]
    whole = sum(r.share for r in own)
    rounds = tuple(replace(r, share=r.share / whole) for r in own)
    reasons = (*recipe.reasons[:-1], ("no student", "the head is asked itself"))
    return replace(recipe, student=None, rounds=rounds, reasons=reasons)


_REPRESENTATIONS = {
    "kernel": "columns of numbers: components of a Laplacian kernel at the public median distance need no tuning",
    "encoded": "some columns are categories: quantiles, thermometers and one-hot columns, nearly linear already",
    "given": "images and texts have representations of their own",
}


def _space(facts: PublicFacts) -> tuple[str, int, int | None, float | None, str]:
    evidence, most = facts.evidence, facts.most_components
    start = _SIGNED_FROM[facts.kind]
    if facts.kind == "table":
        start *= max(1.0, _ROWS_FOR_SIGNED / facts.n_public)
    if evidence >= start:
        base, at = _SIGNED_AT[facts.kind]
        wanted = round(base * (evidence / at) ** _GROWTH * math.sqrt(facts.n_classes / _CLASSES_AT[facts.kind]))
        n = max(1, min(max(wanted, _FEWEST), _MOST_SIGNED, most))
        return "signed", n, None, _ALPHA[facts.kind], (
            f"evidence {evidence:.3g} is {start:g} or more; {n} components for it, where public rows tell {most} apart"
        )  # fmt: skip
    wanted = round(_CENTRES_PER_CLASS[facts.kind] * facts.n_classes * max(evidence, 1.0) ** _CENTRES_GROWTH[facts.kind])
    most = max(facts.n_public // _ROWS_PER_CENTRE, 2)
    n = max(2, min(max(wanted, _FEWEST), _MOST_CENTRES, most))
    k = max(1, min(_NEAREST, n // 2))
    why = f"evidence {evidence:.3g} is below {start:g}" if math.isfinite(start) else "strokes make clusters"
    return "soft", n, k, None, (
        f"{why}; {n} centres, {_ROWS_PER_CENTRE} public rows to each at least, "
        f"the {k} nearest share a ballot"
    )  # fmt: skip


def _student(facts: PublicFacts) -> tuple[str | None, str]:
    if facts.kind == "mixed":
        return None, "categories make no clusters"
    if facts.kind in _STUDENT_ROUND and facts.n_public >= _STUDENT_ROWS:
        return "image", f"{facts.n_public} public images, {_STUDENT_ROWS} or more, teach a network what the head says"
    if facts.quantiles and facts.columns:
        return "ridge", "columns compared by quantiles: a ridge sees as much as trees, and is smoother"
    e = f"evidence {facts.evidence:.3g}"
    some = facts.n_public >= _FOREST_ROWS and facts.n_public * facts.n_classes <= _FOREST_CELLS
    if facts.kind == "table" and facts.columns and some and facts.evidence >= _FOREST_FROM:
        return "forest", f"{e} is {_FOREST_FROM:g} or more: trees see single columns, and the sums put them right"
    if facts.evidence < _RIDGE_BELOW:
        return "ridge", f"{e} is below {_RIDGE_BELOW:g}: public rows' own clusters smooth what noise made ragged"
    return None, f"{e} is {_RIDGE_BELOW:g} or more: the head knows more than its own labels teach"


def _rounds(facts: PublicFacts, student: str | None) -> tuple[tuple[Round, ...], str]:
    rounds, why = _head_rounds(facts)
    start, share, clip = _STUDENT_ROUND.get(facts.kind, (math.inf, 0.0, 0.0))
    if student != "image" or facts.evidence < start:
        return rounds, why
    before = (Round(r.share * (1 - share), r.clip) for r in rounds)
    return (*before, Round(share, clip, of_student=True)), f"{why}; the last is of disagreements with the student"


def _head_rounds(facts: PublicFacts) -> tuple[tuple[Round, ...], str]:
    known = _ROUNDS[facts.kind]
    steps = [step for step in known if facts.evidence >= step[0]]
    if not steps:
        e = f"evidence {facts.evidence:.3g}"
        why = f"{e} is below {known[0][0]:g}: disagreements would drown in noise" if known else "a head of clusters"
        return (Round(1.0),), why
    reached, (first, *later), clip = steps[-1]
    rounds = (Round(first), *(Round(share, clip) for share in later))
    return rounds, f"evidence {facts.evidence:.3g} is {reached:g} or more; disagreements clipped to {clip:g}"
