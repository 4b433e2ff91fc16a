"""Who can take part, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pate.comparison.contestants import _dpsgd, _pate, _references, _rivals, _shards
from pate.comparison.contestants._dpsgd import check_images, is_large
from pate.comparison.contestants._tuning import DPSGD, DPSGD_ON_PUBLIC, FAST, NOTHING, PATE_2018, RECORDS, RIVALS
from pate.comparison.contract import Contestant
from pate.core.checks import check_choice
from pate.exceptions import InvalidInputError

_PRIVATE = "private rows and labels; public rows without labels"
_SHARDS = "private rows and labels, in shards; public rows without labels, some of which get noisy ones"
_PIXELS = "private rows and labels; of public rows how many there are"

_ALL = (
    Contestant("pate", _pate.default, side="PATE", tuning=RECORDS, sees=_PRIVATE),
    Contestant("pate-fast", _pate.fast, side="PATE", tuning=FAST, sees=_PRIVATE),
    Contestant("records-linear", _pate.linear, side="PATE", tuning=RECORDS, sees=_PRIVATE),
    Contestant("records-same", _pate.same, side="PATE", tuning=RECORDS, sees=_PRIVATE),
    Contestant("gnmax", _shards.gnmax, side="PATE", tuning=PATE_2018, sees=_SHARDS),
    Contestant("confident-gnmax", _shards.confident, side="PATE", tuning=PATE_2018, sees=_SHARDS),
    Contestant("dpsgd", _dpsgd.by_recipe, side="DP-SGD", tuning=DPSGD, sees=_PRIVATE),
    Contestant("dpsgd-linear-public", _dpsgd.on_public, side="DP-SGD", tuning=DPSGD_ON_PUBLIC, sees=_PRIVATE),
    Contestant("dpsgd-linear-scattering", _dpsgd.scattering, side="DP-SGD", tuning=DPSGD, sees=_PRIVATE),
    Contestant("dpsgd-tempered-cnn", _dpsgd.tempered, side="DP-SGD", tuning=DPSGD, sees=_PIXELS),
    Contestant("auto", _pate.auto, tuning=RECORDS, sees=_PRIVATE),
    Contestant("private-knn", _rivals.private_knn, tuning=RIVALS, sees=_PRIVATE),
    Contestant("sparse-vector", _rivals.sparse_vector, tuning=RIVALS, sees=_SHARDS),
    Contestant("majority", _references.majority, tuning=NOTHING, sees="private labels, through a noisy count"),
    Contestant(
        "public-labels-100",
        _references.public_labels,
        role="floor",
        tuning=NOTHING,
        sees="no private row; public rows, 100 of them with their labels, as if somebody had labelled them by hand",
        n_public_labels=100,
    ),
    Contestant(
        "noiseless",
        _pate.noiseless,
        role="ceiling",
        tuning=RECORDS,
        sees="private rows and labels without privacy: the default's ballots, without noise; public rows",
    ),
    Contestant(
        "no-privacy",
        _references.no_privacy,
        role="ceiling",
        tuning=NOTHING,
        sees="private rows and labels without privacy; of public rows how columns are encoded",
    ),
)
_BY_NAME = {contestant.name: contestant for contestant in _ALL}

#: Who can be named.
NAMES = tuple(_BY_NAME)
#: Networks on images take hours of a comparison: they are asked for by name.
_QUICK = ("pate-fast", "dpsgd", "majority", "public-labels-100", "no-privacy")
_USUAL = ("pate", "dpsgd", "confident-gnmax", "majority", "public-labels-100", "no-privacy")
#: Who is for images of 16 pixels a side and more alone.
_OF_IMAGES = ("dpsgd-linear-scattering", "dpsgd-tempered-cnn")


def named(
    names: Iterable[str], *, kind: str | None = None, image_shape: tuple[int, ...] | None = None
) -> tuple[Contestant, ...]:
    """Return contestants by name, in that order.

    Parameters
    ----------
    names : iterable of str
        Of :data:`NAMES`:

        ======================= ========================================================================================
        pate                    this package's default: records vote; images by a network that learns from their labels
        pate-fast               record voters without networks: images by scattering; of tables the same as ``pate``
        records-linear          record voters on ``pate``'s representation, their linear head alone
        records-same            record voters' linear head on the representation that ``dpsgd`` takes
        gnmax, confident-gnmax  the 2018 recipe: 250 teachers (or one for every 20 records), labels alone are released
        dpsgd                   DP-SGD by its planner: a linear model on what public rows teach
        dpsgd-linear-public     linear DP-SGD on ``pate``'s representation
        dpsgd-linear-scattering images: linear DP-SGD on scattering (what the planner takes there)
        dpsgd-tempered-cnn      images: a small tanh network on pixels
        auto                    ``voters="auto"``: records or DP-SGD by a public rule; it counts as neither side
        private-knn             noisy votes of the nearest records (Zhu et al. 2020), on scattering or ``pate``'s map
        sparse-vector           teachers' plurality where it is stable (Bassily et al. 2018), on the same
        majority                the commonest class, by a noisy count of the private labels
        public-labels-100       a floor: 100 public rows labelled by hand, and no private row
        noiseless               a ceiling: the ballots of ``pate`` without noise
        no-privacy              a ceiling: a good ordinary model of all private rows
        ======================= ========================================================================================

    kind : {"table", "image"} or None
        Of the data, with ``image_shape``: who is not for such data is then refused at once, not when it is made.
    image_shape : tuple or None

    Returns
    -------
    tuple of Contestant

    Raises
    ------
    InvalidInputError
        An unknown name, one that stands there twice, or none; one that is not for such data.

    Examples
    --------
    >>> [contestant.side for contestant in named(["pate", "dpsgd"])]
    ['PATE', 'DP-SGD']
    >>> named(["pat"])
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: contestants must be one of ... Did you mean 'pate'?
    """
    wanted: list[Any] = [names] if isinstance(names, str) else list(names)
    if not wanted or len({str(name) for name in wanted}) < len(wanted):
        raise InvalidInputError(
            f"contestants must be names, one or more and each once, got {wanted!r}. Known are {', '.join(NAMES)}."
        )
    found = tuple(_BY_NAME[check_choice("contestants", name, NAMES)] for name in wanted)
    for contestant in found if kind is not None else ():
        if contestant.name in _OF_IMAGES:
            check_images(contestant.name, image_shape if kind == "image" else None)
    return found


def default_contestants(kind: str, image_shape: tuple[int, ...] | None = None) -> tuple[Contestant, ...]:
    """Return who takes part where nobody is named: those that are done in minutes on such data.

    On images of 16 pixels a side and more ``pate-fast`` stands in for ``pate``, whose networks take a quarter of an
    hour a fit on one core (docs/accuracy.md): name it to have it.

    Parameters
    ----------
    kind : {"table", "image"}
    image_shape : tuple or None

    Examples
    --------
    >>> [contestant.name for contestant in default_contestants("image", (28, 28))][:2]
    ['pate-fast', 'dpsgd']
    >>> [contestant.name for contestant in default_contestants("table")][:2]
    ['pate', 'dpsgd']
    """
    check_choice("kind", kind, ("table", "image"))
    return named(_QUICK if kind == "image" and is_large(image_shape) else _USUAL)
