"""In scikit-learn pipelines: rows released by `PrivateTransformer` and `PrivateTextTransformer`, or one classifier of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.display import plural
from hushvec._util.lazy import needs_extra
from hushvec.aggregates import class_centroids, private_classifier
from hushvec.embedders.protocol import Kind
from hushvec.extend import Budget, plan_release, require_chargeable, require_projection
from hushvec.integrations._source import NoiseOn, OnReceipt, PrivateSource, Steps, require_on_receipt
from hushvec.mechanisms import Mechanism, PublicProjection
from hushvec.middleware import EmbeddingResult, Embeddings
from hushvec.receipts import AggregateReceipt
from hushvec.release import privatize

with needs_extra("hushvec.integrations.sklearn", "sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data

_DTYPES = (np.float64, np.float32, np.float16)


class _Private(BaseEstimator):  # type: ignore[misc]
    """Shared base: what comes out is random, and a clone spends from the same budget."""

    def __sklearn_clone__(self) -> Any:
        """Return a new estimator with the same parameter objects: a copied budget would be a second one."""
        copy = type(self)(**self.get_params(deep=False))
        if hasattr(self, "_sklearn_output_config"):
            copy._sklearn_output_config = dict(self._sklearn_output_config)
        return copy

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _rows(self, X: Any) -> Any:  # noqa: N803
        """Check rows that come after `fit`."""
        check_is_fitted(self)
        return validate_data(self, X, dtype=_DTYPES, reset=False)


class _PrivateOutput(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Private):  # type: ignore[misc]
    """Shared base of transformers: nothing is learned."""


@dataclass(eq=False, repr=False)
class PrivateTransformer(_PrivateOutput):
    """A scikit-learn transformer that releases rows of numbers with differential privacy.

    Args:
        epsilon, delta, clip_norm, mechanism, sigma, normalize, renormalize, budget, per, generator, projection: as for
            `hushvec.privatize`. Checked by `fit`.
        on_receipt: called with each receipt, such as the `append` of a list.

    `fit` learns the number of columns and nothing else. `transform` returns Embeddings [n, d], an array with `receipt`, or after
    `set_output` a data frame, which has none; its guarantees are those of `privatize`.

    Edge cases:
        Each `transform` is one release with a charge of its own, so `fit_transform` followed by `transform` of the same rows
        costs twice, and cross-validation charges for each fold. What stands before it in a pipeline must not be fitted on the
        same rows. Labels are not protected.

    Example:
        >>> import numpy as np
        >>> from hushvec.integrations.sklearn import PrivateTransformer
        >>> rows = PrivateTransformer(epsilon=8.0).fit_transform(np.eye(4))
        >>> rows.shape, rows.receipt.epsilon
        ((4, 4), 8.0)
    """

    epsilon: float | None = None
    delta: float = 1e-5
    _: KW_ONLY
    clip_norm: float = 1.0
    mechanism: str | Mechanism = "gaussian"
    sigma: float | None = None
    normalize: bool = False
    renormalize: bool = False
    budget: Budget | None = None
    per: str = "record"
    generator: _core.Generator | None = None
    projection: PublicProjection | None = None
    on_receipt: OnReceipt | None = None

    def fit(self, X: Any, y: Any = None) -> PrivateTransformer:  # noqa: N803
        """Learn the number of columns, and check the parameters for it. Nothing is released or charged."""
        x = validate_data(self, X, dtype=_DTYPES)
        require_on_receipt(self.on_receipt)
        columns = x.shape[1] if self.projection is None else require_projection(self.projection).output_dimension
        plan = plan_release(rows=len(x), dimension=columns, dtype=x.dtype.name, **self._parameters())
        if self.budget is not None:
            require_chargeable(self.budget, plan)
        self._n_features_out = columns
        return self

    def transform(self, X: Any) -> Embeddings:  # noqa: N803
        """Return a private release of rows X [n, n_features_in_]."""
        release = privatize(self._rows(X), budget=self.budget, projection=self.projection, **self._parameters())
        if self.on_receipt is not None:
            self.on_receipt(release.receipt)
        return Embeddings(EmbeddingResult(release.values, (release.receipt,)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [np.dtype(dtype).name for dtype in _DTYPES]
        return tags

    def _parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = self.get_params(deep=False)
        return {name: value for name, value in parameters.items() if name not in ("budget", "projection", "on_receipt")}


@dataclass(eq=False, repr=False)
class PrivateTextTransformer(_PrivateOutput):
    """A scikit-learn transformer from texts to rows of an embedding model, which are private releases where noise_on names their kind.

    Args:
        model, middleware, on_receipt, noise_on: see `hushvec.integrations`.
        kind: "document" or "query": what the texts are.

    `fit` learns nothing. `transform` takes a list, an array [n] or a data frame's column of texts and answers as
    PrivateTransformer, with `receipt` None for clean rows.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.integrations.sklearn import PrivateTextTransformer
        >>> noise = hv.dp_embedding_middleware(epsilon=8.0)
        >>> rows = PrivateTextTransformer(lambda texts: [[1.0, 0.0]] * len(texts), noise).fit_transform(["a", "b"])
        >>> rows.shape, rows.receipt.epsilon
        ((2, 2), 8.0)
    """

    model: Any = None
    middleware: Steps | None = None
    _: KW_ONLY
    kind: Kind = "document"
    on_receipt: OnReceipt | None = None
    noise_on: NoiseOn = "documents"

    def fit(self, X: Any, y: Any = None) -> PrivateTextTransformer:  # noqa: N803
        """Check the parameters. Nothing is learned, released or charged."""
        self.source_ = PrivateSource(self.model, self.middleware, self.on_receipt, self.noise_on)
        return self

    def transform(self, X: Any) -> Embeddings:  # noqa: N803
        """Return private rows [n, d] for texts X [n]."""
        check_is_fitted(self)
        embeddings = self.source_.embed(_texts(X), self.kind)
        self._n_features_out = embeddings.shape[1]
        return embeddings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        return tags


@dataclass(eq=False, repr=False)
class PrivateLinearClassifier(ClassifierMixin, _Private):  # type: ignore[misc]
    """A scikit-learn classifier fitted with differential privacy for the people whose labelled rows it sees.

    Args:
        epsilon, delta, adjacency, rows_per_person, budget, generator: `hushvec.aggregates.Terms`.
        classes: the public list of all labels; which of them are in y is private.
        method: "steps": `hushvec.aggregates.private_classifier` with so many `steps`; "centroids": `class_centroids`, faster.
        on_receipt: called with the receipt of each fit.

    Every `fit` is one release and one charge, and sets `classes_` (sorted), `receipt_` and `classifier_`, which can be saved. What
    is predicted is free. `fit` takes `people`, the ids of whose rows they are.

    Edge cases:
        Cross-validation and a grid search charge for each fold. A score on private rows is not private. What stands
        before it in a pipeline must not be fitted on the same rows.

    Example:
        >>> import numpy as np
        >>> from hushvec.integrations.sklearn import PrivateLinearClassifier
        >>> rows, topics = np.eye(4)[[0, 1] * 2000], np.array(["tea", "milk"] * 2000)
        >>> classifier = PrivateLinearClassifier(epsilon=1.0, classes=["milk", "tea"]).fit(rows, topics)
        >>> classifier.score(rows, topics), classifier.receipt_.epsilon
        (1.0, 1.0)
    """

    epsilon: float | None = None
    delta: float = 1e-5
    _: KW_ONLY
    classes: Any = None
    method: str = "steps"
    steps: int = 8
    adjacency: str = "add-remove"
    rows_per_person: int = 1
    budget: Budget | None = None
    generator: _core.Generator | None = None
    on_receipt: Callable[[AggregateReceipt], Any] | None = None

    def fit(self, X: Any, y: Any, people: Any = None) -> PrivateLinearClassifier:  # noqa: N803
        """Charge, and release a classifier of rows X [n, d] with labels y [n]."""
        x, y = validate_data(self, X, y, dtype=_DTYPES)
        check_classification_targets(y)
        require_on_receipt(self.on_receipt)
        if self.epsilon is None:
            raise TypeError("epsilon must be given")
        method, classes = validate.choice("method", self.method, ("steps", "centroids")), self._sorted_classes()
        terms = {name: getattr(self, name) for name in ("epsilon", "delta", "adjacency", "rows_per_person", "budget", "generator")}
        terms |= {"labels": classes.tolist(), "people": people}
        made = class_centroids(x, y, **terms) if method == "centroids" else private_classifier(x, y, steps=self.steps, **terms)
        if self.on_receipt is not None:
            self.on_receipt(made.receipt)
        self.classes_, self.receipt_, self.classifier_ = classes, made.receipt, made
        return self

    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Return scores [n, k]; with two classes [n], that of the second less that of the first."""
        rows = self._rows(X)
        scores = self.classifier_.decision_function(rows)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the most likely class of each row, [n]."""
        rows = self._rows(X)
        return self.classes_[self.classifier_.decision_function(rows).argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return probabilities [n, k], not calibrated."""
        rows = self._rows(X)
        return self.classifier_.predict_proba(rows)

    def _sorted_classes(self) -> Any:
        if self.classes is None:
            raise TypeError("classes must be given: the public list of all labels, since those of private rows are private")
        found = np.unique(np.asarray(self.classes))
        if len(found) != np.size(self.classes):
            raise ValueError(f"classes must be different from each other, got {np.size(self.classes)}, of which {len(found)} differ")
        if len(found) < 2:
            raise ValueError(f"classes must be at least 2, got {plural(len(found), 'class', 'classes')}")
        return found


def _texts(texts: Any) -> Any:
    """Return a list or tuple as it is; an array or a column [n] as a list."""
    if isinstance(texts, Sequence):
        return texts
    if getattr(texts, "ndim", None) != 1:
        raise TypeError(f"X must be a sequence, an array or a column of strings [n], got {validate.kind(texts)}")
    return list(texts)
