"""Cebere, Erb, Desfontaines, Bellet, Fitzsimons, "Privacy in theory, bugs in practice: grey-box auditing of differential privacy
libraries" (2026): Re:cord-play, which found data-dependent control flow, domains inferred from data, double spending, NaN that passes
clipping, and wrong noise or sensitivity in twelve libraries (the package is called dp-recorder).

A pipeline runs on one input with everything recorded that it draws and charges, and then on a neighbour with the same random answers.
Charges, parameters of the noise, shapes, receipts and results must be equal: nothing but the private rows may differ, and of those
only the rows of the one person who was replaced. These tests are exact: n = 1 pair for each pipeline, and no alpha but where noise is
said not to repeat, whose chance of a false alarm is below 2^-100.
"""

import dataclasses
import math
import sys

import numpy as np
import pytest

import hushvec as hv
from evidence.attacks.recorder import record, refused, replay
from hushvec.collect import BloomFilter, Vocabulary
from hushvec.jobs import NoiseJob, noise_batch
from hushvec.mechanisms import PublicProjection
from hushvec.mechanisms.top_k import GumbelTopK
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from hushvec.text import Chunking, Rewriter
from text.rewriting_parts import Recorder as NamedRows
from text.rewriting_parts import WordEmbedder

D = 16


def budget():
    return hv.PrivacyBudget(1000.0, max_delta=0.1)


def receipt_of(release):
    """A receipt without what names one charge."""
    receipt = release.receipt
    return repr(dataclasses.replace(receipt, charge=None)) if receipt is not None else None


# ---- pipelines: from private data to everything that comes out; each opens what it needs itself ----


def privatized(**settings):
    def pipeline(x):
        release = hv.privatize(x, budget=budget(), **settings)
        return release.values, receipt_of(release)

    return pipeline


def projected(x):
    projection = PublicProjection.johnson_lindenstrauss(D, 4, seed=3)
    return privatized(epsilon=2.0, projection=projection)(x)


class Rows:
    """Embeds the number that a text is, as a row that was given."""

    def __init__(self, rows):
        self.rows = rows

    def embed(self, texts):
        return np.stack([self.rows[int(text)] for text in texts])


def middleware(**settings):
    def pipeline(x):
        model = hv.wrap_embedding_model(Rows(x), hv.dp_embedding_middleware(epsilon=2.0, budget=budget(), **settings))
        rows = model.embed([str(number) for number in range(len(x))])
        return np.asarray(rows), receipt_of(rows)

    return pipeline


def batches(x):
    model = hv.wrap_embedding_model(Rows(x), hv.dp_embedding_middleware(epsilon=2.0, clip_norm=1.0, budget=budget()))
    found = list(model.embed_batches([["0", "1"], ["2", "3"], [str(number) for number in range(4, len(x))]]))
    return [np.asarray(part) for part in found], [receipt_of(part) for part in found]


def index_of_documents(x):
    index = PrivateIndex(D, documents=VectorNoise(epsilon=20.0, budget=budget()), store="numpy")
    release = index.add(x)
    found = index.search(np.eye(D, dtype=np.float32)[:3], k=4)
    return index.vectors(), found.ids, found.scores, repr(dataclasses.replace(release, charge=None))


def index_of_queries(x):
    index = PrivateIndex(D, queries=VectorNoise(epsilon=20.0, budget=budget()), store="numpy")
    index.add(np.random.default_rng(1).standard_normal((30, D)).astype(np.float32))
    found = index.search(x, k=4)
    return found.ids, found.scores


def index_of_scores(mechanism):
    def pipeline(x):
        index = PrivateIndex(D, scores=ScoreNoise(epsilon=1.0, mechanism=mechanism, budget=budget()), store="numpy")
        index.add(x)
        found = index.search(np.eye(D, dtype=np.float32)[:3], k=4)
        return found.ids, found.scores

    return pipeline


def job(mechanism):
    def pipeline(x):
        started = NoiseJob.start(dimension=D, epsilon=2.0, mechanism=mechanism, budget=budget())
        parts = [noise_batch(x[:2], started), noise_batch(x[2:], started, first_row=2)]
        receipt = dataclasses.replace(started.receipt(len(x)), charge=None, notes=())
        return parts, repr(receipt)

    return pipeline


def clipped_sums(x):
    from hushvec.training import clip_and_noise_gradients

    return clip_and_noise_gradients({"weight": x[:, :10], "bias": x[:, 10:]}, 1.0, 1.0, divisor=4)


def training(x):
    torch = pytest.importorskip("torch")
    from hushvec.training import Account, DPOptimizer

    torch.manual_seed(0)
    model = torch.nn.Linear(D, 1)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        clip_norm=1.0,
        noise_multiplier=1.0,
        expected_batch_size=4.0,
        sampling_probability=1.0,
        delta=1e-5,
        steps=3,
        account=Account(budget=budget()),
    )
    for _ in range(3):
        rows = torch.from_numpy(x)
        model.weight.grad_sample, model.bias.grad_sample = rows[:, None, :], rows[:, :1]
        optimizer.step()
    receipt = {name: value for name, value in optimizer.receipt().to_dict().items() if name != "charge"}
    return [parameter.detach().numpy() for parameter in model.parameters()], repr(receipt), optimizer.epsilon()


def labels(words):
    release = hv.privatize_labels(words, ["a", "b", "c"], epsilon=1.0, budget=budget())
    return release.values, receipt_of(release)


def classified(words):
    answers = iter([words])
    model = hv.wrap_classification_model(
        lambda texts: next(answers), hv.dp_classification_middleware(epsilon=1.0, labels=["a", "b", "c"], budget=budget())
    )
    found = model.classify([f"text {number}" for number in range(len(words))])
    return found.labels, [answer.score for answer in found], receipt_of(found)


def vocabulary(mechanism):
    def pipeline(words):
        release = Vocabulary(["a", "b", "c"], 1.0, mechanism=mechanism).release(words, budget=budget())
        return np.asarray(release.reports), receipt_of(release)

    return pipeline


def bloom(words):
    release = BloomFilter(64, 2, epsilon=2.0, cohorts=4, p=0.25, q=0.75, salt=b"public salt 1234").release(words, budget=budget())
    return [np.asarray(part) for part in release.reports], receipt_of(release)


def selected(x):
    return GumbelTopK(k=3, epsilon=1.0, sensitivity=1.0).select(x.astype(np.float64))


def rewritten(**settings):
    def pipeline(texts):
        rewriter = Rewriter(**{"embedder": WordEmbedder(), "inverter": NamedRows(), "epsilon": 8.0, **settings})
        found = list(rewriter.rewrite_all(texts, budget=budget()))
        return [one.output for one in found], [receipt_of(one) for one in found]

    return pipeline


RNG = np.random.default_rng(7)
X = RNG.standard_normal((6, D)).astype(np.float32)
REPLACED = {
    "another": RNG.standard_normal(D),
    "zeros": np.zeros(D),
    "huge": np.full(D, 3e30),
    "tiny": np.full(D, 1e-40),
    "equal to its neighbour": X[1],
}
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
WORDS = list("abcabc") * 30

VECTORS = {
    **{
        f"privatize {mechanism}": privatized(epsilon=2.0, mechanism=mechanism)
        for mechanism in ("gaussian", "laplacian", "privunit")
    },
    "privatize renormalize": privatized(epsilon=2.0, renormalize=True),
    "privatize normalize": privatized(epsilon=2.0, normalize=True),
    "privatize empirical": privatized(sigma=1.0, mechanism="empirical"),
    "privatize per release": privatized(epsilon=2.0, per="release"),
    "projection": projected,
    "middleware": middleware(clip_norm=1.0),
    "middleware normalize": middleware(normalize=True),
    "middleware privunit": middleware(mechanism="privunit", clip_norm=1.0),
    "middleware per release": middleware(clip_norm=1.0, per="release"),
    "middleware batches": batches,
    "PrivateIndex documents": index_of_documents,
    "PrivateIndex queries": index_of_queries,
    **{f"PrivateIndex {mechanism}": index_of_scores(mechanism) for mechanism in ("laplacian", "gaussian", "gumbel")},
    **{f"NoiseJob {mechanism}": job(mechanism) for mechanism in ("gaussian", "laplacian", "privunit")},
    "clip_and_noise_gradients": clipped_sums,
    "DPOptimizer": training,
    "GumbelTopK": selected,
}
# What has no budget of its own: the caller charges.
UNCHARGED = {"clip_and_noise_gradients", "GumbelTopK"}
# Where a document is a column of what is drawn for: one score for each query.
IN_COLUMNS = {"PrivateIndex gumbel"}
LABELS = {
    "privatize_labels": labels,
    "classification middleware": classified,
    **{f"Vocabulary {mechanism}": vocabulary(mechanism) for mechanism in ("k_rr", "unary", "hadamard")},
    "BloomFilter": bloom,
}


def same(first, second):
    """Equal to the last bit, arrays in lists and mappings included."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and same(list(first.values()), list(second.values()))
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second))
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.asarray(first).dtype == np.asarray(second).dtype and np.array_equal(
            first, second, equal_nan=first.dtype.kind == "f"
        )
    return first == second


def differences(pipeline, data, neighbour, *, in_columns=False):
    """What a replay with the neighbour shows that it must not, by name."""
    recorded = record(pipeline, data)
    replayed = replay(pipeline, neighbour, recorded)
    found = []
    if recorded.charges != replayed.charges:
        found.append("charges")
    if recorded.draws != replayed.draws:
        found.append("draws")
    elif not same(recorded.result, replayed.result):
        found.append("results")
    if recorded.charges and recorded.steps[0][0] != "charge":
        found.append("drawn before charged")
    if found == [] and max(people_that_differ(recorded, replayed, in_columns), default=0) > 1:
        found.append("sensitivity")
    return found, recorded


def people_that_differ(recorded, replayed, in_columns):
    """For each draw, how many of the private rows (or columns) differ between the two runs."""
    for first, second in zip(recorded.rows, replayed.rows, strict=True):
        if first is not None:
            sides = [side.reshape(len(side), -1) for side in (first, second)]
            yield int((sides[0] != sides[1]).any(axis=0 if in_columns else 1).sum())


# ---- the tests ----


@pytest.mark.parametrize("other", REPLACED)
@pytest.mark.parametrize("name", VECTORS)
def test_nothing_but_noise_depends_on_a_row(name, other):
    neighbour = X.copy()
    neighbour[2] = REPLACED[other]
    found, recorded = differences(VECTORS[name], X, neighbour, in_columns=name in IN_COLUMNS)
    assert found == []
    assert recorded.draws
    assert len(recorded.charges) == (0 if name in UNCHARGED else 3 if name == "middleware batches" else 1)


@pytest.mark.parametrize("name", LABELS)
def test_nothing_but_noise_depends_on_a_word(name):
    neighbour = list(WORDS)
    neighbour[4] = "a"
    found, recorded = differences(LABELS[name], WORDS, neighbour)
    assert found == []
    assert len(recorded.charges) == 1 and recorded.draws


TEXTS = ["The board meets on Tuesday.", "Sales fell in the north."]


@pytest.mark.parametrize("other", ["We moved the clinic, and nobody knows.", "x", "jane@example.com", "word " * 400])
@pytest.mark.parametrize("mechanism", ["gaussian", "privunit"])
def test_nothing_but_noise_depends_on_a_document(mechanism, other):
    """Level "document", which promises that nothing else comes out."""
    pipeline = rewritten(chunking=Chunking(level="document"), mechanism=mechanism)
    found, recorded = differences(pipeline, TEXTS, [TEXTS[0], other])
    assert found == []
    assert len(recorded.charges) == 2


@pytest.mark.parametrize("other", ["We moved the clinic, and nobody knows.", "x"])
def test_nothing_but_noise_depends_on_the_words_of_a_chunk(other):
    """Level "chunk" with a public number of chunks, for texts without personal data; placeholders are covered by no epsilon."""
    found, recorded = differences(rewritten(chunking=Chunking(level="chunk", max_chunks=3)), TEXTS, [TEXTS[0], other])
    assert found in ([], ["sensitivity"]) and len(recorded.charges) == 2  # a document is one person's: all its chunks may differ


def test_chunks_without_a_public_number_are_seen():
    """The control: docs/threat-model.md says that placeholders and the number of chunks are covered by no epsilon."""
    other = "Write to jane@example.com on Tuesday."
    assert differences(rewritten(chunking=Chunking(level="chunk")), TEXTS, [TEXTS[0], other])[0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", VECTORS)
def test_rows_that_are_not_finite_are_refused_before_anything_is_charged_or_drawn(name, bad):
    x = X.copy()
    x[3, 1] = bad
    trace, error = refused(VECTORS[name], x)
    assert isinstance(error, ValueError)
    if name == "middleware batches":  # earlier batches were released, and paid for
        assert len(trace.charges) == len(trace.draws) == 1
    elif name.startswith("NoiseJob"):  # a job is charged when it starts; the batch with the row is refused
        assert len(trace.charges) == 1 and all(np.isfinite(answer).all() for answer in trace.answers)
    else:
        assert trace.charges == [] and trace.answers == []


@pytest.mark.parametrize("name", ["privatize_labels", "classification middleware", "Vocabulary k_rr", "Vocabulary unary"])
def test_domains_are_public(name):
    """A word outside the list is refused before anything is charged or drawn: no list grows by what people say."""
    trace, error = refused(LABELS[name], [*WORDS, "new"])
    assert isinstance(error, ValueError)
    assert trace.steps == []


@pytest.mark.parametrize("name", [name for name in (*VECTORS, *LABELS) if name not in ("GumbelTopK", "PrivateIndex gumbel")])
def test_noise_never_repeats(name):
    """The same data three times: no two draws have the same answer. Each has 100 bits of noise and more; orders of a few ids have not,
    and are left out.
    """
    pipeline, data = (VECTORS[name], X) if name in VECTORS else (LABELS[name], WORDS)
    answers = [as_bytes(answer) for _ in range(3) for answer in record(pipeline, data).answers]
    assert len(set(answers)) == len(answers) > 0


def as_bytes(answer):
    return b"".join(map(as_bytes, answer)) if isinstance(answer, (list, tuple)) else np.asarray(answer).tobytes()


@pytest.mark.parametrize("name", [name for name in VECTORS if name not in UNCHARGED])
def test_every_release_is_charged(name, monkeypatch):
    """The same data twice against one ledger: the second release costs what the first did."""
    ledger = hv.PrivacyBudget(10_000.0, max_delta=0.5)
    monkeypatch.setattr(sys.modules[__name__], "budget", lambda: ledger)
    record(VECTORS[name], X)
    once = ledger.consumed()
    record(VECTORS[name], X)
    assert ledger.consumed() == pytest.approx(2 * once, rel=1e-12)
    assert once > 0


# ---- mutants: each a wrapper that somebody might write ----


def clip_norm_from_the_data(x):
    return privatized(epsilon=2.0, clip_norm=float(np.abs(x).mean()))(x)


def epsilon_from_the_data(x):
    return privatized(epsilon=1.0 + float(np.abs(x).max() > 1e20))(x)


def zero_rows_are_skipped(x):
    return privatized(epsilon=2.0)(x[np.abs(x).sum(axis=1) > 0])


def centered_by_the_mean_of_all(x):
    return privatized(epsilon=2.0)(x - x.mean(axis=0))


def one_value_beside_the_noise(x):
    values, receipt = privatized(epsilon=2.0)(x)
    return values, receipt, float(x[2, 0])


def charged_after_the_release(x):
    account = budget()
    values = hv.privatize(x, epsilon=2.0).values
    account.consume(2.0, 1e-5)
    return values


def charged_by_need(x):
    return privatized(epsilon=2.0)(x) if np.abs(x[2]).max() < 1e20 else hv.privatize(x, epsilon=2.0).values


VECTOR_MUTANTS = {
    clip_norm_from_the_data: ("draws", "zeros"),
    epsilon_from_the_data: ("charges", "huge"),
    zero_rows_are_skipped: ("draws", "zeros"),
    centered_by_the_mean_of_all: ("sensitivity", "another"),
    one_value_beside_the_noise: ("results", "another"),
    charged_after_the_release: ("drawn before charged", "another"),
    charged_by_need: ("charges", "huge"),
}


@pytest.mark.parametrize("mutant", VECTOR_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutants_leave_a_trace(mutant):
    expected, other = VECTOR_MUTANTS[mutant]
    neighbour = X.copy()
    neighbour[2] = REPLACED[other]
    assert expected in differences(mutant, X, neighbour)[0]


def test_a_dictionary_made_of_what_people_say_leaves_a_trace():
    def pipeline(words):
        release = Vocabulary(sorted(set(words)), 1.0, mechanism="k_rr").release(words, budget=budget())
        return np.asarray(release.reports), receipt_of(release)

    assert "draws" in differences(pipeline, [*WORDS, "a"], [*WORDS, "new"])[0]


def test_a_nonce_that_is_used_twice_repeats_its_noise():
    def pipeline(x):
        return hv.clip_and_noise(x, 1.0, 1.0, generator=hv.Generator.unsafe_seeded(1))

    answers = [record(pipeline, X).answers[0].tobytes() for _ in range(2)]
    assert answers[0] == answers[1]


def test_a_charge_that_pays_for_two_releases_leaves_a_trace():
    def pipeline(x):
        paid = hv.privatize(x, epsilon=2.0, budget=budget())
        return paid.values, hv.privatize(x, epsilon=2.0).values

    trace = record(pipeline, X)
    assert len(trace.charges) == 1 and len(trace.draws) == 2


def test_a_clip_that_lets_nan_pass_is_not_refused():
    def pipeline(x):
        scale = np.minimum(1.0, 1.0 / np.linalg.norm(x, axis=1, keepdims=True))
        return np.where(np.isnan(x), 0.0, x * scale) + hv.gaussian_noise(x.shape, 1.0)

    x = X.copy()
    x[3, 1] = math.nan
    assert refused(pipeline, x)[1] is None
