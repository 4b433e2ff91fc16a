"""Pieces of a user's own: what must work through public names, and what is refused in plain words (docs/extend.md)."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

from pate import Budget, Charge, GNMax, InvalidInputError, Votes, release_labels
from pate.audit import independence, law
from pate.comparison.contract import Contestant, Setting
from pate.data import Dataset, HeldOutRows, PrivateRows, PublicRows
from pate.mechanisms import ANSWERED, Draw, Mechanism
from pate.models.heads import Head, load_head
from pate.privacy import calibrate
from pate.privacy.noise import uniform_below
from pate.representations import FromTransformer

BUDGET = Budget(2.0, 1e-4)
VOTES = Votes.from_counts([[60, 40]] * 9, classes=["no", "yes"], query_hashes=tuple("abcdefghi"))


@dataclass(frozen=True)
class Urn(Mechanism):
    blanks: int = 100
    family = "urn"
    noise_fields = ()

    def charge(self, n_queries, max_answers=None):
        return Charge.pure_dp(np.log1p(1 / self.blanks)) * n_queries

    def sample(self, counts, noise, *, max_answers=None):
        ends = (counts + self.blanks).cumsum(axis=1)
        labels = (uniform_below(ends[:, -1], noise)[:, None] >= ends).sum(axis=1)
        return Draw(labels, np.full(len(labels), ANSWERED))


@dataclass(frozen=True)
class KnownUrn(Urn):
    def log_probs(self, counts):
        urn = counts + self.blanks
        return np.log(urn / urn.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Wide(GNMax):
    """A mechanism with a noise of another name beside the one that it inherits."""

    width: float = 3.0
    noise_fields = ("sigma", "width")


def test_a_mechanism_without_noises_is_audited():
    """It was an IndexError: a bank was made for the first of its noises."""
    assert not law(KnownUrn(100), n_classes=3, noise_seed=0, max_releases=2_000).refuted
    assert law(KnownUrn(100), sampler=KnownUrn(30), n_classes=3, noise_seed=0).refuted
    assert not independence(KnownUrn(100), noise_seed=0, max_releases=2_000).refuted


def test_one_without_a_law_is_refused_in_words():
    with pytest.raises(InvalidInputError, match=r"law knows no law of Urn\. Register it"):
        law(Urn(100))


def test_noises_are_named_in_public():
    assert Wide(40.0).scaled(2.0) == Wide(80.0, 6.0)
    with pytest.raises(InvalidInputError, match="width must be"):
        Wide(40.0, -1.0)
    assert Urn(7).scaled(2.0) == Urn(7)

    @dataclass(frozen=True)
    class Unnamed(Urn):
        noise_fields = ("sigma",)

    with pytest.raises(InvalidInputError, match=r"noise_fields of Unnamed must name fields .* got 'sigma'"):
        Unnamed(7)


def test_a_mechanism_that_no_noise_makes_cheaper_is_not_searched_for_ever():
    assert calibrate(Urn(100), BUDGET, n_queries=9) == Urn(100)
    with pytest.raises(InvalidInputError.__base__, match="no amount of noise"):
        calibrate(Urn(1), Budget(0.1, 1e-4), n_queries=9)


@pytest.mark.parametrize(("m", "above"), [(2, [3, 0]), (4, [2, 7, 0, 1])])
def test_the_mechanism_of_the_page_costs_what_it_charges(m, above):
    """Brute force over all neighbours of small votes, the empty and the full ones among them."""
    worst = 0.0
    for counts in (np.zeros(m, dtype=int), np.array(above), np.eye(m, dtype=int)[0] * 9):
        for lost in range(m):
            for won in range(m):
                other = counts + np.eye(m, dtype=int)[won] - np.eye(m, dtype=int)[lost]
                if (other >= 0).all():
                    p, q = (KnownUrn(5).log_probs(c[None]) for c in (counts, other))
                    worst = max(worst, float(np.abs(p - q).max()))
    assert worst <= KnownUrn(5).charge(1).pure * (1 + 1e-12)
    assert worst > 0.1


def test_the_statement_of_a_foreign_mechanism_vouches_for_nothing():
    made = release_labels(VOTES, Urn(50), budget=BUDGET).statement
    (claim,) = (a for a in made.assumptions if a.name == "mechanism")
    assert claim.by == "nobody"
    assert "Urn, which is not pate's" in made.noise_source
    assert "real-valued" not in made.noise_source
    assert f"from {__name__} import Urn; Urn(blanks=50).charge(9, 9)" in made.verify
    said = release_labels(VOTES, Urn(50), budget=BUDGET, stated={"mechanism": "our proof"}).statement
    assert [(a.how, a.by) for a in said.assumptions if a.name == "mechanism"] == [("our proof", "curator")]


def test_the_statement_of_ours_is_as_it_was():
    made = release_labels(VOTES, GNMax(40.0), budget=BUDGET).statement
    assert "mechanism" not in [a.name for a in made.assumptions]
    assert made.verify.startswith("from pate import GNMax; GNMax(")
    assert made.noise_source.endswith("as exact real-valued (continuous) noise")
    with pytest.raises(InvalidInputError, match="unknown entry 'mechanism'"):
        release_labels(VOTES, GNMax(40.0), budget=BUDGET, stated={"mechanism": "as published"})


PARTS = {
    "private": PrivateRows(np.eye(4), np.array([0, 1, 0, 1])),
    "public": PublicRows(np.eye(4)[:2], np.array([0, 1])),
    "test": HeldOutRows(np.eye(4)[2:], np.array([0, 1])),
}


def test_a_data_set_is_a_name_classes_and_parts():
    mine = Dataset("mine", classes=("no", "yes"), **PARTS)
    said = (mine.protocol, mine.kind, mine.image_shape, mine.description, mine.redraws)
    assert said == ("own", "table", None, "", "nothing")
    assert Dataset("mine", classes=(0, 1), image_shape=(2, 2), **PARTS).kind == "image"
    assert replace(mine, name="other").kind == "table"
    assert mine.pooled().n_pool == 8
    by_place = Dataset("mine", "own", "table", ("no", "yes"), None, "", *PARTS.values())
    assert repr(by_place) == repr(mine)


@pytest.mark.parametrize("missing", ["private", "public", "test"])
def test_a_part_that_is_missing_is_named(missing):
    parts = {name: part for name, part in PARTS.items() if name != missing}
    with pytest.raises(InvalidInputError, match=f"^{missing} must be a pate.data"):
        Dataset("mine", classes=(0, 1), **parts)


def test_a_data_set_of_another_kind_is_refused():
    with pytest.raises(InvalidInputError, match="kind must be"):
        Dataset("mine", kind="text", classes=(0, 1), **PARTS)


class SumHead(Head):
    """Names nothing of what it is made of."""

    def fit(self, release, phi_public):
        self.coef_, self.classes_ = release.statistics / release.n_units, tuple(release.classes)
        self.n_components_ = len(self.coef_)
        return self

    def decision_function(self, phi):
        return np.asarray(phi) @ self.coef_


class NamedHead(SumHead):
    fitted_arrays = ("coef_",)


def ballots(factor):
    return SimpleNamespace(statistics=factor * np.eye(2), sigma=0.1, n_units=4, classes=("a", "b"))


def test_a_head_of_ones_own_is_kept_and_told_apart_by_what_it_names(tmp_path):
    one, other = (NamedHead().fit(ballots(factor), np.eye(2)) for factor in (1.0, 2.0))
    assert one.fingerprint() != other.fingerprint()
    one.save(tmp_path / "head.safetensors")
    again = load_head(tmp_path / "head.safetensors")
    assert again.fingerprint() == one.fingerprint()
    assert (again.predict(np.eye(2)) == [0, 1]).all()


def test_a_head_that_names_nothing_has_no_fingerprint(tmp_path):
    """All its fits would have one: a ledger would take the ballots of one for those of another."""
    head = SumHead().fit(ballots(1.0), np.eye(2))
    assert (head.predict(np.eye(2)) == [0, 1]).all()
    for ask in (head.fingerprint, lambda: head.save(tmp_path / "head.safetensors")):
        with pytest.raises(InvalidInputError, match="fitted_arrays of SumHead must name"):
            ask()


class Doubled(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.factor_ = 2.0
        return self

    def transform(self, X):
        return X * self.factor_


class Picky(Doubled):
    def fit(self, X, y=None):
        raise InvalidInputError("not these rows")


def test_a_setting_fits_what_no_file_may_hold(tmp_path):
    """A transformer of a user's own class cannot be kept in a file: a comparison refused it."""
    contestant = Contestant("mine", lambda setting: None)
    setting = Setting.of(Dataset("mine", classes=(0, 1), **PARTS), contestant, budget=BUDGET, seed=0, cache=tmp_path)
    fitted = setting.fitted(FromTransformer(Doubled()))
    assert (fitted.transform(PARTS["public"].X) == 2 * PARTS["public"].X).all()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInputError, match="not these rows"):
        setting.fitted(FromTransformer(Picky()))
