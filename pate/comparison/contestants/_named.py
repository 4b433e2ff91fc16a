"""Who can take part, by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from pate.comparison.contestants import _pate, _references
from pate.comparison.contestants._pate import facts_of_setting, own_representation, planned
from pate.comparison.contract import Contestant, Setting, Tuning
from pate.core.checks import check_choice
from pate.dpsgd import DPSGDClassifier
from pate.dpsgd._fit import fit_privately
from pate.dpsgd.recipes import RecipePlan, choose_recipe
from pate.exceptions import InvalidInputError
from pate.representations import PublicPCA, UnitRows, chain

# How the contestants' rules were found: counted where there is something to count (docs/comparison.md).

#: Settings named in docs/research-log.md on whose account the records' rule is as it is, section by section; what was
#: tried and not written down is not in it.
_RECORDS = {
    "ballots": 19,
    "representations": 27,
    "heads": 20,
    "residual rounds": 13,
    "self-supervision": 4,
    "trees": 50,
    "students": 63,
}
#: "Best of a dozen" for linear DP-SGD on scattering (docs/accuracy.md); six for digits (experiments/README.md).
#: How many kernels and components were tried for the table presets was not written down.
_DPSGD = {"scattering": 12, "digits": 6}

RECORDS = Tuning(
    rule="pate's rule for record voters, from public facts (docs/record-recipes.md)",
    n_tried=sum(_RECORDS.values()),
    on="splits of training parts (digits, optdigits, pendigits, spambase, Adult, MNIST, Fashion-MNIST) and made "
    "tables; at least so many, as far as the research log names them",
)
DPSGD = Tuning(
    rule="DP-SGD's planner, from public facts (docs/dpsgd-recipes.md)",
    n_tried=sum(_DPSGD.values()),
    on="splits of private parts of digits, Adult, pendigits, MNIST and Fashion-MNIST, and digits itself; at least so "
    "many, as far as they were written down",
)
#: 4, 10 or 20 records to a teacher, noise of 0.16 or 0.3 of the votes, label spreading or the teachers' kind.
_TUNED_SHARDS = 10
PATE_2018 = Tuning(
    rule="the rows of pate plan at the paper's share of noise, 250 teachers or one for every 20 records",
    n_tried=_TUNED_SHARDS,
    on="one split each of the private parts of digits and pendigits, epsilon 1 and 3",
)
#: As many components as the evidence bears, or all.
_ON_PUBLIC = 2
DPSGD_ON_PUBLIC = Tuning(
    rule="DP-SGD's planner, from public facts, on PATE's representation",
    n_tried=sum(_DPSGD.values()) + _ON_PUBLIC,
    on=f"what DP-SGD's presets were tried on; {_ON_PUBLIC} ways to take PATE's representation on one split each of the "
    "private parts of digits and pendigits, epsilon 0.5, 1 and 3",
)
#: The rule for images or for tables, with a student or without.
_WITHOUT_NETWORKS = 3
FAST = Tuning(
    rule=RECORDS.rule,
    n_tried=RECORDS.n_tried + _WITHOUT_NETWORKS,
    on=f"{RECORDS.on}; {_WITHOUT_NETWORKS} ways to take scattering on one split each of 23,000 private rows of "
    "MNIST and Fashion-MNIST, epsilon 0.1, 0.5, 1 and 3",
)
#: Of the settings of private kNN; those of the sparse vector come from a law of distances (docs/rivals.md).
_RIVALS = 451
RIVALS = Tuning(
    rule="a rule of its own, from public facts (docs/rivals.md)",
    n_tried=_RIVALS,
    on="splits of training parts of digits, optdigits and pendigits; combinations of data set and setting, for private "
    "kNN and the sparse vector together",
)
NOTHING = Tuning(rule="nothing to set")


# DP-SGD's side: what its planner says, its presets by name, and linear models on PATE's representation.

_SMALL_IMAGE = 16
#: Whitening of components of PATE's representation, as of the planner's kernel.
_ALPHA = 0.7


class PlannedDPSGD(DPSGDClassifier):
    """DP-SGD whose recipe was planned beforehand, of public facts, with the representation that was kept for it."""

    def along(self, plan: RecipePlan) -> PlannedDPSGD:
        """Take a plan, and return this object."""
        self._plan_ahead = plan
        return self

    def __sklearn_clone__(self) -> Any:
        return super().__sklearn_clone__().along(self._plan_ahead)

    def fit(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None) -> DPSGDClassifier:
        """Fit as :class:`pate.DPSGDClassifier` does, along the plan."""
        return self._take(
            fit_privately(self, X, y, X_public=X_public, groups=groups, road=self._plan_ahead, measuring=True)
        )


def is_large(image_shape: tuple[int, ...] | None) -> bool:
    """Whether rows are images that maps of images are for; smaller ones are tables of pixels."""
    return image_shape is not None and min(image_shape[-2:]) >= _SMALL_IMAGE


def check_images(contestant: str, image_shape: tuple[int, ...] | None) -> None:
    """Refuse a contestant that is for images alone.

    Raises
    ------
    InvalidInputError
    """
    if not is_large(image_shape):
        raise InvalidInputError(
            f"contestant {contestant!r} is for images of at least {_SMALL_IMAGE} pixels a side, got "
            f"{'tables' if image_shape is None else f'images of {image_shape}'}. Take 'dpsgd', which plans for any "
            "data."
        )


def by_recipe(setting: Setting, *, name: str | None = None, contestant: str = "dpsgd") -> DPSGDClassifier:
    """Return DP-SGD by its planner, or by a preset.

    Raises
    ------
    InvalidInputError
        The preset is not for such data.
    """
    if name is not None:
        check_images(contestant, setting.image_shape)
    return _planned_classifier(setting, planned(setting, name=name))


def on_public(setting: Setting) -> DPSGDClassifier:
    """Return linear DP-SGD on the very representation that PATE's default fits on public rows."""
    rep = own_representation(setting)
    plan = planned(setting, representation=rep)
    # As the planner does on a representation of its own: as many components as the evidence bears, partly whitened.
    n = choose_recipe(facts_of_setting(setting)).n_components
    pca = PublicPCA(None if n is None else min(n, rep.n_features_out_), alpha=_ALPHA)
    last = chain(pca, UnitRows(constant=plan.recipe.constant)).fit(rep.vectors(setting.X_public))
    return _planned_classifier(setting, replace(plan, maps=(rep, last)))


def _planned_classifier(setting: Setting, plan: RecipePlan) -> DPSGDClassifier:
    return PlannedDPSGD(
        budget=setting.budget,
        classes=setting.classes,
        image_shape=setting.image_shape,
        device="auto",
        random_state=setting.seed,
        noise_seed=setting.noise_seed,
    ).along(plan)


scattering = partial(by_recipe, name="linear", contestant="dpsgd-linear-scattering")
tempered = partial(by_recipe, name="tempered-cnn", contestant="dpsgd-tempered-cnn")


_PRIVATE = "private rows and labels; public rows without labels"
_SHARDS = "private rows and labels, in shards; public rows without labels, some of which get noisy ones"
_PIXELS = "private rows and labels; of public rows how many there are"

_ALL = (
    Contestant("pate", _pate.default, side="PATE", tuning=RECORDS, sees=_PRIVATE),
    Contestant("pate-fast", _pate.fast, side="PATE", tuning=FAST, sees=_PRIVATE),
    Contestant("records-linear", _pate.linear, side="PATE", tuning=RECORDS, sees=_PRIVATE),
    Contestant("records-same", _pate.same, side="PATE", tuning=RECORDS, sees=_PRIVATE),
    Contestant("gnmax", _pate.gnmax, side="PATE", tuning=PATE_2018, sees=_SHARDS),
    Contestant("confident-gnmax", _pate.confident, side="PATE", tuning=PATE_2018, sees=_SHARDS),
    Contestant("dpsgd", by_recipe, side="DP-SGD", tuning=DPSGD, sees=_PRIVATE),
    Contestant("dpsgd-linear-public", on_public, side="DP-SGD", tuning=DPSGD_ON_PUBLIC, sees=_PRIVATE),
    Contestant("dpsgd-linear-scattering", scattering, side="DP-SGD", tuning=DPSGD, sees=_PRIVATE),
    Contestant("dpsgd-tempered-cnn", tempered, side="DP-SGD", tuning=DPSGD, sees=_PIXELS),
    Contestant("auto", _pate.auto, tuning=RECORDS, sees=_PRIVATE),
    Contestant("private-knn", _pate.private_knn, tuning=RIVALS, sees=_PRIVATE),
    Contestant("sparse-vector", _pate.sparse_vector, tuning=RIVALS, sees=_SHARDS),
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
