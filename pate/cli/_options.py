"""Options that several commands share, each declared once: type, help, group of ``--help``, allowed words.

Defaults that mean the same everywhere stand here too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from pate.exceptions import InvalidInputError

# Groups of ``--help``, in no order: a command's help has them in the order of its options.
PRIVATE = "Private data"
PUBLIC = "Public rows"
TABLES = "Tables"
IMAGES = "Folders of images"
VOTES = "Votes cast elsewhere"
TEACHERS = "Teachers"
PRIVACY = "Privacy"
NOISE = "Noise and queries"
STATEMENT = "Statement"
MODEL = "Model"
OUTPUT = "Output"
RUN = "Run"
SCREEN = "On the screen"

DELTA = 1e-5
JOBS = -1


class Names(tuple[str, ...]):
    """Names as a command line gives them, ``--classes a,b`` or, commas and all, ``--classes a --classes b,c``."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Sequence[str], *, listed: bool = False) -> Names:
        """Return the names in texts: one holds several by commas, unless it is from a list; of several each is one."""
        if listed or len(values) != 1:
            return cls(value.strip() for value in values)
        return cls(part.strip() for part in values[0].split(",") if part.strip())


def whole_or_names(text: str) -> int | Names:
    """Return how many there are, or their names where these were given."""
    return int(text) if text.strip().isdecimal() else Names.of([text])


class Size(tuple[int, int]):
    """Width and height, such as ``28x28``."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: Any) -> Size:
        """Return the two numbers in a text."""
        if not isinstance(value, str):
            return cls(value)
        width, _, height = value.lower().partition("x")
        if not (width.strip().isdecimal() and height.strip().isdecimal()):
            raise InvalidInputError(f"size must be WIDTHxHEIGHT such as 28x28, got {value!r}.")
        return cls((int(width), int(height)))


def option(text: str, group: str, *names: str, **more: Any) -> Any:
    """Return what ``Annotated`` says of an option; ``names`` where ``--name`` would not do."""
    return typer.Option(*names, help=text, rich_help_panel=group, **more)


def names_option(text: str, group: str) -> Any:
    """Return what ``Annotated`` says of an option that takes :class:`Names`; its type is ``list[str]``."""
    return option(text, group, callback=_names, metavar="A,B,...", show_default=False)


def _names(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    if not value:
        return value if value is None else Names()
    source = context.get_parameter_source(str(parameter.name))
    names = Names.of(value, listed=source is not None and source.name == "DEFAULT_MAP")
    if not names:
        raise typer.BadParameter(f"got no name in {', '.join(map(repr, value))}. Name one, or leave the option out.")
    return names


def size_option(text: str, group: str) -> Any:
    """Return what ``Annotated`` says of an option that takes a :class:`Size`."""
    return option(text, group, parser=_size, metavar="WxH")


def _size(value: Any) -> Size:
    try:
        return Size.parse(value)
    except InvalidInputError as error:  # some versions of click tell of any ValueError in words of their own
        raise typer.BadParameter(str(error)) from None


EPSILON_TEXT = "The most that may be spent, above 0; at most 1 is strong."
Epsilon = Annotated[float, option(EPSILON_TEXT, PRIVACY)]
Delta = Annotated[float, option("Well below one over the number of people.", PRIVACY)]
Commonest = Annotated[
    float | None,
    option("Share of the commonest class, if publicly known: labels expected to be worse are refused.", PRIVATE),
]
Tuning = Annotated[str, option("For the statement: what was tuned on private data, and if it is charged.", STATEMENT)]

Teachers = Annotated[int, option("Number of teachers: disjoint shards of the private data.", TEACHERS)]
PartitionSeed = Annotated[
    int | None,
    option("Cut the shards by this seed, not by a secret: for data that are nobody's secret only.", TEACHERS),
]

#: A mechanism's name where one must be named (``pate account``), and where it may be left out.
NamedMechanism = Annotated[Literal["histogram", "gnmax", "lnmax", "confident"], option("Kind of noise.", NOISE)]
MechanismName = Annotated[
    Literal["histogram", "gnmax", "lnmax", "confident"] | None,
    option("Kind of noise; histogram, calibrated to the budget, when left out.", NOISE),
]
Sigma = Annotated[float | None, option("Gaussian noise on every count, in votes.", NOISE)]
Scale = Annotated[float | None, option("Laplace noise on every count (lnmax), in votes.", NOISE)]
Threshold = Annotated[float | None, option("Votes the largest count must reach (confident).", NOISE)]
SigmaThreshold = Annotated[float | None, option("Noise of that test, in votes (confident).", NOISE)]
Queries = Annotated[int | None, option("How many public rows to ask about.", NOISE)]
Gap = Annotated[float | None, option("Abstain below so many votes of noisy lead (histogram).", NOISE)]
MaxAnswers = Annotated[int | None, option("Cap on answers (confident); the whole cap is charged.", NOISE)]
OnExhausted = Annotated[Literal["raise", "abstain"], option("When the budget does not buy all queries.", NOISE)]

Jobs = Annotated[int, option("Teachers side by side; -1 takes every core.", RUN)]
Seed = Annotated[int, option("Seed of splits and training; never of the shards or the privacy noise.", RUN)]

# Of files of votes.
VoteKind = Annotated[
    Literal["counts", "labels"] | None,
    option("What the file holds, where its shape does not tell: counts (rows x classes) or labels (teachers x rows).",
           VOTES),
]  # fmt: skip
VoteKey = Annotated[str | None, option("Which array of an .npz, where it has several.", VOTES)]

# Of named data sets.


def _known(value: str) -> str:
    """Refuse an unknown name before anything else that is missing is asked for."""
    from pate.data.named.datasets import check_dataset

    return check_dataset("--dataset", value, remedy="For a table of your own: pate label.")


DatasetName = Annotated[str, option("digits, mnist, fashion_mnist, adult, diabetes130, ...", RUN, callback=_known)]
Protocol = Annotated[Literal["standard", "paper"], option("paper takes public rows from the test set.", PUBLIC)]
PublicRows = Annotated[int | None, option("Number of public rows.", PUBLIC)]
PrivateRows = Annotated[int | None, option("Number of private rows.", PRIVATE)]


def chosen_mechanism(
    name: str | None, sigma: float | None, scale: float | None, threshold: float | None, sigma_threshold: float | None
) -> Any:
    """Return the mechanism that the options name; None: it will be calibrated to the budget."""
    from pate.mechanisms import make_mechanism

    parameters = {"sigma": sigma, "scale": scale, "threshold": threshold, "sigma_threshold": sigma_threshold}
    if name is not None:
        try:
            return make_mechanism(name, **parameters)
        except InvalidInputError as error:
            told = str(error)
            for option_name in parameters:  # as a person types them: these are plain words too
                told = re.sub(rf"(?<![\w-]){option_name}\b", "--" + option_name.replace("_", "-"), told)
            raise InvalidInputError(told) from None
    if any(value is not None for value in parameters.values()):
        raise InvalidInputError("noise is given without a mechanism. Say --mechanism gnmax, for example.")
    return None
