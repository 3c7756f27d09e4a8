"""`hushvec aggregate mean|centroids|classifier|pca|predict`: what many people's vectors have in common, with one guarantee for each
person; and the labels that a classifier made of them gives to other rows."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushvec.cli._arguments import (  # isort: skip
    BudgetOptions, ForceOption, KeyOptions, comma_separated, make_generator, opened_budget, replaced_release,
)
from hushvec import aggregates
from hushvec._util.lines import json_line
from hushvec._util.publish import PRIVATE, mode_of, published, published_text, receipt_path
from hushvec.accounting import ADJACENCIES
from hushvec.aggregates.classifiers import STEPS
from hushvec.aggregates.spending import ADD_REMOVE
from hushvec.cli._output import answered, facts, receipt_lines, table
from hushvec.cli._parser import Command, argument, option
from hushvec.cli._style import paint, printable
from hushvec.cli._texts import stripped_lines
from hushvec.cli.vectors import FILES, NOTE_EMBEDDED, VectorOptions, require_one
from hushvec.cli.vectors.source import FileError, require_output
from hushvec.receipts import AggregateReceipt

_CLASSIFIER = (
    "a classifier of labeled notes, embedded first; topics.txt lists all labels",
    "hushvec aggregate classifier notes.jsonl -o topics.npz --text-key text --label-key topic --labels @topics.txt --epsilon 1",
)
_PREDICT = ("the label of a new note, as often as you like", "hushvec aggregate predict topics.npz --text 'the scan is clear'")
_MEAN = ("the mean of a file of vectors", "hushvec aggregate mean vectors.npy -o mean.npy --epsilon 1")

_AT = "@"
_WHO = "who is protected"


class Aggregate(Command, name="aggregate", metavar="ACTION", examples=(_CLASSIFIER, _PREDICT, _MEAN)):
    """What many people's vectors have in common: one release, with one guarantee for each person. At epsilon 1 little is left of
    a single noisy vector, but most of a mean or a classifier of thousands. Whoever runs this is trusted with the rows.

    Files are those of hushvec privatize: a .npy file is mapped into memory; of a .csv file the columns that another option names are
    no part of the vector."""


class OfRows(VectorOptions, ForceOption, KeyOptions, BudgetOptions):
    """One release of all rows of a file."""

    suffix: ClassVar[str] = ".npz"

    input: Path = argument(f"file of vectors or texts: {FILES}", "IN")
    output: Path = option("file to make; the receipt goes to OUT.receipt.json", metavar="OUT", required=True)
    epsilon: float = option("the guarantee of everything in OUT for each person", required=True)
    delta: float = option("", 1e-5)
    people_key: str | None = option(
        "column or key of the id of each row's person, or @FILE: one per line (default: each row is another person's)",
        heading=_WHO, metavar="KEY",
    )
    rows_per_person: int = option(
        "the most rows of one person; with --people-key further ones are dropped, else it is your word", 1, heading=_WHO, metavar="R"
    )
    adjacency: str = option("a person is there or not, or has any other rows", ADD_REMOVE, heading=_WHO, choices=ADJACENCIES)

    def run(self) -> int:
        require_output(self.output, self.suffix)
        notes = (*((NOTE_EMBEDDED,) if self.text_key is not None else ()), *replaced_release(self))
        labels = self.public_labels()
        with opened_budget(self) as budget, published(self.output, mode=mode_of(self.input)) as (file, receipt_file):
            terms = {
                **self.named("epsilon", "delta", "adjacency", "rows_per_person"),
                **({} if labels is None else {"labels": labels}),
                "budget": budget,
                "generator": make_generator(self),
            }
            aggregates.SumsOfRows(1, **terms)  # refuses wrong terms before texts are embedded
            keys = {"people": self.people_key, **({} if labels is None else {"groups": self.label_key})}
            rows, beside = _read(self, self.input, keys)
            if labels is not None:
                _require_listed(self.input, beside["groups"], labels)
            made = self.made(rows, **beside, **terms)
            receipt: AggregateReceipt = dataclasses.replace(made.receipt, notes=notes)
            self.write(made, receipt, file)
            receipt_file.write(f"{receipt.to_json()}\n".encode())
        return self.answer(made, receipt)

    def answer(self, made: Any, receipt: AggregateReceipt) -> int:
        """Print where it is, and what it is."""
        about, following = self.about(made)
        where = {"output": str(self.output), "receipt_file": str(receipt_path(self.output))}
        lines = [*map(printable, where.values()), "", facts([(name, str(text)) for name, text in about.items()]), ""]
        then = [] if following is None else ["", f"{paint('title', 'Next')}  {paint('name', printable(following))}"]
        return answered(self, {**where, **about, "receipt": receipt.to_dict()}, *lines, receipt_lines(receipt), *then)

    label_key: str | None = None

    def public_labels(self) -> list[str] | None:
        """Return the public list of labels, for actions that have labels."""
        return None

    def made(self, rows: NDArray[Any], **terms: Any) -> Any:
        """Return the release; groups and labels are among the terms of actions that have labels."""
        raise NotImplementedError

    def write(self, made: Any, receipt: AggregateReceipt, file: BinaryIO) -> None:
        """Write the release to the file."""
        raise NotImplementedError

    def about(self, made: Any) -> tuple[dict[str, Any], str | None]:
        """Return facts about it beside the receipt's, and the command that uses it."""
        raise NotImplementedError


class Mean(OfRows, name="aggregate mean", help="the mean of all rows", examples=(_MEAN,)):
    """The mean of the clipped rows of IN, float64 [d] in a .npy file."""

    suffix = ".npy"
    clip_norm: float = option("L2 norm that rows are clipped to; public", 1.0)

    def made(self, rows: NDArray[Any], **terms: Any) -> aggregates.PrivateMean:
        return aggregates.private_mean(rows, clip_norm=self.clip_norm, **terms)

    def write(self, made: aggregates.PrivateMean, receipt: AggregateReceipt, file: BinaryIO) -> None:
        np.save(file, made.mean)

    def about(self, made: aggregates.PrivateMean) -> tuple[dict[str, Any], str | None]:
        return {"count": made.count, "standard_error": made.standard_error}, None


class _OfLabeledRows(OfRows):
    """The same of labeled rows."""

    label_key: str | None = option("column or key of each row's label, or @FILE: one per line", metavar="KEY")
    labels: str | None = option("the public list of all labels: a,b,c or @FILE, one per line", metavar="LABELS")

    def public_labels(self) -> list[str]:
        if self.label_key is None:
            raise ValueError("--label-key must be given: the column or key of each row's label, or @FILE with one per line")
        if self.labels is None:
            rule = "--labels must be given: the public list of all labels, a,b,c or @FILE with one per line"
            raise ValueError(f"{rule}. It is not read from IN, because which labels private rows have is private itself")
        listed = stripped_lines(self.labels.removeprefix(_AT)) if self.labels.startswith(_AT) else comma_separated(self.labels) or []
        if len(set(listed)) < max(2, len(listed)):
            raise ValueError(f"--labels must be at least 2, all different, got {len(listed)}, of which {len(set(listed))} differ")
        return listed

    def write(self, made: aggregates.LinearClassifier, receipt: AggregateReceipt, file: BinaryIO) -> None:
        made.receipt = receipt
        _write_saved(made, file)

    def about(self, made: aggregates.LinearClassifier) -> tuple[dict[str, Any], str | None]:
        asked = "FILE" if self.text_key is None else "--text 'a new text'"
        following = f"hushvec aggregate predict {shlex.quote(str(self.output))} {asked}"
        return {"labels": len(made.classes_), "dimension": len(made.mean_)}, following


class Classifier(
    _OfLabeledRows, name="aggregate classifier", help="a linear classifier, the most accurate", examples=(_CLASSIFIER, _PREDICT)
):
    """A linear classifier of labeled rows, for `hushvec aggregate predict`: class centroids, then a few noisy steps of logistic
    regression. IN has a label beside each row or text.

    --labels lists all labels that there may be. It must be public: which labels private rows have is private itself."""

    steps: int = option("how many noisy steps", STEPS)

    def made(self, rows: NDArray[Any], **terms: Any) -> aggregates.LinearClassifier:
        return aggregates.private_classifier(rows, steps=self.steps, **terms)


class Centroids(_OfLabeledRows, name="aggregate centroids", help="a classifier by the nearest class centroid, faster", examples=(
    (
        "labels of the rows of a .npy file are the lines of a file",
        "hushvec aggregate centroids vectors.npy -o topics.npz --label-key @row_labels.txt --labels milk,tea --epsilon 1",
    ),
    ("the labels of other rows", "hushvec aggregate predict topics.npz queries.npy"),
)):
    """A classifier by the nearest class centroid, for `hushvec aggregate predict`, from one pass over labeled rows."""

    def made(self, rows: NDArray[Any], **terms: Any) -> aggregates.CentroidClassifier:
        return aggregates.class_centroids(rows, **terms)


class Pca(OfRows, name="aggregate pca", help="principal components, as a map for other commands", examples=(
    ("a map onto 32 components", "hushvec aggregate pca vectors.npy -o map.npz --components 32 --epsilon 1"),
    ("and an index behind it", "hushvec retrieve build vectors.npy -o vectors.index --epsilon 8 --projection map.npz"),
)):
    """The principal components of the rows of IN, as a map that is accepted wherever a public projection is. What the same
    people spend behind it adds up with its epsilon."""

    components: int = option("how many are kept", metavar="M", required=True)
    clip_norm: float = option("L2 norm that rows are clipped to for the mean; public", 1.0)
    whiten: bool = option("also divide each component by its spread")

    def made(self, rows: NDArray[Any], **terms: Any) -> aggregates.PrivatePCA:
        return aggregates.private_pca(rows, **self.named("components", "clip_norm", "whiten"), **terms)

    def write(self, made: aggregates.PrivatePCA, receipt: AggregateReceipt, file: BinaryIO) -> None:
        _write_saved(made.projection, file)

    def about(self, made: aggregates.PrivatePCA) -> tuple[dict[str, Any], str | None]:
        projection = made.projection
        found = {"components": projection.output_dimension, "dimension": projection.dimension, "digest": projection.digest}
        return found, f"hushvec retrieve build IN -o INDEX --epsilon EPSILON --projection {shlex.quote(str(self.output))}"


class Predict(VectorOptions, name="aggregate predict", help="the labels of other rows or texts; free", examples=(_PREDICT,)):
    """The most likely label of each row, by a classifier of `hushvec aggregate classifier` or `centroids`. Any number of
    predictions is free for the people that it was made of. A prediction is as private as the row that it is about.
    Probabilities rank well; they are not calibrated."""

    classifier: Path = argument("file of a classifier", "CLASSIFIER")
    input: Path | None = argument("file of vectors or texts, unless --text", "IN", nargs="?")
    text: list[str] = option("a text, embedded with MiniLM; may be repeated", [])
    output: Path | None = option("lines of JSON with row, label and probability, not a table", metavar="OUT")

    def run(self) -> int:
        require_one("IN", self.input, self.text)
        classifier = _loaded(self.classifier)
        chances = classifier.predict_proba(self.rows_or_texts(self.input, self.text))
        best = chances.argmax(axis=1)
        found = [
            {"row": row, "label": label, "probability": float(chances[row, code])}
            for row, (label, code) in enumerate(zip(classifier.classes_[best].tolist(), best))
        ]
        if self.output is not None:
            with published_text(self.output, mode=PRIVATE if self.input is None else mode_of(self.input)) as file:
                file.writelines(f"{json_line(one)}\n" for one in found)
            return answered(self, {"output": str(self.output), "rows": len(found)}, printable(str(self.output)))
        lines = [(str(one["row"]), f"{one['probability']:.3f}", printable(str(one["label"]))) for one in found]
        return answered(self, found, table(("row", "probability", "label"), lines))


def _read(options: VectorOptions, path: Path, keys: dict[str, str | None]) -> tuple[NDArray[Any], dict[str, list[str] | None]]:
    """Read all rows, and what is beside each of them: under a key, or on the lines of another file."""
    inside = tuple(dict.fromkeys(key for key in keys.values() if key is not None and not key.startswith(_AT)))
    rows, fields = options.rows_and_fields(path, inside)
    beside: dict[str, list[str] | None] = {}
    for what, key in keys.items():
        beside[what] = None
        if key is not None:
            values = stripped_lines(key.removeprefix(_AT)) if key.startswith(_AT) else _as_texts(path, key, fields[key])
            if len(values) != len(rows):
                raise ValueError(f"{key}: must have {len(rows)} lines, one for each row of {path}, got {len(values)}")
            beside[what] = values
    return rows, beside


def _as_texts(path: Path, key: str, values: Iterable[Any]) -> list[str]:
    """Return labels and ids as they are compared, as text: whole numbers by their digits."""
    found = list(values)
    for row, value in enumerate(found):
        if type(value) not in (str, int):
            raise FileError(path, f"{key!r} must be a string or a whole number, got {type(value).__name__} in row {row}")
    return [str(value).strip() for value in found]


def _require_listed(path: Path, groups: list[str] | None, labels: list[str]) -> None:
    known = set(labels)
    for row, label in enumerate(groups or ()):
        if label not in known:
            raise FileError(path, f"the labels of rows must be among the {len(labels)} of --labels, got {label!r:.60} in row {row}")


def _write_saved(made: Any, file: BinaryIO) -> None:
    """Write what `save` writes, which takes a path."""
    with TemporaryDirectory() as folder:
        made.save(Path(folder) / "saved")
        file.write((Path(folder) / "saved").read_bytes())


def _loaded(path: Path) -> aggregates.LinearClassifier:
    path.stat()  # an absent file raises the system's error
    try:
        return aggregates.LinearClassifier.load(path)
    except ValueError:
        with suppress(ValueError):
            return aggregates.CentroidClassifier.load(path)
        raise
