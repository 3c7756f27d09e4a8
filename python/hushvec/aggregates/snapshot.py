"""What may be handed out about many people's texts: topics, components, a classifier and stand-ins, under one receipt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec._util.display import Sheet, plural, shown
from hushvec._util.publish import SHARED, published_text
from hushvec.aggregates.classifiers import STEPS, LinearClassifier, require_classes, steps_of
from hushvec.aggregates.moments import PrivatePCA, checked_components, components_of
from hushvec.aggregates.rows import PrivateRows
from hushvec.aggregates.spending import Terms
from hushvec.aggregates.stand_ins import Candidates, StandIns, stand_ins_of
from hushvec.aggregates.topics import AUTO, PrivateTopics, PublicTopics, require_columns_of_pool, votes_of
from hushvec.extend import release_sheet
from hushvec.receipts import AggregateReceipt

# Of mu^2, for topics, components and stand-ins; what is left is the classifier's, or where there is none the stand-ins'.
# Chosen on Banking77 (docs/topics.md).
_SHARES, _SHARES_ALONE = (0.05, 0.1, 0.1), (0.2, 0.4)
_MOST_COMPONENTS = 64


@shown
@dataclass(frozen=True, eq=False)
class Snapshot:
    """The result of `private_snapshot`. `print` shows the receipt of all of it in words.

    Args:
        topics: shares of topics.
        components: principal components.
        stand_ins: texts in place of people's, labelled where rows were.
        classifier: of labelled rows, or None.
        receipt: the guarantee of everything together; each part has the same.
    """

    topics: PrivateTopics
    components: PrivatePCA
    stand_ins: StandIns
    classifier: LinearClassifier | None
    receipt: AggregateReceipt

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write topics.json, components.npz, stand_ins.jsonl, classifier.npz and receipt.json into a folder, each atomically."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, text in (("topics", self.topics.to_json()), ("receipt", self.receipt.to_json())):
            with published_text(place / f"{name}.json", mode=SHARED) as file:
                file.write(f"{text}\n")
        self.components.projection.save(place / "components.npz")
        self.stand_ins.save(place / "stand_ins.jsonl")
        if self.classifier is not None:
            self.classifier.save(place / "classifier.npz")

    def __repr__(self) -> str:
        return f"Snapshot({self.topics!r}, {self.components!r}, {self.stand_ins!r}, {self.classifier!r})"

    def _sheet(self) -> Sheet:
        with_labels = "" if self.classifier is None else f", a classifier of {plural(len(self.classifier.classes_), 'label')}"
        what = f"{plural(len(self.topics.examples), 'topic')}, {len(self.components.variances)} components{with_labels}"
        return release_sheet(f"{what}, {plural(len(self.stand_ins.texts), 'text')} in place of people's", self.receipt)


def private_snapshot(
    rows: Any,
    groups: Any = None,
    *,
    labels: Any = None,
    pool: Any,
    texts: Sequence[str],
    topics: int | str = AUTO,
    components: int | str = AUTO,
    epsilon: float,
    delta: float,
    **terms: Any,
) -> Snapshot:
    """What may be handed out about many people's texts, from one release: topics, components, stand-ins, and a classifier of labels.

    Args:
        rows: float array [n, d], or `RowsInParts`; for the mean behind the components they are clipped to length 1.
        groups, labels: as in `private_classifier`; without them there is no classifier, and everything else is more accurate.
        pool, texts: public rows [m, d] and their texts, of which topics and stand-ins are made.
        topics: how many, as in `PublicTopics.fit`.
        components: how many, as in `private_pca`. "auto": 64, or the columns of rows where there are fewer.
        epsilon, delta, and in `terms` adjacency, people, rows_per_person, budget, generator: `hushvec.aggregates.Terms`.

    Raises:
        ValueError, PrivacyBudgetExhaustedError: as its parts; nothing is charged.

    Guarantees:
        (epsilon, delta)-DP for one person with all their rows and labels, of everything together: one charge, and one receipt that
        lists every statistic.

    Reference:
        docs/proofs/aggregates.md, claim 6.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_snapshot
        >>> rows, pool = np.eye(8)[[0, 1] * 500], np.eye(8)[:4]
        >>> given = {"pool": pool, "texts": ["tea", "milk", "rum", "gin"], "components": 2}
        >>> made = private_snapshot(rows, [0, 1] * 500, labels=2, epsilon=2.0, delta=1e-5, **given)
        >>> sorted(made.stand_ins.texts[:2]), made.receipt == made.topics.receipt
        (['milk', 'tea'], True)
    """
    candidates, public = Candidates(pool, texts), PublicTopics.fit(pool, texts=texts, topics=topics)
    given = PrivateRows(rows, Terms(epsilon, delta, **terms), "snapshot", groups, labels)
    require_columns_of_pool(given.dimension, candidates.vectors)
    if isinstance(components, str):
        validate.choice("components", components, (AUTO,))
        components = min(_MOST_COMPONENTS, given.dimension)
    wanted = checked_components(components, given.dimension)
    if given.names is not None:
        require_classes(given)
    given.read()
    given.spending.charge()
    with_labels = given.names is not None
    of_topics, of_components, of_stand_ins = _SHARES if with_labels else (*_SHARES_ALONE, None)
    found = votes_of(given.part(of_topics), public)
    axes = components_of(given.part(of_components), 1.0, *wanted)
    stand_ins = stand_ins_of(given.part(of_stand_ins), candidates)
    classifier = None
    if with_labels:
        classifier = steps_of(given.part(None), STEPS, LinearClassifier)
        stand_ins = stand_ins.labelled(classifier)
    receipt = given.spending.receipt(given.count)
    return Snapshot(replace(found, receipt=receipt), replace(axes, receipt=receipt), stand_ins.under(receipt), classifier, receipt)
