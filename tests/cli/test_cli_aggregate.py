"""hushvec aggregate: what the functions release, from every kind of file, and nothing charged or written on bad input.

Statistics, alpha = 1e-6: chi-square of the noise of a mean of 4,000 elements, as its sigma is known; a sigma 20 % larger is rejected.
"""

import json

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from cli.command import assert_one_line, hushvec_here
from hushvec.aggregates import CentroidClassifier, LinearClassifier
from hushvec.cli.aggregate import NOTE_EMBEDDED
from hushvec.mechanisms import PublicProjection
from hushvec.receipts import AggregateReceipt

ALPHA = 1e-6
ROWS, DIMENSION = 2000, 8
LABELS = ("milk", "tea")


@pytest.fixture(scope="module")
def rows():
    """Two labels, and rows that tell them apart."""
    rng = np.random.default_rng(40)
    codes = rng.integers(0, 2, ROWS)
    x = rng.standard_normal((ROWS, DIMENSION)).astype(np.float32)
    x[:, 0] += 4 * codes
    return x, np.array(LABELS)[codes]


@pytest.fixture
def files(rows, tmp_path):
    """The same rows as .npy, .jsonl, .csv, .parquet and .arrow; with labels and ids of people beside them, two rows each."""
    x, labels = rows
    np.save(tmp_path / "rows.npy", x)
    (tmp_path / "labels.txt").write_text("\n".join(labels) + "\n")
    (tmp_path / "all.txt").write_text("\n".join(LABELS) + "\n")
    pairs = enumerate(zip(x.tolist(), labels.tolist()))
    fields = [{"embedding": row, "what": label, "who": place // 2} for place, (row, label) in pairs]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in fields))
    lines = [",".join([*map(str, one["embedding"]), one["what"], str(one["who"])]) for one in fields]
    (tmp_path / "rows.csv").write_text("\n".join([",".join([*"abcdefgh", "what", "who"]), *lines]) + "\n")
    try:
        import pyarrow as arrow
        from pyarrow import feather, parquet
    except ImportError:
        return tmp_path
    column = arrow.array([one["embedding"] for one in fields], arrow.list_(arrow.float32()))
    beside = {name: [one[name] for one in fields] for name in ("what", "who")}
    parquet.write_table(arrow.table({"embedding": column, **beside}), tmp_path / "rows.parquet")
    feather.write_feather(arrow.table({"embedding": column, **beside}), tmp_path / "rows.arrow")
    return tmp_path


def aggregated(folder, *arguments):
    finished = hushvec_here("aggregate", *arguments, "--json", cwd=folder)
    assert finished.code == 0, finished.err
    return json.loads(finished.out)


def receipt_of(folder, name):
    receipt = AggregateReceipt.from_json((folder / f"{name}.receipt.json").read_text())
    assert hv.verify_receipt(receipt).status == "holds"
    return receipt


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", ["npy", "jsonl", "csv", "parquet", "arrow"])
@pytest.mark.parametrize(("action", "made"), [("classifier", LinearClassifier), ("centroids", CentroidClassifier)])
def test_a_classifier_from_every_kind_of_file(files, rows, action, made, kind):
    if kind in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    key = "@labels.txt" if kind == "npy" else "what"
    arguments = [f"rows.{kind}", "-o", "made.npz", "--label-key", key, "--labels", "@all.txt", "--epsilon", 1]
    arguments += ["--people-key", "who", "--rows-per-person", 2] if kind == "csv" else []
    found = aggregated(files, action, *arguments)
    classifier = made.load(files / "made.npz")
    receipt = receipt_of(files, "made.npz")
    assert classifier.receipt == receipt and found["receipt"] == receipt.to_dict()
    assert (receipt.epsilon, receipt.delta, receipt.adjacency) == (1.0, 1e-5, "add-remove")
    assert receipt.rows_bound == ("people" if kind == "csv" else "promised")
    assert receipt.is_dp_claim and receipt.rows is None and classifier.classes_.tolist() == list(LABELS)
    assert classifier.score(*rows) > 0.9
    predicted = aggregated(files, "predict", "made.npz", f"rows.{kind}" if kind != "csv" else "rows.npy")
    assert [one["label"] for one in predicted] == classifier.predict(rows[0]).tolist()
    assert [one["probability"] for one in predicted] == classifier.predict_proba(rows[0]).max(axis=1).tolist()


def test_a_mean_has_the_noise_that_its_receipt_states(tmp_path):
    """Under replace-one the count is public, so that the noise of the mean is that of the sums over it."""
    x = np.zeros((50, 4000), np.float32)
    np.save(tmp_path / "rows.npy", x)
    found = aggregated(tmp_path, "mean", "rows.npy", "-o", "mean.npy", "--epsilon", 1, "--adjacency", "replace-one", "--clip-norm", 2)
    receipt = receipt_of(tmp_path, "mean.npy")
    (sums,) = receipt.statistics
    noise = np.load(tmp_path / "mean.npy") * 50 / sums.sigma
    assert (sums.clip_norm, receipt.rows, found["count"]) == (2.0, 50, 50.0) and noise.shape == (4000,)
    chance = lambda scale: 2 * min(stats.chi2.cdf(scale * noise @ noise, 4000), stats.chi2.sf(scale * noise @ noise, 4000))
    assert chance(1.0) > ALPHA > chance(1 / 1.2**2)


def test_a_map_is_a_public_projection(files):
    found = aggregated(files, "pca", "rows.npy", "-o", "map.npz", "--epsilon", 1, "--components", 3, "--clip-norm", 5)
    projection = PublicProjection.load(files / "map.npz")
    assert (projection.dimension, projection.output_dimension, projection.digest) == (DIMENSION, 3, found["digest"])
    assert {one.statistic for one in receipt_of(files, "map.npz").statistics} == {"sums", "moments"}


@pytest.mark.parametrize(("rows_per_person", "kept"), [(1, ROWS // 2), (2, ROWS)])
def test_rows_beyond_those_of_a_person_are_dropped(files, rows_per_person, kept):
    """The noisy count is within 8 deviations, far fewer than the rows that are dropped."""
    arguments = ("rows.jsonl", "-o", "mean.npy", "--epsilon", 64, "--people-key", "who", "--rows-per-person", rows_per_person)
    found = aggregated(files, "mean", *arguments)
    receipt = receipt_of(files, "mean.npy")
    assert (receipt.rows_bound, receipt.rows_per_person) == ("people", rows_per_person)
    assert abs(found["count"] - kept) < 8 * receipt.statistics[0].count_sigma < ROWS / 4


def test_texts_are_embedded_and_predictions_are_of_texts(tmp_path):
    pytest.importorskip("sentence_transformers")
    kinds = {"weather": ("rain", "snow", "wind"), "money": ("invoice", "loan", "tax")}
    texts = [(f"The {word} on day {day}.", topic) for topic, words in kinds.items() for word in words for day in range(40)]
    notes = [{"text": text, "topic": topic} for text, topic in texts]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    written = ",".join(kinds)
    finished = hushvec_here(
        *("aggregate", "classifier", "notes.jsonl", "-o", "topics.npz", "--text-key", "text", "--label-key", "topic"),
        *("--labels", written, "--epsilon", 8),
        cwd=tmp_path,
    )
    assert finished.code == 0, finished.err
    assert "epsilon 8.0, delta 1e-05 for one person" in finished.out
    assert finished.out.splitlines()[-1] == "Next  hushvec aggregate predict topics.npz --text 'a new text'"
    assert receipt_of(tmp_path, "topics.npz").notes == (NOTE_EMBEDDED,)
    found = aggregated(tmp_path, "predict", "topics.npz", "--text", "snow and wind", "--text", "a loan and its tax")
    assert [one["label"] for one in found] == ["weather", "money"]


def test_predictions_as_lines(files):
    aggregated(files, "centroids", "rows.csv", "-o", "made.npz", "--label-key", "what", "--people-key", "who", "--labels", "milk,tea",
               "--epsilon", 1)  # fmt: skip
    said = aggregated(files, "predict", "made.npz", "rows.npy", "-o", "out.jsonl")
    assert said == {"output": "out.jsonl", "rows": ROWS, "taken": ["2,000 rows x 8 columns of rows.npy, the array"]}
    lines = [json.loads(line) for line in (files / "out.jsonl").read_text().splitlines()]
    assert lines == aggregated(files, "predict", "made.npz", "rows.npy")


def test_a_budget_is_charged_once_and_refuses(files):
    hv.PrivacyBudget(1.5, persist_key="notes", store=files / "ledger.db").close()
    command = ("mean", "rows.npy", "--epsilon", 1, "--budget", "notes", "--budget-store", "ledger.db")
    charge = aggregated(files, *command, "-o", "mean.npy")["receipt"]["charge"]
    before = names(files)
    assert_one_line(hushvec_here("aggregate", *command, "-o", "again.npy", cwd=files), "privacy budget")
    with hv.PrivacyBudget.reopen("notes", store=files / "ledger.db") as budget:
        assert budget.consumed() == 1.0 and budget.verify().rows == charge["sequence"] == 2
    assert names(files) == before


def test_an_old_release_is_replaced_by_force_alone(files):
    command = ("aggregate", "mean", "rows.npy", "-o", "mean.npy", "--epsilon", 1)
    assert hushvec_here(*command, cwd=files).code == 0
    before = (files / "mean.npy").read_bytes()
    assert_one_line(hushvec_here(*command, cwd=files), "mean.npy: must not exist")
    assert (files / "mean.npy").read_bytes() == before
    assert hushvec_here(*command, "--force", cwd=files).code == 0
    assert "both count" in receipt_of(files, "mean.npy").notes[0]


_CLASSIFIER = ("classifier", "rows.jsonl", "-o", "made.npz", "--epsilon", "1")
_MEAN = ("mean", "rows.npy", "-o", "mean.npy")
WRONG = {
    "no labels": ((*_CLASSIFIER, "--label-key", "what"), "--labels must be given: the public list", "is private itself"),
    "no key": ((*_CLASSIFIER, "--labels", "a,b"), "--label-key must be given"),
    "one label": ((*_CLASSIFIER, "--label-key", "what", "--labels", "milk"), "--labels must be at least 2"),
    "a label twice": ((*_CLASSIFIER, "--label-key", "what", "--labels", "a,b,a"), "all different, got 3, of which 2 differ"),
    "an unlisted label": ((*_CLASSIFIER, "--label-key", "what", "--labels", "milk,coffee"), "rows.jsonl", "got 'tea' in row"),
    "another key": ((*_CLASSIFIER, "--label-key", "topic", "--labels", "a,b"), "line 1: has no key 'topic'"),
    "a list as label": ((*_CLASSIFIER, "--label-key", "embedding", "--labels", "a,b"), "'embedding'"),
    "too few lines": ((*_CLASSIFIER, "--label-key", "@all.txt", "--labels", "a,b"), "@all.txt: must have 2000 lines", "got 2"),
    "labels of .npy": (("centroids", "rows.npy", *_CLASSIFIER[2:], "--label-key", "what", "--labels", "a,b"), "no columns or keys"),
    "no file of labels": ((*_CLASSIFIER, "--label-key", "what", "--labels", "@absent.txt"), "absent.txt"),
    "another suffix": (("mean", "rows.npy", "-o", "mean.npz", "--epsilon", "1"), "mean.npz: must end in .npy"),
    "no folder": (("mean", "rows.npy", "-o", "no/mean.npy", "--epsilon", "1"), "the folder no must exist"),
    "epsilon 0": ((*_MEAN, "--epsilon", "0"), "epsilon must be > 0, got 0.0"),
    "delta 0": ((*_MEAN, "--epsilon", "1", "--delta", "0"), "delta must be"),
    "rows per person": ((*_MEAN, "--epsilon", "1", "--rows-per-person", "0"), "rows_per_person must be >= 1"),
    "no file": (("mean", "absent.npy", "-o", "mean.npy", "--epsilon", "1"), "absent.npy"),
    "no budget": ((*_MEAN, "--epsilon", "1", "--budget", "none", "--budget-store", "none.db"), "none"),
    "components": (("pca", "rows.npy", "-o", "m.npz", "--epsilon", "1", "--components", "9"), "components must be at most 8"),
    "no classifier": (("predict", "rows.npy", "--text", "a"), "rows.npy is not a saved LinearClassifier"),
    "nothing to predict": (("predict", "rows.npy"), "one of IN and --text must be given"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_one_line_and_leaves_nothing(files, case):
    before = names(files)
    arguments, *parts = WRONG[case]
    assert_one_line(hushvec_here("aggregate", *arguments, cwd=files), *parts)
    assert names(files) == before


CSV = {
    "a word": ("a,b\n1,2\n3,x\n", "line 3: must have columns of numbers, got 'b'"),
    "another length": ("a,b\n1,2\n3\n", "line 3: must have 2 fields like the first, got 1"),
    "names twice": ("a,a\n1,2\n", "the names of columns must differ"),
    "nothing": ("", "at least one line"),
    "names alone": ("a,b\n", "at least one line"),
    "a quote": ('a,b\n1,"2\n', "line 2"),
    "not finite": ("a,b\n1,nan\n", "finite"),
    "not UTF-8": (b"a,b\n1,\xff\n", "rows.csv"),
}


@pytest.mark.parametrize("case", CSV)
def test_wrong_tables(tmp_path, case):
    content, text = CSV[case]
    (tmp_path / "rows.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert_one_line(hushvec_here("aggregate", "mean", "rows.csv", "-o", "mean.npy", "--epsilon", 1, cwd=tmp_path), text)
    assert names(tmp_path) == ["rows.csv"]


def test_a_table_without_names(tmp_path):
    (tmp_path / "rows.csv").write_text("\n".join(["3,4"] * 100) + "\n")
    aggregated(tmp_path, "mean", "rows.csv", "-o", "mean.npy", "--epsilon", 100, "--clip-norm", 5)
    np.testing.assert_allclose(np.load(tmp_path / "mean.npy"), [3, 4], atol=0.3)
