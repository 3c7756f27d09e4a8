"""One table of bad input over every adapter: a clear error, and a charge only for rows that came out."""

import asyncio
import importlib
import subprocess
import sys

import pytest

import hushvec as hv
from integrations.adapter_cases import (
    ASYNC,
    BAD_TEXTS,
    EPSILON,
    HOSTS,
    LIMIT,
    MODEL_FAULTS,
    ToyModel,
    faint,
    is_near,
    private,
    run,
)

EXTRAS = {
    "langchain": ("langchain_core", "langchain"),
    "llama_index": ("llama_index", "llama-index"),
    "haystack": ("haystack", "haystack"),
    "chroma": ("chromadb", "chroma"),
    "sentence_transformers": ("sentence_transformers", "text"),
    "sklearn": ("sklearn", "sklearn"),
    "langchain_store": ("langchain_core", "langchain"),
    "llama_index_store": ("llama_index", "llama-index"),
    "haystack_store": ("haystack", "haystack"),
}


class Bench:
    """An adapter of one host around a toy model with a budget, as functions that may wait."""

    def __init__(self, host, way):
        self.model, self.budget, self.receipts = ToyModel(), hv.PrivacyBudget(LIMIT), []
        self.name, self.way = host, way
        self.use(self.receipts.append)

    def use(self, on_receipt):
        self.host = HOSTS[self.name](self.model, private(self.budget), on_receipt)

    def documents(self, texts):
        return self.host.documents(texts) if self.way == "sync" else run(self.host.adocuments(texts))

    def query(self, text):
        return self.host.query(text) if self.way == "sync" else run(self.host.aquery(text))


WAYS = [(host, "sync") for host in HOSTS] + [(host, "async") for host in ASYNC]


@pytest.fixture(params=WAYS, ids="-".join)
def bench(request):
    return Bench(*request.param)


def test_rows_come_with_their_receipt_and_are_charged_once_a_batch(bench):
    rows = bench.documents(["a", "b", "c"])
    row = bench.query("a")
    assert [len(rows), len(row)] == [3, 16]
    assert {each.receipt for each in rows} == {bench.receipts[0]}
    assert row.receipt == bench.receipts[1] != bench.receipts[0]
    assert [receipt.rows for receipt in bench.receipts] == [3, 1]
    assert all(receipt.is_dp_claim and receipt.epsilon == EPSILON for receipt in bench.receipts)
    assert bench.budget.consumed() == 2 * EPSILON
    assert [len(texts) for texts, _ in bench.model.calls] == [3, 1]


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_bad_texts_are_refused_before_the_model_runs(bench, name):
    texts, error, words = BAD_TEXTS[name]
    with pytest.raises(error, match=words):
        bench.documents(texts)
    assert bench.budget.consumed() == 0 and not bench.model.calls and not bench.receipts


@pytest.mark.parametrize("text", [None, 1, b"a", ["a"], "x" * 1_000_000], ids=["None", "number", "bytes", "list", "1 MB"])
def test_bad_queries_are_refused_before_the_model_runs(bench, text):
    if isinstance(text, list) and bench.host.queries_take_lists:
        text = [text]
    with pytest.raises((TypeError, ValueError), match=r"texts must|text must"):
        bench.query(text)
    assert bench.budget.consumed() == 0 and not bench.model.calls and not bench.receipts


@pytest.mark.parametrize("name", MODEL_FAULTS)
def test_bad_answers_of_the_model_cost_nothing(bench, name):
    fault, error, words = MODEL_FAULTS[name]
    bench.documents(["first"])
    bench.model.fault = fault
    with pytest.raises(error, match=words):
        bench.documents(["a", "b"])
    assert bench.budget.consumed() == EPSILON and len(bench.receipts) == 1
    bench.model.fault = None
    bench.documents(["a", "b"])
    assert bench.budget.consumed() == 2 * EPSILON


def test_a_first_answer_that_is_refused_fixes_no_dimension(bench):
    bench.model.fault = lambda rows: 3 * rows[:, :-1]
    with pytest.raises(ValueError, match="unit norm"):
        bench.documents(["a"])
    bench.model.fault = None
    assert len(bench.documents(["a"])[0]) == 16 and bench.budget.consumed() == EPSILON


def test_an_exhausted_budget_releases_nothing(bench):
    for _ in range(5):
        bench.documents(["a"])
    with pytest.raises(hv.PrivacyBudgetExhaustedError) as refused:
        bench.documents(["a"])
    assert refused.value.code == "PRIVACY_BUDGET_EXHAUSTED" and refused.value.max_epsilon == LIMIT
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        bench.query("a")
    assert bench.budget.consumed() == LIMIT and len(bench.receipts) == 5


@pytest.mark.parametrize("name", ASYNC)
def test_coroutines_that_run_together_spend_no_more_than_there_is(name):
    budget, receipts = hv.PrivacyBudget(LIMIT), []
    host = HOSTS[name](ToyModel(), private(budget), receipts.append)

    async def ask():
        return await asyncio.gather(*(host.aquery(f"text {number}") for number in range(12)), return_exceptions=True)

    answers = run(ask())
    refused = [answer for answer in answers if isinstance(answer, hv.PrivacyBudgetExhaustedError)]
    assert len(refused) == 12 - len(receipts) == 7 and budget.consumed() == LIMIT
    assert {answer.receipt for answer in answers if answer not in refused} == set(receipts)


def test_an_error_of_on_receipt_stops_the_rows(bench):
    """The release is charged by then: whoever keeps receipts must not miss one in silence."""

    def full(receipt):
        raise OSError("the disk is full")

    bench.use(full)
    with pytest.raises(OSError, match="the disk is full"):
        bench.documents(["a"])
    assert bench.budget.consumed() == EPSILON


@pytest.mark.parametrize("name", HOSTS)
def test_kind_and_order_reach_the_model_and_come_back(name):
    model = ToyModel()
    host = HOSTS[name](model, faint())
    rows = host.documents(["a", "b", "c"])
    assert all(is_near(row, text) for row, text in zip(rows, "abc"))
    row = host.query("b")
    assert is_near(row, "b", "document" if name == "openai" else "query")


@pytest.mark.parametrize("name", [name for name in HOSTS if name != "openai"])
@pytest.mark.parametrize(
    "arguments, words",
    [
        ((ToyModel(), None), "model must be a wrapped model"),
        ((None, None), "model must be a wrapped model"),
        ((ToyModel(), "noise"), "middleware must be"),
        ((None, private()), r"model must have embed"),
        ((ToyModel(), private(), "log"), "on_receipt must be a function"),
    ],
    ids=["not wrapped", "no model", "no middleware", "no embedder", "no function"],
)
def test_wrong_arguments_are_refused_at_once(name, arguments, words):
    with pytest.raises(TypeError, match=words):
        HOSTS[name](*arguments)


@pytest.mark.parametrize("name", EXTRAS)
def test_a_missing_library_names_its_extra(name, monkeypatch):
    library, extra = EXTRAS[name]
    monkeypatch.setitem(sys.modules, library, None)
    for loaded in [module for module in sys.modules if module.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.delitem(sys.modules, f"hushvec.integrations.{name}", raising=False)
    with pytest.raises(hv.MissingExtraError) as missing:
        importlib.import_module(f"hushvec.integrations.{name}")
    assert missing.value.extra == extra and f"pip install 'hushvec[{extra}]'" in str(missing.value)


def test_importing_the_folder_imports_no_host():
    hosts = "{'langchain_core', 'llama_index', 'haystack', 'chromadb', 'sentence_transformers', 'sklearn', 'openai'}"
    code = f"import sys, hushvec.integrations, hushvec.integrations.openai; assert not {hosts} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
