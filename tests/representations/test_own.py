"""A user's own transformer or module: tried before private rows, stored without pickle, said to be theirs."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler
from torch import nn

from pate import HeadTeacherEnsemble
from pate.exceptions import InvalidInputError
from pate.records import RecordVoters, SignedSpace
from pate.representations import FromModule, FromTransformer, TableMap, TextMap, cached, chain, load

WORDS = ["ship", "sail", "north", "south", "rain", "sun", "wind", "ice"]


def numbers(n=300, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 6)) * 3 + 1


def texts(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 6)) for _ in range(n)]


def counts(n=300, seed=0):
    return sparse.random_array((n, 40), density=0.2, rng=np.random.default_rng(seed), format="csr")


def convolutions():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(8, 5)
    )


def layers(bend=None):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), bend or nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 5))


def batch_mean(X):
    return X - X.mean(axis=0)


SAID = "a public corpus"
REPS = {
    "scaler": (FromTransformer(StandardScaler()), numbers),
    "pca, one by one": (FromTransformer(PCA(3), one_by_one=True), numbers),
    "fitted": (FromTransformer(StandardScaler().fit(numbers(50, 9)), provenance=SAID), numbers),
    "pipeline": (
        FromTransformer(make_pipeline(QuantileTransformer(n_quantiles=50), Nystroem(n_components=9, random_state=0))),
        numbers,
    ),
    "names": (FromTransformer(StandardScaler()), lambda *a: pd.DataFrame(numbers(*a), columns=list("abcdef"))),
    "sparse": (FromTransformer(TruncatedSVD(4, random_state=0)), counts),
    "texts": (FromTransformer(make_pipeline(TfidfVectorizer(), TruncatedSVD(3, random_state=0))), texts),
    "hashed texts": (
        FromTransformer(make_pipeline(HashingVectorizer(n_features=64), TruncatedSVD(3, random_state=0))),
        texts,
    ),
    "module": (FromModule(layers(), provenance=SAID, batch_size=64), numbers),
    "image module": (FromModule(convolutions(), provenance=SAID, input_shape=(1, 2, 3), batch_size=50), numbers),
    "module, one by one": (FromModule(layers(), provenance=SAID, one_by_one=True), numbers),
    "chain": (chain(TableMap(), FromTransformer(PCA(4))), numbers),
    "text map": (TextMap(6), texts),
    "text map of characters": (TextMap(6, analyzer="char_wb", ngram_range=(2, 3)), texts),
    "small text map": (TextMap(300), lambda n=5, seed=0: texts(n, seed)),
}


@pytest.fixture(params=REPS)
def fitted(request):
    rep, rows = REPS[request.param]
    return clone(rep).fit(rows()), rows, [rep.module] if "module" in request.param else None


def at(X, index):
    if isinstance(X, list):
        return [X[i] for i in index]
    return X.iloc[index] if hasattr(X, "iloc") else X[index]


@pytest.mark.few(1)
def test_a_row_beside_others_is_the_same_and_in_another_place_nearly(fitted):
    rep, rows, _ = fitted
    X = rows(1500, 1)
    z = rep.transform(X)
    assert z.shape == (1500, rep.n_features_out_)
    assert np.isfinite(z).all()
    assert z.std(axis=0).max() > 1e-3
    order = np.random.default_rng(0).permutation(1500)
    turned = rep.transform(at(X, order))
    assert np.allclose(turned, z[order], rtol=1e-3, atol=1e-5)
    if rep.exact_:
        assert np.array_equal(turned, z[order])
    others = at(rows(1500, 2), np.arange(1500))
    kept = [0, 7, 1499]
    if isinstance(X, list):
        mixed = [X[i] if i in kept else others[i] for i in range(1500)]
    elif sparse.issparse(X):
        mixed = sparse.vstack([X[[i]] if i in kept else others[[i]] for i in range(1500)])
    else:
        mixed = others.copy()
        at_mixed = mixed.iloc if hasattr(mixed, "iloc") else mixed
        at_mixed[kept] = at(X, kept)
    assert np.array_equal(rep.transform(mixed)[kept], z[kept])


@pytest.mark.few(8)
def test_saved_and_loaded_it_is_the_same(fitted, tmp_path):
    rep, rows, module = fitted
    rep.save(tmp_path / "rep.safetensors")
    back = load(tmp_path / "rep.safetensors", module=module)
    assert back.fingerprint() == rep.fingerprint()
    assert back.provenance_ == rep.provenance_
    assert np.array_equal(back.transform(rows(300, 1)), rep.transform(rows(300, 1)))
    assert clone(rep).fit(rows()).fingerprint() == rep.fingerprint()


@pytest.mark.few(8)
def test_cached_it_is_found_again(fitted, tmp_path):
    rep, rows, _ = fitted
    first, again = cached(rep, rows(), tmp_path), cached(rep, rows(), tmp_path)
    assert first.fingerprint() == again.fingerprint() == rep.fingerprint()
    assert len(list(tmp_path.iterdir())) == 1


def test_odd_cells_give_finite_rows():
    X = numbers().astype(object)
    X[0], X[1], X[2], X[3] = None, np.inf, 1e300, "Ms Smith"
    for rep in (FromTransformer(PCA(2)), FromModule(layers(), provenance=SAID)):
        z = rep.fit(numbers()).transform(X)
        assert np.isfinite(z).all()
        assert np.array_equal(z[4:], rep.transform(numbers())[4:])
    wild = counts().copy()
    wild.data[:3] = [np.nan, np.inf, 1e300]
    assert np.isfinite(FromTransformer(TruncatedSVD(2)).fit(counts()).transform(wild)).all()
    for rep in (TextMap(4), FromTransformer(make_pipeline(TfidfVectorizer(), TruncatedSVD(3)))):
        z = rep.fit(texts()).transform([None, 3.5, "", "Ms Smith", *texts(5)])
        assert np.array_equal(z[:4], np.zeros_like(z[:4]))
        assert np.array_equal(z[4:], rep.transform([""] * 4 + texts(5))[4:])


def test_a_row_that_is_not_finite_afterwards_is_zero():
    class Log(nn.Module):
        def forward(self, x):
            return torch.log(x)

    rep = FromModule(Log(), provenance=SAID).fit(np.abs(numbers()) + 1)
    z = rep.transform(-np.ones((3, 6)))
    assert np.array_equal(z, np.zeros((3, 6)))


class CentredOnItsBatch(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0)


class Drawing(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


class TheSharpest(nn.Module):
    """Mixes rows only where one stands out."""

    def forward(self, x):
        return x * (x.abs().max() > 18).float()


@pytest.mark.parametrize(
    ("rep", "words"),
    [
        (FromTransformer(FunctionTransformer(batch_mean)), "mixes rows"),
        (FromModule(CentredOnItsBatch(), provenance=SAID), "mixes rows"),
        (FromModule(TheSharpest(), provenance=SAID), "mixes rows"),
        (FromModule(nn.BatchNorm1d(6, track_running_stats=False), provenance=SAID), "mixes rows"),
        (FromModule(Drawing(), provenance=SAID), "at every call"),
        (FromModule(nn.Flatten(0), provenance=SAID), "one vector of numbers per row"),
        (FromModule(nn.LSTM(6, 3), provenance=SAID), "must return a tensor"),
        (FromModule(nn.Linear(6, 2)), "provenance must say"),
        (FromModule(nn.Linear(6, 2), provenance="a\nb"), "one line"),
        (FromModule(nn.Linear, provenance=SAID), "module must be a torch.nn.Module"),
        (FromModule(nn.Linear(6, 2), provenance=SAID, input_shape=(1, 2, 2)), "has 4 cells, and a row has 6"),
        (FromModule(nn.Linear(4, 2), provenance=SAID), r"must take rows of shape \(6,\), as the public ones are.*mat1"),
        (FromModule(nn.Conv2d(3, 1, 2), provenance=SAID, input_shape=(1, 2, 3)), r"rows of shape \(1, 2, 3\)"),
        (FromModule(nn.Linear(6, 2), provenance=SAID, device="abacus"), "device"),
        (FromTransformer(StandardScaler().fit(numbers())), "provenance must say"),
        (FromTransformer(StandardScaler), "transformer must be"),
        (FromTransformer(TableMap()), "representation already"),
        (FromTransformer(FunctionTransformer(lambda x: x)), None),
        (TextMap(0), "n_components"),
        (TextMap(ngram_range=(2, 1)), "ngram_range"),
        (TextMap(analyzer="char"), "analyzer must be"),
    ],
)
def test_what_cannot_be_is_refused_before_any_private_row(rep, words):
    if words is None:
        with pytest.raises(InvalidInputError, match="lambda"):
            rep.fit(numbers()).fingerprint()
        return
    with pytest.raises(InvalidInputError, match=words):
        rep.fit(numbers())


def test_one_by_one_nothing_can_mix():
    rep = FromTransformer(FunctionTransformer(batch_mean), one_by_one=True).fit(numbers())
    assert np.array_equal(rep.transform(numbers(5, 1)), np.zeros((5, 6)))


def no_large_ones(X):
    if (np.abs(X) > 20).any():
        raise ValueError("too large: Ms Smith")
    return X


class NoLargeOnes(nn.Module):
    def forward(self, x):
        return torch.from_numpy(no_large_ones(x.numpy()))


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("kind", [FromTransformer, FromModule])
def test_a_row_on_which_the_users_code_raises_is_zero_and_changes_no_other(kind, one_by_one):
    code = FunctionTransformer(no_large_ones) if kind is FromTransformer else NoLargeOnes()
    rep = kind(code, provenance=SAID, one_by_one=one_by_one).fit(np.clip(numbers(), 0, 2.5))
    rep.cells_ = FromTransformer(StandardScaler()).fit(numbers()).cells_  # as if its bounds were wider
    X = numbers(5, 1)
    X[2] = 25
    found = rep.transform(X)
    assert np.allclose(found, np.where(np.arange(5)[:, None] == 2, 0, X), rtol=1e-6)
    X[2] = 0
    assert np.array_equal(np.delete(rep.transform(X), 2, axis=0), np.delete(found, 2, axis=0))


def hungry(X):
    return np.empty(1 << 60, dtype="u1") if (X == 1.5).any() else X


def test_a_row_that_takes_all_memory_is_zero_too_and_the_curator_is_told(caplog):
    rep = FromTransformer(FunctionTransformer(hungry), provenance=SAID)
    rep.fit(np.linspace(-2, 2, 30).reshape(-1, 3))  # no cell is 1.5
    X = np.zeros((4, 3))
    X[1] = 1.5
    found = rep.transform(X + np.array([0.0, 0.0, 0.25]))
    assert np.array_equal(found, [[0, 0, 0.25], [0, 0, 0], [0, 0, 0.25], [0, 0, 0.25]])
    assert "no memory to ask about a row" in caplog.text


class Latch(TransformerMixin, BaseEstimator):
    """Turns every row over after it has seen a certain one."""

    def fit(self, X, y=None):
        self.sign_ = 1.0
        return self

    def transform(self, X):
        if (X == 1.5).any():
            self.sign_ = -1.0
        return self.sign_ * X


def test_what_the_users_code_keeps_of_a_row_reaches_no_other():
    rep = FromTransformer(Latch()).fit(np.linspace(-2, 2, 30).reshape(-1, 3))
    X = np.full((5, 3), 0.5)
    before = rep.transform(X)
    X[0] = 1.5
    assert np.array_equal(rep.transform(X)[1:], before[1:])


class Crowded(nn.Module):
    """Takes the mean off rows where many of them are large, as experts with a capacity do; of code, not of layers."""

    def forward(self, x):
        return x - x.mean(0) if (x > 0.5).all(1).sum() > 12 else torch.tanh(x)


class CrowdedSums(Crowded):
    """The same without a branch: rows of it run side by side."""

    def forward(self, x):
        return torch.where((x > 0.5).all(1).sum() > 12, x - x.mean(0), torch.tanh(x))


class Many(nn.Module):
    def forward(self, x):
        return x - x.mean(0) if x.shape[0] > 64 else torch.tanh(x)


CROWD = np.concatenate([np.full((13, 6), 0.9), np.full((27, 6), 0.1)]) + np.arange(40)[:, None] / 1000
SOME = np.random.default_rng(3).choice([-1.0, 0.0, 1.0], size=(300, 6), p=[0.5, 0.4, 0.1])


def crowded(kind):
    return FromModule(kind(), provenance=SAID, batch_size=16 if kind is not Many else 64).fit(SOME)


@pytest.mark.parametrize("kind", [Crowded, CrowdedSums, Many])
def test_a_vector_follows_from_its_row_alone_where_no_trial_could_tell(kind):
    rep, X = crowded(kind), np.tile(CROWD, (3, 1))
    found = rep.transform(X)
    assert np.allclose(found, np.tanh(X), atol=1e-6)
    X[0] = -1
    assert np.array_equal(rep.transform(X)[1:], found[1:])
    assert np.array_equal(pickle.loads(pickle.dumps(rep)).transform(X)[1:], found[1:])


def less_when_crowded(X):
    return X - X.mean(axis=0) if (X > 0.5).all(axis=1).sum() > 900 else np.tanh(X)


def test_nor_does_a_transformer_of_the_users_see_another_row():
    rep = FromTransformer(FunctionTransformer(less_when_crowded)).fit(SOME)
    X = np.tile(CROWD[:13], (75, 1))
    assert np.array_equal(rep.transform(X), np.tanh(X))
    assert rep.exact_
    assert not FromTransformer(FunctionTransformer(np.tanh)).fit(SOME).exact_
    with pytest.raises(InvalidInputError, match="mixes rows"):
        FromTransformer(FunctionTransformer(batch_mean)).fit(SOME)


@pytest.mark.parametrize("kind", [Crowded, CrowdedSums])
def test_nor_does_a_record_move_another_ones_ballot_or_another_shards_vote(kind):
    rep, other, y = crowded(kind), CROWD.copy(), np.arange(40) % 2
    other[0] = -1.0
    public = np.random.default_rng(1).uniform(-1, 1, size=(60, 6))
    voters = RecordVoters(rep, SignedSpace().fit(rep.transform(public)), classes=2)
    a, b = (voters.cast(X, y).sums.astype(float) for X in (CROWD, other))
    alone = [voters.cast(X[:1], y[:1]).sums.astype(float) for X in (CROWD, other)]
    assert np.array_equal(b - a, alone[1] - alone[0])
    how = {"classes": [0, 1], "random_state": 0, "partition_seed": 0}
    votes = [HeadTeacherEnsemble(rep, 8, **how).fit(X, y).vote(public).labels for X in (CROWD, other)]
    assert (votes[0] != votes[1]).any(axis=1).sum() <= 1


def test_only_code_that_vmap_cannot_take_runs_row_after_row(monkeypatch):
    known = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))
    reps = [FromModule(module, provenance=SAID).fit(SOME) for module in (known, layers(), Crowded())]
    assert [(rep._apart.program is not None, rep._apart.side_by_side) for rep in reps] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    monkeypatch.setattr("pate.networks._row_by_row.vmap", None)
    assert np.allclose(reps[0].transform(SOME), known(torch.from_numpy(SOME).float()).detach(), atol=1e-6)


def test_what_is_given_is_not_changed():
    module, scaler = layers().train(), StandardScaler()
    FromModule(module, provenance=SAID).fit(numbers()).transform(numbers())
    FromTransformer(scaler).fit(numbers())
    assert module.training
    assert all(p.requires_grad for p in module.parameters())
    assert int(module[1].num_batches_tracked) == 0
    assert not hasattr(scaler, "mean_")


def test_the_statement_line_says_whose_word_it_is():
    X = numbers()
    assert "as stated by the person" in FromModule(layers(), provenance=SAID).fit(X).provenance_
    assert "as stated by the person" in FromTransformer(StandardScaler().fit(X), provenance=SAID).fit(X).provenance_
    assert "stated" not in FromTransformer(StandardScaler()).fit(X).provenance_


def test_the_statement_line_of_a_function_that_calls_an_encoder_says_on_what_that_was_trained():
    rep = FromTransformer(FunctionTransformer(abs_of), provenance=SAID).fit(numbers(50))
    assert rep.provenance_ == (
        f"FromTransformer: FunctionTransformer fitted on 50 public rows, with what was trained on: {SAID} "
        "(as stated by the person)"
    )


class TestModuleFiles:
    @pytest.fixture
    def file(self, tmp_path):
        FromModule(layers(), provenance=SAID).fit(numbers()).save(tmp_path / "m.safetensors")
        return tmp_path / "m.safetensors"

    @pytest.mark.parametrize(
        ("module", "words"),
        [
            (None, "architecture is code"),
            ("layers", "module must be a torch.nn.Module"),
            (nn.Linear(6, 2), "other weights"),
            (
                nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 5)),
                "another architecture",
            ),
            ([layers(), layers()], "more than the file has a place for"),
        ],
    )
    def test_another_architecture_is_refused(self, file, module, words):
        with pytest.raises(InvalidInputError, match=words):
            load(file, module=module)

    def test_weights_come_from_the_file(self, file):
        torch.manual_seed(5)
        fresh = layers()
        with torch.no_grad():
            fresh[0].weight.zero_()
        rep = load(file, module=fresh)
        assert np.array_equal(
            rep.transform(numbers()), FromModule(layers(), provenance=SAID).fit(numbers()).transform(numbers())
        )

    def test_a_transformer_that_cannot_be_read_back_safely_is_not_kept(self, tmp_path):
        rep = FromTransformer(FunctionTransformer(abs_of)).fit(numbers())
        with pytest.raises(InvalidInputError, match="cannot be saved in a file"):
            rep.save(tmp_path / "f.safetensors")


def abs_of(X):
    return np.abs(X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: torch.jit.script(layers()), "ScriptModule.*Pass the nn.Module that was compiled"),
        (lambda: nn.Sequential(torch.jit.trace(nn.Linear(6, 3), torch.zeros(1, 6)), nn.Tanh()), "ScriptModule"),
        (lambda: nn.DataParallel(layers()), r"DataParallel, .*inside it, \.module"),
        (lambda: nn.Sequential(nn.LazyLinear(3)), "lazy layers"),
        (lambda: layers().double(), r"weights of torch\.float64, and rows come as torch\.float32"),
        (lambda: layers().bfloat16(), r"weights of torch\.bfloat16"),
        (lambda: nn.Bilinear(3, 3, 2), r"forward takes 2 inputs \(input1, input2\)"),
        (lambda: nn.Linear(5, 3), r"rows of shape \(6,\).*input_shape="),
    ],
)
def test_a_module_that_cannot_be_used_is_refused_for_the_true_reason(module, words):
    with pytest.raises(InvalidInputError, match=words):
        FromModule(module(), provenance=SAID).fit(numbers())
