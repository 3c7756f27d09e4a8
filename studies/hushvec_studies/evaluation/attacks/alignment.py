"""A stranger who has never seen the embedding model: a linear map from a few released rows into an embedding space of its own.

The stranger has pairs: public texts of which it saw the releases. A map that it learns from them carries the other releases into its
own space, where it names the text whose embedding is nearest.

Reference:
    Chen, Xu, Bjerva, "ALGEN: few-shot inversion attacks on textual embeddings using alignment and generation" (2025). Its
    generator is left out: texts are named from a list, which a bound can be said of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from hushvec_studies.evaluation.attacks.linear import trained
from hushvec_studies.search_by_mechanism.measure import unit

Rows = NDArray[np.float32]

TFIDF_SVD, WORDLLAMA = "tfidf-svd", "wordllama"
PAIRS = (10, 100, 1000)
_COMPONENTS = 256
_SEED = 2026


def named_by_stranger(pairs: Rows, own: Rows, released: Rows, candidates: Rows) -> NDArray[np.bool_]:
    """For each release whether the stranger names its text.

    Args:
        pairs: [k, e], releases of texts that the stranger knows.
        own: [k, f], its embeddings of them.
        released: [n, e].
        candidates: [n, f], its embeddings of the texts behind them, in their order.
    """
    carried = trained(pairs, own)(released)
    # About the center, as all texts have much in common: only what tells them apart counts.
    center = own.mean(axis=0)
    about, said = _directions(candidates - center), _directions(carried - center)
    found: NDArray[np.bool_] = np.equal((said @ about.T).argmax(axis=1), np.arange(len(released)))
    return found


def require_strangers(names: Sequence[str]) -> None:
    """Refuse a stranger whose package is not installed.

    Raises:
        ValueError: the package of one is not there.
    """
    if WORDLLAMA in names and find_spec(WORDLLAMA) is None:
        raise ValueError(
            f"strangers: {WORDLLAMA} needs the package wordllama, which is not installed (pip install 'hushvec-studies[rewriting]')"
        )


def stranger(name: str) -> Callable[[Sequence[str], Sequence[str]], tuple[Rows, Rows]]:
    """An embedder of the stranger's: public and private texts -> unit rows of both.

    Args:
        name: "wordllama": static vectors of Llama 2's tokens, of the package of that name; "tfidf-svd": TF-IDF of words, then the
            largest singular vectors of the public texts, which is no trained model but needs none.
    """
    return _wordllama() if name == WORDLLAMA else _tfidf


def _wordllama() -> Callable[[Sequence[str], Sequence[str]], tuple[Rows, Rows]]:
    import wordllama

    model: Any = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda public, private: (_directions(model.embed(list(public))), _directions(model.embed(list(private))))


def _tfidf(public: Sequence[str], private: Sequence[str]) -> tuple[Rows, Rows]:
    weighted = TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=20_000)
    try:
        counted = weighted.fit_transform(public)
    except ValueError:  # no word stands in two texts: there is nothing to tell texts apart by
        return _directions(np.zeros((len(public), 1))), _directions(np.zeros((len(private), 1)))
    components = min(_COMPONENTS, counted.shape[1] - 1, len(public) - 1)
    if components < 1:
        return _directions(counted.toarray()), _directions(weighted.transform(private).toarray())
    axes = TruncatedSVD(components, random_state=_SEED).fit(counted)
    return _directions(axes.transform(counted)), _directions(axes.transform(weighted.transform(private)))


def _directions(rows: Any) -> Rows:
    """Unit rows; texts without a known word all get the same one."""
    found: Rows = unit(np.where(np.any(rows, axis=1, keepdims=True), rows, 1e-12))
    return found
