"""Every adapter with every shape of input that people have: no texts, one, columns of tables; rows of bfloat16; another process."""

import multiprocessing
import pickle

import numpy as np
import pytest

import hushvec as hv
from integrations.adapter_cases import ASYNC, DIMENSION, HOSTS, ToyModel, faint, is_near, private, run

TEXTS = ["one", "two", "three"]


def of(library, make):
    return lambda texts: make(pytest.importorskip(library), list(texts))


# What texts come in.
COLUMNS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "numpy objects": lambda texts: np.array(texts, object),
    "pandas Series": of("pandas", lambda pandas, texts: pandas.Series(texts)),
    "pandas Index": of("pandas", lambda pandas, texts: pandas.Index(texts)),
    "pandas categories": of("pandas", lambda pandas, texts: pandas.Series(texts, dtype="category")),
    "polars Series": of("polars", lambda polars, texts: polars.Series("texts", texts, dtype=polars.String)),
    "Arrow array": of("pyarrow", lambda arrow, texts: arrow.array(texts, arrow.string())),
    "Arrow chunks": of("pyarrow", lambda arrow, texts: arrow.chunked_array([texts], arrow.string())),
}
# Hosts whose methods take nothing but their own: LlamaIndex and Chroma look at the list themselves, Haystack takes documents.
TAKE_COLUMNS = ("langchain", "sentence_transformers", "openai")


class HalfModel(ToyModel):
    """Rows as an encoder in bfloat16 makes them: unit vectors, normalized and rounded in 8 bits, handed out as float32."""

    def embed(self, texts, kind="document"):
        torch = pytest.importorskip("torch")
        rows = torch.from_numpy(super().embed(texts, kind)).bfloat16()
        return (rows / rows.norm(dim=1, keepdim=True)).bfloat16().float().numpy()


@pytest.mark.parametrize("name", HOSTS)
def test_no_texts_have_no_rows_and_cost_nothing(name):
    budget, receipts, model = hv.PrivacyBudget(10.0), [], ToyModel()
    host = HOSTS[name](model, private(budget), receipts.append)
    assert len(host.documents([])) == 0
    if name in ASYNC:
        assert len(run(host.adocuments([]))) == 0
    assert budget.consumed() == 0 and receipts == [] and model.calls == []
    assert len(host.documents(["one"])) == 1 and len(host.documents([])) == 0 and budget.consumed() == 2.0


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", TAKE_COLUMNS)
def test_texts_come_in_columns(name, kind):
    host = HOSTS[name](ToyModel(), faint())
    rows = host.documents(COLUMNS[kind](TEXTS))
    assert len(rows) == 3 and all(is_near(row, text) for row, text in zip(rows, TEXTS))
    assert len(host.documents(COLUMNS[kind](TEXTS[:1]))) == 1
    assert len(host.documents(COLUMNS[kind]([]))) == 0


@pytest.mark.parametrize("kind", [kind for kind in COLUMNS if kind not in ("numpy", "list", "tuple")])
def test_a_gap_in_a_column_is_named(kind):
    model = hv.wrap_embedding_model(ToyModel(), faint())
    with pytest.raises(TypeError, match=r"texts must be strings, got (NoneType|float) at position 1"):
        model.embed(COLUMNS[kind](["one", None, "three"]))


def test_what_is_no_sequence_is_refused_with_the_way():
    model = hv.wrap_embedding_model(ToyModel(), faint())
    for texts, words in (({"one"}, "got set"), (iter(TEXTS), "got list_iterator"), ({"one": 1}, "got dict"), ("one", "got str")):
        with pytest.raises(TypeError, match=f"texts must be a sequence of strings, {words}"):
            model.embed(texts)


def test_texts_of_hdf5_are_refused_with_the_way(tmp_path):
    model, h5py = hv.wrap_embedding_model(ToyModel(), faint()), pytest.importorskip("h5py")
    with h5py.File(tmp_path / "texts.h5", "w") as file:
        file["texts"] = TEXTS
        with pytest.raises(TypeError, match=r"texts must be strings, got an HDF5 data set, .* \(pass texts.asstr\(\)\[:\]\)"):
            model.embed(file["texts"])
        assert model.embed(file["texts"].asstr()[:]).shape == (3, DIMENSION)


@pytest.mark.parametrize("name", HOSTS)
def test_rows_of_a_bfloat16_encoder_are_clipped_and_noted(name):
    texts, receipts = [f"text {number}" for number in range(200)], []
    norms = np.linalg.norm(HalfModel().embed(texts), axis=1)
    assert norms.max() > 1.001 and norms.min() < 0.999  # beyond the rounding of float32
    rows = HOSTS[name](HalfModel(), faint(), receipts.append).documents(texts)
    assert len(rows) == 200 and receipts[0].clip_norm == 1.0
    said = "clip_norm is that of unit vectors, as which these rows were found up to rounding in 16 bits; longer ones are clipped"
    assert said in receipts[0].notes


# ---- other processes ----


def langchain(*given):
    pytest.importorskip("langchain_core")
    from hushvec.integrations.langchain import PrivateEmbeddings

    return PrivateEmbeddings(*given).embed_documents


def llama_index(*given):
    pytest.importorskip("llama_index.core")
    from hushvec.integrations.llama_index import PrivateEmbedding

    return Batches(PrivateEmbedding(*given))


class Batches:
    """The method by which LlamaIndex embeds, which its instrumentation makes an object that is not pickled."""

    def __init__(self, model):
        self.model = model

    def __call__(self, texts):
        return self.model.get_text_embedding_batch(texts)


def haystack(*given):
    pytest.importorskip("haystack")
    from hushvec.integrations.haystack import PrivateTextEmbedder

    return PrivateTextEmbedder(*given, noise_on="both").run


def chroma(*given):
    pytest.importorskip("chromadb")
    from hushvec.integrations.chroma import PrivateEmbeddingFunction

    return PrivateEmbeddingFunction(*given)


def sentence_transformers(*given):
    pytest.importorskip("sentence_transformers")
    from hushvec.integrations.sentence_transformers import PrivateSentenceTransformer

    return PrivateSentenceTransformer(*given).encode


def sklearn(*given):
    pytest.importorskip("sklearn")
    from hushvec.integrations.sklearn import PrivateTextTransformer

    return PrivateTextTransformer(*given).fit(None).transform


def middleware(*given):
    return hv.wrap_embedding_model(*given).embed


def composed(model, step):
    steps = [hv.pii_redaction_middleware(patterns=["email"], custom_patterns={"ward": r"ward \d+"}), step]
    return hv.wrap_embedding_model(model, steps).embed


def twice_wrapped(model, step):
    return hv.wrap_embedding_model(hv.wrap_embedding_model(model, hv.pii_redaction_middleware()), step).embed


def toy_labels(texts):
    return ["b" if "o" in text else "a" for text in texts]


def classification(model, step):
    return hv.wrap_classification_model(toy_labels, of_labels(step)).classify


def of_labels(step):
    return hv.dp_classification_middleware(epsilon=2.0, labels=["a", "b"], budget=step._budget)


def estimator(model, step):
    linear = pytest.importorskip("sklearn.linear_model")
    fitted = linear.LogisticRegression().fit(np.eye(4), [*"abab"])
    return Rows(hv.wrap_classification_model(fitted, of_labels(step)))


class Rows:
    def __init__(self, private):
        self.private = private

    def __call__(self, texts):
        return self.private.predict(np.eye(4)[: len(texts)])


HOSTED = (langchain, llama_index, haystack, chroma, sentence_transformers, sklearn)
MADE = (*HOSTED, middleware, composed, twice_wrapped, classification, estimator)


def asked(call):
    """The rows, or labels, that a call answers to two texts."""
    answer = call("one") if getattr(call, "__name__", "") == "run" else call(["one", "two"])
    if isinstance(answer, dict):
        answer = answer["embedding"]
    return getattr(answer, "labels", None) or np.asarray(answer).tolist()


def in_another_process(packed):
    return asked(pickle.loads(packed))


@pytest.fixture
def ledger(tmp_path):
    with hv.PrivacyBudget(100.0, persist_key="notes", store=tmp_path / "ledger.db") as budget:
        yield budget


@pytest.mark.parametrize("make", MADE)
def test_adapters_and_middleware_are_pickled_with_their_ledger(make, ledger):
    """Before the first call and after one, which leaves plans and a dimension behind."""
    call = make(ToyModel(), private(ledger))
    for number in (1, 2):
        again = pickle.loads(pickle.dumps(call))
        assert len(asked(again)) == len(asked(call)) > 0
        assert ledger.consumed() == number * 2 * 2.0


@pytest.mark.parametrize("make", MADE)
def test_what_cannot_be_sent_says_why(make):
    for step, words in (
        (private(hv.PrivacyBudget(10.0)), "a budget in memory, or a closed one, cannot be sent to another process"),
        (private(generator=hv.Generator()), "a Generator cannot be copied or pickled: two copies would repeat one key stream"),
    ):
        if step._budget is None and make in (classification, estimator):
            continue
        with pytest.raises(TypeError, match=words):
            pickle.dumps(make(ToyModel(), step))


def test_spawned_workers_release_with_noise_of_their_own(ledger):
    """Really spawned: the worker imports everything anew, and charges the same ledger."""
    calls = []
    for make in MADE:
        try:
            calls.append((make.__name__, make(ToyModel(), private(ledger))))
        except pytest.skip.Exception:
            continue
    packed = [pickle.dumps(call) for _, call in calls]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = (pool.map(in_another_process, packed, chunksize=1) for _ in range(2))
    assert ledger.consumed() == 2 * 2.0 * len(calls)
    for (name, call), one, other in zip(calls, first, second):
        here = asked(call)
        assert np.shape(one) == np.shape(other) == np.shape(here), name
        if not isinstance(one[0], str):
            assert one != other and one != here and other != here, name


def test_the_generator_of_a_process_is_the_one_of_the_process_it_is_sent_to():
    from hushvec._native.kernels import require_generator

    own = require_generator(None)
    assert pickle.loads(pickle.dumps(own)) is own
    with pytest.raises(TypeError, match="a Generator cannot be copied or pickled"):
        pickle.dumps(hv.Generator())
