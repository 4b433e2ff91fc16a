"""Texts as vectors: term frequencies weighted by public rarity, reduced by the singular vectors of public texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_choice, check_int, shown
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.representations._base import Representation
from pate.representations._cells import TextCells


class TextMap(Representation):
    """Latent semantic analysis: TF-IDF over the public vocabulary, then its leading singular vectors.

    (Deerwester et al., J. Am. Soc. Inf. Sci. 1990.) The vocabulary is the public texts': a word that none of them has
    counts nothing, and so hashing words instead would add collisions alone.

    Parameters
    ----------
    n_components : int
        At most so many; fewer where the public texts span fewer.
    analyzer : {"word", "char_wb"}
        Words, or runs of characters within words (for short texts and odd spelling).
    ngram_range : (int, int)
        Shortest and longest run of words or characters.
    max_features : int
        The most frequent terms that are kept.
    random_state : int
        Of the randomised decomposition, which is public.

    Attributes
    ----------
    vocabulary_ : list of str
        Terms that stand in at least two public texts (in one, where no two share any).
    n_features_out_ : int
    provenance_ : str

    Notes
    -----
    A text without any known term, and a row that is no text, is the zero vector.

    Examples
    --------
    >>> notes = ["the ship sails north", "the ship sails south", "rain in the north", "rain in the south", "no ship"]
    >>> text = TextMap(3).fit(notes)
    >>> z = text.transform(["a ship, it sails", "rain", "Ms Smith"])
    >>> z.shape, bool(z[0] @ z[1] < 0.5), z[2].tolist()
    ((3, 3), True, [0.0, 0.0, 0.0])
    """

    _reader = TextCells
    exact_ = True

    def __init__(
        self,
        n_components: int = 256,
        *,
        analyzer: str = "word",
        ngram_range: Any = (1, 2),
        max_features: int = 50_000,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.analyzer = analyzer
        self.ngram_range = ngram_range
        self.max_features = max_features
        self.random_state = random_state

    def _check(self) -> None:
        check_int("n_components", self.n_components, low=1)
        check_choice("analyzer", self.analyzer, ["word", "char_wb"])
        check_int("max_features", self.max_features, low=2)
        check_int("random_state", self.random_state, low=0)
        runs = self.ngram_range
        if not isinstance(runs, list | tuple) or len(runs) != 2:
            raise InvalidInputError(f"ngram_range must be two whole numbers such as (1, 2), got {shown(runs)}.")
        low = check_int("ngram_range[0]", runs[0], low=1)
        check_int("ngram_range[1]", runs[1], low=low)

    def _counter(self, **options: Any) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer

        if self.analyzer == "word":
            options["token_pattern"] = r"(?u)\b\w+\b"
        return CountVectorizer(
            analyzer=self.analyzer,
            ngram_range=(int(self.ngram_range[0]), int(self.ngram_range[1])),
            strip_accents="unicode",
            dtype=np.float64,
            **options,
        )

    def _learn(self, rows: Any) -> None:
        from sklearn.decomposition import TruncatedSVD

        try:
            counter = self._counter(min_df=2, max_features=self.max_features).fit(rows)
        except ValueError:  # no two texts share a term
            try:
                counter = self._counter(max_features=self.max_features).fit(rows)
            except ValueError:
                raise InvalidInputError("X_public holds no words. Pass texts, one per row.") from None
        self.vocabulary_ = counter.get_feature_names_out().tolist()
        counts = counter.transform(rows)
        n = counts.shape[0]
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        self.idf_ = np.log((1.0 + n) / (1.0 + frequency)) + 1.0  # as scikit-learn's, smooth
        self._counter_ = self._counter(vocabulary=self.vocabulary_)
        weighted = self._weighted(rows)
        k = min(int(self.n_components), min(weighted.shape))
        if k < min(weighted.shape):
            found = TruncatedSVD(k, random_state=self.random_state).fit(weighted)
            components = found.components_
        else:
            components = np.linalg.svd(weighted.toarray(), full_matrices=False)[2][:k]
        self.components_: FloatArray = np.ascontiguousarray(components.T, dtype=np.float64)
        self.n_features_out_ = k

    def _weighted(self, texts: Any) -> Any:
        from sklearn.preprocessing import normalize

        counts = self._counter_.transform(texts).tocsr()
        counts.sort_indices()
        counts.data = (1.0 + np.log(counts.data)) * self.idf_[counts.indices]
        return normalize(counts)

    def _map(self, block: Any) -> npt.NDArray[Any]:
        return np.asarray(self._weighted(block) @ self.components_)

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {"idf": self.idf_, "components": self.components_}, {"vocabulary": self.vocabulary_}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.vocabulary_ = [str(word) for word in words["vocabulary"]]
        self.idf_, self.components_ = arrays["idf"], arrays["components"]
        if self.components_.shape != (len(self.vocabulary_), self.n_features_out_) or self.idf_.ndim != 1:
            raise ValueError("components of another shape")
        if len(self.idf_) != len(set(self.vocabulary_)):
            raise ValueError("a vocabulary of another length")
        self._counter_ = self._counter(vocabulary=self.vocabulary_)
