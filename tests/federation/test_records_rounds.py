"""Rounds of record voters among sites: what is opened is all sites' ballots and shares, and the rest is as ever."""

import io
import json
import math
import pickle
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from pate import Budget, PATEClassifier
from pate.exceptions import CuratorWarning, FederationError, InvalidInputError, NotWorthwhileError, PateError
from pate.federation._archive import Question
from pate.federation._records import SiteRecords
from pate.federation._rounds import LocalSites, SitesPlan, SitesRounds
from pate.mechanisms import GaussianSum, SharedGaussian
from pate.models.file import InputSpec
from pate.models.heads import CorrectedHead, ForestHead
from pate.models.recipes import PublicFacts, Recipe, Round, choose
from pate.records import RecordVoters, SignedSpace, count_right
from pate.release import BallotRelease, ReleasedCounts, ShareSession
from pate.representations import FromTransformer, PublicPCA

CLASSES = ("a", "b", "c")
RNG = np.random.default_rng(3)
CODES = RNG.integers(3, size=1_500)
ROWS = RNG.normal(size=(1_500, 4)) + 3 * np.eye(4)[CODES]
X, Y, PUBLIC, TRUTH = ROWS[:1_200], np.array(CLASSES)[CODES[:1_200]], ROWS[1_200:], np.array(CLASSES)[CODES[1_200:]]
BUDGET, K = Budget(3.0, 1e-5), 5


def likelihood(**more):
    rounds = (Round(0.2), Round(0.4, 0.5), Round(0.4, 0.5))
    return replace(Recipe("kernel", "signed", 20, None, 0.8, 0.0, rounds, 0.7, None), **more)


def sites_of(x=X, y=Y, *, k=K, groups=None, classes=CLASSES, **more):
    """Deal records to k sites, persons whole."""
    owner = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    parts = [np.flatnonzero(owner % k == i) for i in range(k)]
    rows = (lambda p: x.iloc[p]) if hasattr(x, "iloc") else (lambda p: x[p])
    return [
        SiteRecords(rows(p), y[p], classes=classes, groups=None if groups is None else groups[p], **more) for p in parts
    ]


def plan_of(sites, public=PUBLIC, *, tolerate=2, budget=BUDGET, classes=CLASSES, **more):
    return SitesPlan.of(
        public, classes=classes, budget=budget, n_units=[s.n_units for s in sites], unit=sites[0].unit,
        tolerate=tolerate, **more,
    )  # fmt: skip


def ran(sites, public=PUBLIC, **more):
    plan = plan_of(sites, public, **more)
    return plan, *plan.run(LocalSites(plan, sites))


@pytest.fixture
def taps(monkeypatch):
    """Everything that sites give to secure sums: the exact sums, and what left."""
    seen, share = [], ShareSession.share

    def tapped(self, sums):
        given = share(self, sums)
        seen.append((sums, given))
        return given

    monkeypatch.setattr(ShareSession, "share", tapped)
    return seen


@pytest.fixture
def silent(monkeypatch):
    """Shares without noise."""

    def sample(self, sums, delta_squared, noise):
        return [self.lattice(delta_squared) * one for one in sums.ravel().tolist()]

    monkeypatch.setattr(SharedGaussian, "sample", sample)


class Central:
    """All records in one place, their exact sums as releases with the noise that sites would have added."""

    def __init__(self, plan, x, y, statement, groups=None):
        self.plan, self.records, self.groups, self.n = plan, (x, y), groups, 0
        self.charge, self.statement = plan.charge, statement

    def swift(self, voters):
        return True

    def _next(self, sums):
        mechanism, self.n = self.plan.mechanisms[self.n], self.n + 1
        return mechanism.total_scale(sums.delta_squared)

    def ask(self, voters, head, asked):
        x, y = self.records
        if asked.clip is None:
            sums = voters.cast(x, y, groups=self.groups)
        else:
            sums = voters.cast_residuals(x, y, head, clip=asked.clip, groups=self.groups)
        return BallotRelease.of(sums.sums, sums.facts, GaussianSum(1.0), self.statement, scale=self._next(sums))

    def measure(self, model):
        x, y = self.records
        found, labels = [], np.array([CLASSES.index(one) for one in y])
        for by_class in (False, True)[: len(self.plan.ballots.measured_shares)]:
            right = count_right(
                model.answers(x), labels, classes=CLASSES, groups=self.groups, by_class=by_class,
                own=model.own(unit=self.plan.unit), model=self.plan.ballots.answered,
            )  # fmt: skip
            scale = self._next(right)
            found.append(ReleasedCounts.of(right.sums, right.facts, GaussianSum(1.0), self.statement, scale=scale))
        return found


@pytest.mark.long
@pytest.mark.sample
@pytest.mark.parametrize("groups", [None, np.arange(1_200) // 3], ids=["records", "persons"])
def test_what_is_opened_is_the_sum_of_all_ballots_and_all_shares_bit_for_bit(taps, groups):
    plan, labels, _ = ran(sites_of(groups=groups), recipe=likelihood(), measure="by class")
    assert len(taps) == K * len(plan.mechanisms) == K * 5
    exact, totals = [], []
    for i, mechanism in enumerate(plan.mechanisms):
        part = taps[K * i : K * (i + 1)]
        lattice = mechanism.lattice(part[0][0].delta_squared)
        sums = sum(one.sums for one, _ in part)
        total = [sum(cells) for cells in zip(*(given for _, given in part), strict=True)]
        noise = [
            np.array([g - lattice * s for g, s in zip(given, one.sums.ravel().tolist(), strict=True)], dtype=object)
            for one, given in part
        ]
        # Every site adds noise of its own to every number.
        assert len({tuple(one) for one in noise}) == K
        assert [lattice * s for s in sums.ravel().tolist()] == [t - n for t, n in zip(total, sum(noise), strict=True)]
        exact.append(sums)
        totals.append(mechanism.opened(total, sums.shape, part[0][0].delta_squared))
    for release, drawn in zip(labels.rounds, totals, strict=False):
        whole = drawn / release.facts.scale
        np.testing.assert_array_equal(release.statistics, whole - whole.mean(axis=1, keepdims=True))
    # The same records in one place cast the very same ballots.
    np.testing.assert_array_equal(exact[0], plan.ballots.voters.cast(X, Y, groups=groups).sums)
    counted = labels.statement.measured
    assert counted.counted == pytest.approx(totals[3][0, 0] / 65_536 / sum(plan.n_units), abs=1e-12)
    assert labels.statement.unit == plan.unit
    assert (np.array(labels.values()) == TRUTH).mean() > 0.9


@pytest.mark.long
@pytest.mark.parametrize("student", [None, "ridge", "forest"])
def test_without_noise_the_model_is_the_one_of_all_records_in_one_place(silent, student):
    sites = sites_of()
    plan, labels, model = ran(sites, recipe=likelihood(student=student), measure="by class")
    theirs, other = plan.ballots.learn(Central(plan, X, Y, labels.statement))
    for one, two in zip(labels.rounds, theirs.rounds, strict=True):
        np.testing.assert_array_equal(one.statistics, two.statistics)
        assert (one.sigma, one.facts) == (two.sigma, two.facts)
    np.testing.assert_array_equal(labels.probability, theirs.probability)
    np.testing.assert_array_equal(model.untempered(PUBLIC), other.untempered(PUBLIC))
    assert labels.statement.measured == theirs.statement.measured
    assert isinstance(model.head, ForestHead) == (student == "forest")


@pytest.mark.long
@pytest.mark.parametrize("by", ["rule", "likelihood"])
def test_the_rules_own_recipe_and_persons_are_as_in_one_place(silent, by):
    groups = np.arange(1_200) // 3
    recipe = None if by == "rule" else likelihood()
    plan, labels, _ = ran(sites_of(groups=groups), recipe=recipe, measure=True)
    theirs, _ = plan.ballots.learn(Central(plan, X, Y, labels.statement, groups))
    np.testing.assert_array_equal(labels.probability, theirs.probability)
    assert (labels.statement.unit, sum(plan.n_units)) == ("group", 400)
    assert labels.statement.measured == theirs.statement.measured


@pytest.mark.long
def test_heads_and_rules_know_the_noise_that_is_there_and_the_price_is_of_honest_noise(taps):
    """Noise of all k sites is in what heads fit; k - t sites' noise alone is paid with."""
    sites = sites_of()
    plan, labels, _ = ran(sites, recipe=likelihood(), measure=True, tolerate=2)
    ratio = math.sqrt(K / (K - 2))
    for release, mechanism in zip(labels.rounds, plan.mechanisms, strict=False):
        honest = mechanism.noise_multiplier * math.sqrt(release.facts.delta_squared) / release.facts.scale
        assert release.sigma == pytest.approx(honest * ratio, rel=1e-9)
        assert release.mechanism.noise_multiplier == mechanism.noise_multiplier
    assert labels.statement.measured.sigma == pytest.approx(plan.mechanisms[-1].noise_multiplier * ratio, rel=1e-9)
    assert labels.charge == plan.charge
    epsilon = labels.charge.guarantee(1e-5).epsilon
    assert 2.999 < epsilon <= 3.0
    assert labels.guarantee.epsilon == pytest.approx(epsilon)
    # The same budget in one place has less noise: public facts of the rule say so, and so does the plan's mu.
    alone = plan_of(sites_of(k=1), tolerate=0, recipe=likelihood(), measure=True)
    assert alone.ballots.facts.mu == pytest.approx(plan.ballots.facts.mu * ratio)
    assert alone.ballots.mu == pytest.approx(plan.ballots.mu * ratio)
    assert alone.mechanisms[0].noise_multiplier == pytest.approx(plan.mechanisms[0].noise_multiplier, rel=1e-6)
    twice = plan_of(sites, recipe=likelihood(), measure=True, max_sites_per_person=2)
    assert twice.mechanisms[0].noise_multiplier == pytest.approx(2 * plan.mechanisms[0].noise_multiplier, rel=1e-9)
    assert twice.ballots.facts.mu == pytest.approx(plan.ballots.facts.mu / 2)
    assert twice.charge.mu_squared == pytest.approx(plan.charge.mu_squared, rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("tolerate", [0, 2])
def test_the_noise_in_what_is_opened_has_the_variance_that_heads_are_told(tolerate):
    """Over some thousand numbers: the law said is accepted, and one a tenth off is refuted."""
    sites = sites_of()
    plan = plan_of(sites, tolerate=tolerate, recipe=likelihood(rounds=(Round(1.0),), n_components=40), measure=False)
    exact, z = plan.ballots.voters.cast(X, Y), []
    whole = exact.sums / exact.facts.scale
    for _ in range(45):
        rounds = SitesRounds(plan, LocalSites(plan, sites))
        first = rounds.ask(plan.ballots.voters, None, plan.ballots.recipe.rounds[0])
        gap = first.statistics - (whole - whole.mean(axis=1, keepdims=True))
        z.append(gap.ravel() / first.sigma)
    # Rows sum to zero: m - 1 of m degrees of freedom are left.
    n = 45 * gap.size * (len(CLASSES) - 1) / len(CLASSES)
    found = float(np.square(np.concatenate(z)).sum()) / n
    error = math.sqrt(2 / n)
    assert abs(found - 1) < 5 * error
    assert abs(found / 0.9**2 - 1) > 5 * error
    assert abs(found / 1.1**2 - 1) > 5 * error


def pictures(n, seed):
    """Bars of 16 x 16 pixels, lying, standing or slanting."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    images = 0.2 * rng.uniform(size=(n, 16, 16))
    for image, kind, at in zip(images, y, rng.integers(2, 13, n), strict=True):
        image[(slice(at, at + 2), slice(2, 14)) if kind == 0 else (slice(2, 14), slice(at, at + 2))] += 0.8
        if kind == 2:
            image[:] = 0.2 * rng.uniform(size=(16, 16)) + 0.8 * np.eye(16, k=at - 7)
    return images, np.array(CLASSES)[y]


@pytest.mark.long
def test_sites_judge_the_student_of_images_by_its_own_maps(monkeypatch, taps):
    """The student goes to sites after the first rounds, its ballots are in a space of its own, and all are counted."""
    from pate.models.recipes import _run as taught

    for kind in ("glyphs", "mild"):
        monkeypatch.setitem(taught._SETTINGS, kind, {"epochs": 3, "batch_size": 32, "device": "cpu"})
    x, y = pictures(900, 0)
    public, truth = pictures(240, 1)
    known = choose(PublicFacts(900, 3, 0.5, 240, "image"))
    rounds = (*((Round(0.1, 0.1),) * 6), *((Round(0.2, 0.5, of_student=True),) * 2))
    recipe = replace(known, student="image", rounds=rounds)
    representation = PublicPCA(40, alpha=0.0).fit(public.reshape(240, 256))
    plan, labels, model = ran(
        sites_of(x, y, k=3), public, tolerate=1, recipe=recipe, representation=representation, measure=True
    )
    assert isinstance(model.head, CorrectedHead)
    assert [r.clip for r in labels.rounds] == [r.clip for r in rounds]
    assert len({r.facts.space for r in labels.rounds}) == 2
    assert sum(len(given) for _, given in taps[::3]) <= plan.n_cells
    assert (np.array(labels.values()) == truth).mean() > 0.6
    assert all(one.facts.own_maps for one, _ in taps if hasattr(one.facts, "own_maps"))
    head = CorrectedHead.of(model.voters.space, model.voters.represent(public.reshape(240, 256))[0], CLASSES)
    theirs = model.voters.cast_residuals(x.reshape(900, 256), y, head, clip=0.5)
    ours = sum(one.sums for one, _ in taps[18:21])
    assert taps[18][0].facts.model == theirs.facts.model
    np.testing.assert_allclose(ours, theirs.sums, atol=900 * 65_536)  # networks round by their batches


def notes(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    words = [["calm sleep rest", "walk sun sea"], ["fever cough ache", "pain cold flu"]]
    texts = [" ".join(rng.choice(" ".join(words[k]).split(), 6)) for k in y]
    return np.array(texts, dtype=object), np.array(["well", "ill"])[y]


@pytest.mark.long
def test_texts_are_read_as_the_public_ones(taps):
    x, y = notes(900, 0)
    public, truth = notes(200, 1)
    sites = sites_of(x, y, classes=("ill", "well"))
    plan, labels, model = ran(sites, public, classes=("ill", "well"))
    assert plan.door.kind == "texts"
    assert (np.array(labels.values()) == truth).mean() > 0.9
    np.testing.assert_array_equal(model.predict(public), labels.labels)


def people(n, seed):
    rng = np.random.default_rng(seed)
    town = rng.choice(["Oslo", "Rome", "Lima"], n)
    age = rng.normal(50, 15, n).round(1)
    y = np.where((town == "Rome") ^ (age > 55), "yes", "no")
    return pd.DataFrame({"age": age, "town": town, "fee": rng.gamma(2.0, 50.0, n).round(2)}), y


@pytest.mark.long
def test_tables_in_files_are_read_as_the_public_one_and_labelled_at_home_for_nothing(tmp_path, taps):
    """Columns in another order, one more, numbers that look like text: each cell as the public columns say."""
    x, y = people(1_500, 0)
    public, truth = people(300, 1)
    files = []
    for i in range(3):
        part = x.iloc[i::3].assign(outcome=y[i::3], patient=np.arange(500) // 2, note="n")
        part.iloc[0, 0] = np.nan
        files.append(tmp_path / f"site{i}.csv")
        part[["note", "town", "outcome", "fee", "age", "patient"]].to_csv(files[i], index=False)
    drop = ["note"]
    sites = [SiteRecords.of_file(f, classes=("no", "yes"), target="outcome", group="patient", drop=drop) for f in files]
    assert [(one.n_units, one.unit) for one in sites] == [(250, "group")] * 3
    plan, labels, model = ran(sites, public, classes=("no", "yes"), tolerate=1)
    assert plan.door.columns == (("age", "numeric"), ("town", "text"), ("fee", "numeric"))
    assert (np.array(labels.values()) == truth).mean() > 0.8
    frame = x.copy()
    frame.iloc[[0, 1, 2], 0] = np.nan
    groups = np.array([f"{i % 3} {i // 3 // 2}" for i in range(1_500)])
    exact = sum(one.sums for one, _ in taps[:3])
    first = plan.ballots.recipe.rounds[0]
    if first.clip is None:
        np.testing.assert_array_equal(exact, plan.ballots.voters.cast(frame, y, groups=groups).sums)
    # The model as a file: a site labels rows of its own, at home.
    clf = plan.classifier(model, labels.statement)
    clf.save(tmp_path / "model.pate")
    again = PATEClassifier.load(tmp_path / "model.pate")
    mine = x.iloc[:50]
    np.testing.assert_array_equal(again.predict(mine), np.array(("no", "yes"))[model.predict(mine)])
    assert again.statement_ == labels.statement
    assert float((again.predict(x) == y).mean()) > 0.8


def test_a_file_without_a_column_says_which_and_nothing_of_its_cells(tmp_path):
    public, _ = people(60, 1)
    secret = people(40, 2)[0].assign(outcome="no").drop(columns="town")
    secret.iloc[0, 0] = 98765.4
    secret.to_csv(tmp_path / "a.csv", index=False)
    site = SiteRecords.of_file(tmp_path / "a.csv", classes=("no", "yes"), target="outcome")
    plan = plan_of([site] * 3, public, classes=("no", "yes"), tolerate=1, force=True)
    with pytest.raises(InvalidInputError, match=r"the table here lacks \['town'\]") as caught:
        plan.run(LocalSites(plan, [site] * 3))
    assert "98765" not in str(caught.value)
    assert "98765" not in repr(site)
    other = SiteRecords(public[["age", "town"]], ["no"] * 60, classes=("no", "yes"))
    with pytest.raises(InvalidInputError, match=r"the table here lacks \['fee'\]"):
        other.sums(plan, "ballots", question(plan).to_bytes())
    with pytest.raises(InvalidInputError, match="target must name"):
        SiteRecords.of_file(tmp_path / "a.csv", classes=("no", "yes"))


def question(plan, **more):
    asked = {"kind": "ballots", "voters": plan.ballots.voters, "unit": plan.unit, "door": plan.door} | more
    return Question(**asked)


@pytest.mark.long
def test_records_that_cannot_be_used_cast_nothing_and_refuse_nothing(taps):
    x, y = X.copy(), Y.astype(object)
    x[5], x[16], y[7], y[11] = np.nan, np.inf, None, "z"
    with pytest.warns(CuratorWarning):
        plan, labels, _ = ran(sites_of(x, y), recipe=likelihood(), measure=True)
    usable = np.setdiff1d(np.arange(1_200), [5, 16, 7, 11])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuratorWarning)
        all_of, fewer = plan.ballots.voters.cast(x, y), plan.ballots.voters.cast(x[usable], y[usable])
    ours = sum(one.sums for one, _ in taps[:K])
    np.testing.assert_array_equal(ours, all_of.sums)
    assert abs(ours - fewer.sums).max() <= 2 * 3 * 65_536  # a row with one odd cell may still cast a ballot
    assert labels.statement.n_units == 1_200
    none = SiteRecords(np.full((40, 4), np.nan), ["?"] * 40, classes=CLASSES)
    with pytest.warns(CuratorWarning):
        sums = none.sums(plan, "ballots", question(plan).to_bytes())
    assert not sums.sums.any()


def test_sites_refuse_another_unit_other_classes_other_maps_and_other_kinds():
    sites = sites_of()
    plan = plan_of(sites, recipe=likelihood())
    site, asked = sites[0], question(plan).to_bytes()
    other = plan_of(sites, PUBLIC[:150], recipe=likelihood())
    with pytest.raises(FederationError, match="other public maps"):
        sites_of()[0].sums(other, "ballots", asked)
    with pytest.raises(FederationError, match="for a round of 'right'"):
        site.sums(plan, "right", asked)
    with pytest.raises(FederationError, match="asked were 'ballots', 'group'"):
        site.sums(plan, "ballots", question(plan, unit="group").to_bytes())
    with pytest.raises(FederationError, match="other classes"):
        SiteRecords(X, Y, classes=("a", "b")).sums(plan, "ballots", asked)
    numbers = SiteRecords(X, CODES[:1_200], classes=(0, 1, 2))
    renamed = SitesPlan.of(PUBLIC, classes=(False, True, 2), budget=BUDGET, n_units=[1_200] * 5, tolerate=1)
    with pytest.raises(FederationError, match="other classes"):
        numbers.sums(renamed, "ballots", question(renamed).to_bytes())
    with pytest.raises(FederationError, match="maps that it never got"):
        site.sums(plan, "ballots", question(plan).to_bytes(maps=False))
    persons = SiteRecords(X, Y, classes=CLASSES, groups=np.arange(1_200) // 2)
    with pytest.raises(InvalidInputError, match="n_units"):
        LocalSites(plan, [*sites[1:], persons])
    with pytest.raises(FederationError, match="the unit 'group'"):
        persons.sums(plan, "ballots", asked)
    assert site.sums(plan, "ballots", asked).facts.space == plan.representation
    theirs = question(other)
    with pytest.raises(FederationError, match="other public maps"):  # only a student's maps may come later
        site.sums(plan, "ballots", theirs.to_bytes())
    with pytest.raises(FederationError, match="maps that it never got"):
        site.sums(other, "ballots", theirs.to_bytes(maps=False))
    assert site.sums(other, "ballots", theirs.to_bytes()).facts.space == other.representation
    site.sums(plan, "ballots", asked)
    # Known maps are not sent again.
    assert len(question(plan).to_bytes(maps=False)) < 0.2 * len(asked)
    assert site.sums(plan, "ballots", question(plan).to_bytes(maps=False)).sums.any()


class Evil:
    """A pickle that would say that it was opened."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('code of a coordinator ran')",))


def forged(data, **members):
    """An archive with other members, that names them with their digests as the true one does."""
    import hashlib

    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as new:
        held = {name: old.read(name) for name in old.namelist()} | members
        described = json.loads(held.pop("manifest.json"))
        files = {name: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for name, d in held.items()}
        new.writestr("manifest.json", json.dumps(described | {"files": files}))
        for name, part in held.items():
            new.writestr(name, part)
    return made.getvalue()


@pytest.fixture(scope="module")
def planned():
    sites = sites_of()
    return sites, plan_of(sites, recipe=likelihood())


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"head.pkl": pickle.dumps(Evil())}, "names that model files do not use"),
        ({"space.safetensors": pickle.dumps(Evil())}, "must be a file written by pate"),
        ({"representation.safetensors": pickle.dumps(Evil())}, "not a safetensors file"),
        ({"head.skops": b"PK"}, "other parts than arrays"),
        ({"manifest.json": pickle.dumps(Evil())}, None),
    ],
    ids=["member", "space", "maps", "skops", "manifest"],
)
def test_a_pickle_in_an_archive_is_refused_and_nothing_runs(planned, members, said):
    sites, plan = planned
    data = question(plan).to_bytes()
    if said is None:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as new:
            new.writestr("manifest.json", members["manifest.json"])
        data, said = made.getvalue(), "manifest is missing or not JSON"
    else:
        data = forged(data, **members)
    with pytest.raises(InvalidInputError, match=said):
        sites[0].sums(plan, "ballots", data)
    for broken in (b"", pickle.dumps(Evil()), question(plan).to_bytes()[:-9]):
        with pytest.raises(InvalidInputError):
            sites[0].sums(plan, "ballots", broken)


@pytest.mark.long
def test_maps_that_are_not_pates_own_are_refused_by_the_coordinator_and_by_sites_before_they_are_built(monkeypatch):
    sites = sites_of()
    theirs = FromTransformer(StandardScaler(), provenance="a scaler").fit(PUBLIC)
    with pytest.raises(InvalidInputError, match="sites run no code of others"):
        plan_of(sites, representation=theirs)
    voters = RecordVoters(theirs, SignedSpace(3).fit(theirs.transform(PUBLIC)), classes=CLASSES)
    door = InputSpec(kind="array", n_features=4, mixed=False)
    data = Question(kind="ballots", voters=voters, unit="record", door=door).to_bytes()

    def built(*said, **more):
        raise AssertionError("it was built")

    monkeypatch.setattr("pate.representations._own.unpack_estimator", built)
    plan = plan_of(sites)
    with pytest.raises(InvalidInputError, match="maps of pate's own alone"):
        sites[0].sums(plan, "ballots", data)


def test_a_class_that_no_version_knows_and_settings_that_no_round_has_are_refused(planned):
    sites, plan = planned
    data = question(plan).to_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        described = json.loads(old.read("manifest.json"))
        maps = old.read("representation.safetensors")
    unknown = maps.replace(b"KernelPCA", b"KernelXYZ")
    assert unknown != maps
    with pytest.raises(InvalidInputError):
        sites[0].sums(plan, "ballots", forged(data, **{"representation.safetensors": unknown}))
    for change in (
        {"settings": {**described["settings"], "kind": "raw rows"}},
        {"settings": {**described["settings"], "clip": "wide"}},
        {"settings": {**described["settings"], "run": "this"}},
        {"parts": {**described["parts"], "maps": "pickle"}},
        {"parts": {**described["parts"], "space": "0" * 64}},
        {"kind": "code"},
    ):
        text = json.dumps(described | change).encode()
        with pytest.raises((InvalidInputError, FederationError)):
            sites_of()[0].sums(plan, "ballots", forged(data, **{"manifest.json": text}))


def test_a_released_sum_among_sites_is_saved_and_read_with_the_noise_that_is_in_it(tmp_path):
    _, labels, _ = ran(sites_of(), recipe=likelihood(), measure=False)
    one = labels.rounds[0]
    one.save(tmp_path / "round.safetensors")
    again = BallotRelease.load(tmp_path / "round.safetensors")
    assert again.sigma == one.sigma
    np.testing.assert_array_equal(again.statistics, one.statistics)
    assert one.sigma > 1.2 * one.mechanism.scale(one.facts.delta_squared) / one.facts.scale


def test_memory_decides_nothing_but_time(monkeypatch):
    archive = None
    found = []
    for most in (1 << 30, 0):
        monkeypatch.setattr("pate.models.recipes._run.MOST_HELD_BYTES", most)
        sites = sites_of()
        plan = plan_of(sites, recipe=likelihood())
        archive = question(plan).to_bytes()
        found.append(sum(s.sums(plan, "ballots", archive).sums for s in sites))
    np.testing.assert_array_equal(*found)


def test_the_terms_that_sites_agree_to_are_the_plans():
    plan = plan_of(sites_of(), recipe=likelihood(), max_sites_per_person=2)
    terms = plan.agreed(nonce="ab", coordinator="registry", sites=list("vwxyz"), recipients=["registry"])
    assert terms.noise_multipliers == tuple(m.noise_multiplier for m in plan.mechanisms)
    d = plan.ballots.phi.shape[1]
    assert (terms.n_cells, terms.max_sites_per_person) == (3 * 3 * d + 1, 2)
    assert (terms.representation, terms.classes, terms.unit) == (plan.representation, CLASSES, "record")
    said = {"classes": CLASSES, "budget": BUDGET, "n_units": [240] * 5, "tolerate": 2}
    for wrong in ({"n_units": [5, 0, 5]}, {"tolerate": 5}, {"classes": ("a",)}):
        with pytest.raises(PateError):
            SitesPlan.of(PUBLIC, **(said | wrong))


@pytest.mark.long
def test_the_statement_says_who_learns_what_and_that_this_process_kept_no_secret():
    plan, labels, _ = ran(sites_of(), recipe=likelihood(), measure=True, stated={"purpose": "a cohort"}, tuning="none")
    statement = labels.statement
    by = {a.name: a.by for a in statement.assumptions}
    assert (by["own row only"], by["public model"], by["public rows"]) == ("pate", "pate", "nobody")
    assert [one.viewer for one in statement.viewers] == ["coalition", "coordinator", "outsider"]
    assert statement.guarantee.epsilon == statement.viewers[0].epsilon <= 3.0
    assert (statement.n_units, statement.unit, statement.tuning) == (1_200, "record", "none")
    assert "added in the clear" in statement.setting
    assert "3 noisy" in statement.released or "2 noisy" in statement.released
    assert "the model is right about" in statement.released
    assert statement.measured is not None
    assert "a whole institution: if all its 240 units" in " ".join(statement.not_covered)
    assert plan.door == InputSpec(kind="array", n_features=4, mixed=False)


@pytest.mark.long
def test_folders_of_images_are_read_in_the_size_and_colour_of_the_public_ones(tmp_path, taps):
    from PIL import Image

    from pate.jobs import read_public

    x, y = pictures(240, 0)
    public, _ = pictures(60, 1)
    (tmp_path / "public").mkdir()
    for i, image in enumerate(public):
        Image.fromarray((255 * np.clip(image, 0, 1)).astype(np.uint8)).save(tmp_path / "public" / f"{i}.png")
    for i, (image, label) in enumerate(zip(x, y, strict=True)):
        folder = tmp_path / f"site{i % 3}" / label
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * np.clip(image, 0, 1)).astype(np.uint8)).save(folder / f"p{i // 6}_{i}.png")
    rows, shape = read_public(tmp_path / "public")
    how = {"classes": CLASSES, "size": (16, 16), "color": "grey", "group": "prefix"}
    sites = [SiteRecords.of_file(tmp_path / f"site{i}", **how) for i in range(3)]
    assert sum(one.n_units for one in sites) == 120
    door = InputSpec(kind="images", n_features=256, mixed=False, image_shape=shape, size=(16, 16), color="grey")
    about = {"tolerate": 1, "image_shape": shape, "recipe": likelihood(), "representation": PublicPCA(20), "door": door}
    plan, labels, _ = ran(sites, rows, force=True, **about)
    pixels = (255 * np.clip(x, 0, 1)).astype(np.uint8).reshape(240, -1).astype(np.float32) / np.float32(255)
    groups = np.array([f"{i % 3} {i // 6}" for i in range(240)])
    cast = plan.ballots.voters.cast(pixels, y, groups=groups)
    np.testing.assert_array_equal(sum(one.sums for one, _ in taps[:3]), cast.sums)
    assert labels.statement.unit == "group"
    with pytest.warns(CuratorWarning, match="80 of 80 images"):
        wide = SiteRecords.of_file(tmp_path / "site0", **{**how, "size": (8, 16)})
    with pytest.raises(InvalidInputError, match="rows are not images of 16 x 16 pixels"):
        wide.sums(plan, "ballots", question(plan).to_bytes())
    with pytest.raises(InvalidInputError, match="takes size and color"):
        SiteRecords.of_file(tmp_path / "site0", classes=CLASSES, size=(16, 16), color="grey", target="y")


def test_what_noise_of_all_sites_would_drown_is_refused():
    """Charged noise alone is below all ballots together, and the noise that is there is not."""
    sites, small = [133] * 9, Budget(0.003, 1e-5)
    about = {"classes": CLASSES, "budget": small, "recipe": likelihood(), "measure": False}
    SitesPlan.of(PUBLIC, n_units=sites, tolerate=0, **about)
    with pytest.raises(NotWorthwhileError, match="nearly nothing is to be expected"):
        SitesPlan.of(PUBLIC, n_units=sites, tolerate=4, **about)


@pytest.mark.parametrize(("n_sites", "most"), [(2, 1), (4, 2), (5, 2), (6, 3)])
def test_a_coalition_of_half_of_all_parties_is_planned_for_by_nobody(n_sites, most):
    """Who asks may be a party more: with it the sites are n + 1, of which fewer than half are withstood."""
    said = {"classes": CLASSES, "budget": BUDGET, "n_units": [240] * n_sites, "recipe": likelihood()}
    for wrong in (most + 1, n_sites, -1):
        with pytest.raises(InvalidInputError, match="tolerate must be"):
            SitesPlan.of(PUBLIC, tolerate=wrong, **said)
    with pytest.raises(InvalidInputError, match=rf"below half of the {n_sites + 1} parties .* at most {most}"):
        SitesPlan.of(PUBLIC, tolerate=most + 1, **said)
