"""What `wrap_embedding_model` does with texts and rows, whatever the steps do."""

import asyncio
import pickle
from dataclasses import replace

import numpy as np
import pytest

import hushvec as hv
from hushvec.middleware import EmbeddingMiddleware, EmbeddingResult, as_embedding_model
from middleware.embedders import Answering, Recorder


class Mark(EmbeddingMiddleware):
    """Leaves its letter on texts and rows."""

    def __init__(self, letter, digit):
        self.letter, self.digit = letter, digit

    def transform(self, request):
        return replace(request, texts=tuple(text + self.letter for text in request.texts))

    def wrap(self, result, model):
        return replace(result, values=result.values * 10 + self.digit)


NOTHING = EmbeddingMiddleware()


def constant(value, dimension=1):
    return lambda texts: np.full((len(texts), dimension), value, np.float32)


def test_steps_are_taken_in_the_order_of_the_list_on_both_ways():
    model = Recorder()
    hv.wrap_embedding_model(model, [Mark("a", 1), Mark("b", 2), Mark("c", 3)]).embed(["x", "y"])
    assert model.calls == [(("xabc", "yabc"), "document")]
    rows = hv.wrap_embedding_model(constant(0), [Mark("a", 1), Mark("b", 2), Mark("c", 3)]).embed(["x"])
    assert rows.tolist() == [[123.0]]


def test_composed_steps_compose_again():
    inner = hv.compose_embedding_middleware([Mark("a", 1), Mark("b", 2)])
    rows = hv.wrap_embedding_model(constant(0), hv.compose_embedding_middleware([inner, Mark("c", 3)])).embed(["x"])
    assert rows.tolist() == [[123.0]]


def test_a_wrapped_model_is_a_model():
    inner = hv.wrap_embedding_model(Recorder(), hv.dp_embedding_middleware(epsilon=2.0, clip_norm=1.0))
    outer = hv.wrap_embedding_model(inner, hv.dp_embedding_middleware(epsilon=4.0, clip_norm=1.0))
    rows = outer.embed(["x"])
    assert [receipt.epsilon for receipt in rows.receipts] == [2.0, 4.0]
    assert rows.receipt == rows.receipts[-1]


def test_the_kind_reaches_models_that_take_it():
    model = Recorder()
    hv.wrap_embedding_model(model, NOTHING).embed(["x"], kind="query")
    assert model.calls[0][1] == "query"
    hv.wrap_embedding_model(constant(1), NOTHING).embed(["x"], kind="query")


def test_usage_and_metadata_stay():
    answer = {"embeddings": [[1.0, 0.0]], "usage": {"total_tokens": 7}, "model": "m-1"}
    rows = hv.wrap_embedding_model(Answering(answer), hv.dp_embedding_middleware(epsilon=1.0)).embed(["x"])
    assert rows.usage == {"total_tokens": 7}
    assert rows.metadata == {"model": "m-1"}
    assert rows.receipt.rows == 1


def test_rows_carry_their_receipt_and_parts_of_them_none():
    rows = hv.wrap_embedding_model(Recorder(), hv.dp_embedding_middleware(epsilon=1.0)).embed(["x", "y"])
    assert isinstance(rows, np.ndarray) and rows.shape == (2, 16) and rows.dtype == np.float32
    assert rows.receipt.rows == 2 and rows.receipts == (rows.receipt,)
    for part in (rows[0], rows[:1], rows * 2, rows + rows, np.asarray(rows[:2])):
        assert not getattr(part, "receipts", ())
    assert type(rows.values) is np.ndarray and rows.values.base is not None
    again = pickle.loads(pickle.dumps(rows))
    assert np.array_equal(again, rows) and again.receipts == rows.receipts


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_run_keeps_the_kind_of_the_model(library):
    values = np.eye(4, dtype=np.float32)
    if library == "torch":
        values = pytest.importorskip("torch").from_numpy(values)
    result = hv.wrap_embedding_model(Answering(values), hv.dp_embedding_middleware(epsilon=1.0)).run(["x"] * 4)
    assert isinstance(result, EmbeddingResult)
    assert type(result.values) is type(values)
    assert isinstance(hv.wrap_embedding_model(Answering(values), NOTHING).embed(["x"] * 4), np.ndarray)


def test_bfloat16_becomes_float32_for_numpy():
    torch = pytest.importorskip("torch")
    model = Answering(torch.eye(4, dtype=torch.bfloat16))
    rows = hv.wrap_embedding_model(model, hv.dp_embedding_middleware(epsilon=1.0)).embed(["x"] * 4)
    assert rows.dtype == np.float32 and rows.receipt.dtype == "bfloat16"


def test_async_and_batches_give_the_same_releases():
    def model(seed):
        step = hv.dp_embedding_middleware(epsilon=1.0, generator=hv.Generator.unsafe_seeded(seed))
        return hv.wrap_embedding_model(Recorder(), step)

    batches = [["a", "b"], ["c"]]
    expected = [np.array(rows) for rows in model(1).embed_batches(batches)]

    async def gather(batches):
        return [np.array(rows) async for rows in model(1).aembed_batches(batches)]

    async def stream():
        for batch in batches:
            await asyncio.sleep(0)
            yield batch

    async def one_by_one():
        wrapped = model(1)
        return [np.array(await wrapped.aembed(batch)) for batch in batches]

    for rows in (asyncio.run(gather(batches)), asyncio.run(gather(stream())), asyncio.run(one_by_one())):
        assert all(np.array_equal(one, other) for one, other in zip(rows, expected, strict=True))


def test_an_asynchronous_model_is_awaited():
    class Model:
        async def aembed(self, texts, kind="document"):
            await asyncio.sleep(0)
            return [[1.0, 0.0]] * len(texts)

        def embed(self, texts):
            raise AssertionError("the synchronous form was called")

    rows = asyncio.run(hv.wrap_embedding_model(Model(), hv.dp_embedding_middleware(epsilon=1.0)).aembed(["x"]))
    assert rows.receipt.rows == 1


def test_batches_are_embedded_as_they_are_asked_for():
    budget = hv.PrivacyBudget(10.0)
    batches = hv.wrap_embedding_model(Recorder(), hv.dp_embedding_middleware(epsilon=1.0, budget=budget)).embed_batches([["a"]] * 5)
    next(batches)
    assert budget.consumed() == 1.0


def test_many_threads_use_one_model():
    from concurrent.futures import ThreadPoolExecutor

    budget = hv.PrivacyBudget(20.0)
    model = hv.wrap_embedding_model(Recorder(), hv.dp_embedding_middleware(epsilon=1.0, budget=budget))

    def one(number):
        try:
            return np.array(model.embed([f"text {number}"]))
        except hv.PrivacyBudgetExhaustedError:
            return None

    with ThreadPoolExecutor(8) as pool:
        rows = [row for row in pool.map(one, range(50)) if row is not None]
    assert len(rows) == 20 and budget.remaining() == 0
    assert len({row.tobytes() for row in rows}) == 20


def test_model_ids():
    class Named(Recorder):
        model_name = "team/model-1"

    assert as_embedding_model(Named()).model_id == "team/model-1"
    assert hv.wrap_embedding_model(Named(), NOTHING).model_id == "team/model-1"
    assert hv.wrap_embedding_model(Named(), NOTHING, model_id="other").model_id == "other"
    assert hv.wrap_embedding_model(constant(1), NOTHING).model_id is None


def test_the_dimension_is_known_when_the_model_says_it_or_has_shown_it():
    assert hv.wrap_embedding_model(Recorder(dimension=24), NOTHING).dimension == 24
    silent = hv.wrap_embedding_model(constant(1, 5), NOTHING)
    assert silent.dimension is None
    silent.embed(["x"])
    assert silent.dimension == 5


BAD_TEXTS = {
    "a string": ("x", TypeError, "texts must be a sequence of strings, got str"),
    "bytes": (b"x", TypeError, "texts must be a sequence of strings, got bytes"),
    "None": (None, TypeError, "texts must be a sequence of strings, got NoneType"),
    "a number": (3, TypeError, "texts must be a sequence of strings, got int"),
    "a generator": ((text for text in "ab"), TypeError, "texts must be a sequence of strings, got generator"),
    "None among them": (["a", None], TypeError, "texts must be strings, got NoneType at position 1"),
    "a megabyte": (["a", "x" * (1 << 20)], ValueError, "texts must have at most 100000 characters each, got 1048576 at position 1"),
}


@pytest.mark.parametrize("texts, error, message", BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_bad_texts_reach_neither_model_nor_budget(texts, error, message):
    model, budget = Recorder(), hv.PrivacyBudget(10.0)
    wrapped = hv.wrap_embedding_model(model, hv.dp_embedding_middleware(epsilon=1.0, budget=budget))
    with pytest.raises(error) as caught:
        wrapped.embed(texts)
    assert str(caught.value).startswith(message)
    with pytest.raises(error):
        asyncio.run(wrapped.aembed(texts if not hasattr(texts, "send") else 3))
    assert model.calls == [] and budget.consumed() == 0


def test_longer_texts_are_accepted_when_asked_for():
    wrapped = hv.wrap_embedding_model(Recorder(), NOTHING, max_characters=1 << 21)
    assert wrapped.embed(["x" * (1 << 20)]).shape == (1, 16)


BAD_ANSWERS = {
    "None": (None, TypeError, "model output must be rows of numbers, got None"),
    "NaN": (np.array([[1, 0], [np.nan, 0]], np.float32), ValueError, "model output must be finite, got nan in row 1"),
    "Inf in lists": ([[1.0, 0.0], [0.0, float("inf")]], ValueError, "model output must be finite, got inf in row 1"),
    "a row too few": (np.eye(2, dtype=np.float32)[:1], ValueError, "model output must have 2 rows, one for each text, got 1"),
    "one flat row": ([1.0, 0.0], ValueError, "model output must be 2 rows, one for each text, got an array of shape (2,)"),
    "ragged": ([[1.0, 0.0], [1.0]], ValueError, "model output must have rows of one length"),
    "no columns": (np.empty((2, 0), np.float32), ValueError, "model output must have at least 1 column, got 0"),
    "strings": ([["a", "b"]] * 2, TypeError, "model output must hold numbers, got str in it"),
    "a string": ("ab", TypeError, "model output must be rows of numbers, got str"),
    "truths": (np.eye(2, dtype=bool), TypeError, "model output must be float32 or float64 or float16, got bool"),
    "large integers": (np.full((2, 2), 1 << 25), ValueError, "model output must hold whole numbers of at most 2^24 in size"),
    "masked": (np.ma.masked_less(np.eye(2), 0.5), TypeError, "model output must be a plain numpy array, got MaskedArray"),
    "a mapping without vectors": ({"usage": 3}, TypeError, "model output must be rows of numbers, got dict"),
    "an empty mapping": ({"data": []}, ValueError, "model output must be 2 rows"),
    "too few results": ({"results": [[1.0, 0.0]], "usage": {}}, ValueError, "model output must have 2 rows"),
}


@pytest.mark.parametrize("answer, error, message", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_bad_answers_are_not_charged(answer, error, message):
    budget = hv.PrivacyBudget(10.0)
    wrapped = hv.wrap_embedding_model(Answering(answer), hv.dp_embedding_middleware(epsilon=1.0, budget=budget))
    with pytest.raises(error) as caught:
        wrapped.embed(["x", "y"])
    assert str(caught.value).startswith(message)
    assert budget.consumed() == 0


def test_a_model_that_changes_its_dimension_is_refused():
    model, budget = Recorder(dimension=8), hv.PrivacyBudget(10.0)
    wrapped = hv.wrap_embedding_model(model, hv.dp_embedding_middleware(epsilon=1.0, budget=budget))
    wrapped.embed(["x"])
    model.dimension = 9
    with pytest.raises(ValueError, match="model output must have 8 columns, got 9"):
        wrapped.embed(["x"])
    assert budget.consumed() == 1.0


GOOD_ANSWERS = {
    "float64": (np.eye(2), np.float64),
    "float16": (np.eye(2, dtype=np.float16), np.float16),
    "lists": ([[1.0, 0.0], [0.0, 1.0]], np.float32),
    "lists of integers": ([[1, 0], [0, 1]], np.float32),
    "a tuple of rows": (tuple(np.eye(2, dtype=np.float32)), np.float32),
    "an iterator": ((1.0 * row for row in np.eye(2)), np.float64),
    "results that are rows": ({"results": [[1.0, 0.0], [0.0, 1.0]], "usage": {"tokens": 7}}, np.float32),
    "results with embeddings": (
        {"results": [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}], "usage": {"tokens": 7}},
        np.float32,
    ),
    "data": ({"data": [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}]}, np.float32),
}


@pytest.mark.parametrize("answer, dtype", GOOD_ANSWERS.values(), ids=GOOD_ANSWERS)
def test_answers_of_many_kinds(answer, dtype):
    rows = hv.wrap_embedding_model(Answering(answer), NOTHING).embed(["x", "y"])
    assert np.array_equal(rows, np.eye(2)) and rows.dtype == dtype


def test_usage_beside_results_is_kept():
    answer = {"results": np.eye(2, dtype=np.float32), "usage": {"tokens": 7}, "model": "some-model"}
    rows = hv.wrap_embedding_model(Answering(answer), hv.dp_embedding_middleware(epsilon=8.0)).embed(["x", "y"])
    assert rows.usage == {"tokens": 7} and rows.metadata == {"model": "some-model"} and rows.receipt.is_dp_claim


def test_torch_rows_in_a_list():
    torch = pytest.importorskip("torch")
    rows = hv.wrap_embedding_model(Answering(list(torch.eye(2))), NOTHING).embed(["x", "y"])
    assert np.array_equal(rows, np.eye(2)) and rows.dtype == np.float32


def test_what_the_model_raises_passes_through_and_costs_nothing():
    def model(texts):
        raise ConnectionError("no answer")

    budget = hv.PrivacyBudget(10.0)
    with pytest.raises(ConnectionError, match="no answer"):
        hv.wrap_embedding_model(model, hv.dp_embedding_middleware(epsilon=1.0, budget=budget)).embed(["x"])
    assert budget.consumed() == 0


def test_a_step_must_keep_the_number_of_texts_and_rows():
    class DropsText(EmbeddingMiddleware):
        def transform(self, request):
            return replace(request, texts=request.texts[1:])

    class DropsRow(EmbeddingMiddleware):
        def wrap(self, result, model):
            return replace(result, values=result.values[1:])

    with pytest.raises(ValueError, match="middleware must keep 2 texts, got 1 from transform"):
        hv.wrap_embedding_model(Recorder(), DropsText()).embed(["x", "y"])
    with pytest.raises(ValueError, match="middleware must keep 2 rows, got 1 from wrap"):
        hv.wrap_embedding_model(Recorder(), DropsRow()).embed(["x", "y"])


BAD_WRAPPINGS = {
    "no model": (dict(model=None), TypeError, "model must have embed"),
    "a class": (dict(model=Recorder), TypeError, "model must have embed"),
    "a name": (dict(model="all-MiniLM-L6-v2"), TypeError, "model must have embed"),
    "no steps": (dict(middleware=[]), ValueError, "middleware must have at least 1 step, got 0"),
    "a string": (dict(middleware="dp"), TypeError, "middleware must be middleware or a list of it, got str"),
    "a number among the steps": (dict(middleware=[NOTHING, 3]), TypeError, "middleware must be hushvec.middleware."),
    "an empty id": (dict(model_id=""), TypeError, "model_id must be a non-empty str or None, got ''"),
    "no characters": (dict(max_characters=0), ValueError, "max_characters must be >= 1, got 0"),
    "a kind": (dict(kind="passage"), ValueError, "kind must be one of 'document', 'query', got 'passage'"),
}


@pytest.mark.parametrize("arguments, error, message", BAD_WRAPPINGS.values(), ids=BAD_WRAPPINGS)
def test_bad_wrappings(arguments, error, message):
    arguments = {"model": Recorder(), "middleware": NOTHING, **arguments}
    kind = arguments.pop("kind", "document")
    with pytest.raises(error) as caught:
        hv.wrap_embedding_model(arguments.pop("model"), arguments.pop("middleware"), **arguments).embed(["x"], kind)
    assert str(caught.value).startswith(message)
