"""Streams, threads and asyncio: one charge for each release, and none for what was not released."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import hushvec as hv
from hushvec.middleware import dp_classification_middleware, wrap_classification_model

LABELS = ["down", "up"]
SURE = 60.0


def batch_model(texts):
    return ["up" if text == "good" else "down" for text in texts]


def wrapped(model=batch_model, *, takes="batch", **arguments):
    return wrap_classification_model(
        model, dp_classification_middleware(**{"epsilon": SURE, "labels": LABELS, **arguments}), takes=takes
    )


BATCHES = [["good", "bad"], ["bad"], ["good"] * 3]
TRUTH = [["up", "down"], ["down"], ["up"] * 3]


def test_a_stream_is_charged_batch_by_batch_when_it_is_read():
    budget = hv.PrivacyBudget(500.0)
    read = []

    def source():
        for batch in BATCHES:
            read.append(batch)
            yield batch

    stream = wrapped(budget=budget).classify_batches(source())
    assert (read, budget.consumed()) == ([], 0.0)
    first = next(stream)
    assert (first.labels, len(read), budget.consumed()) == (TRUTH[0], 1, SURE)
    rest = list(stream)
    assert [answers.labels for answers in rest] == TRUTH[1:]
    assert budget.consumed() == 3 * SURE
    receipts = [answers.receipt for answers in [first, *rest]]
    assert hv.verify_charges(receipts, budget.export()).status == "holds"


def test_a_stream_that_breaks_has_charged_what_it_released():
    budget = hv.PrivacyBudget(500.0)
    stream = wrapped(budget=budget).classify_batches([["good"], [None], ["good"]])
    assert next(stream).labels == ["up"]
    with pytest.raises(TypeError, match="inputs must not hold None"):
        next(stream)
    assert budget.consumed() == SURE


def test_a_stream_ends_where_the_budget_does():
    budget = hv.PrivacyBudget(2 * SURE)
    asked = []

    def model(texts):
        asked.append(texts)
        return batch_model(texts)

    stream = wrapped(model, budget=budget).classify_batches([["good"]] * 5)
    assert [next(stream).labels, next(stream).labels] == [["up"], ["up"]]
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        next(stream)
    assert (budget.remaining(), len(asked)) == (0.0, 3)


def test_threads_share_a_model_and_a_budget():
    """32 releases from 8 threads, room for 20: exactly 20 come out, each with a charge of its own."""
    budget = hv.PrivacyBudget(20.0)
    private = wrapped(epsilon=1.0, budget=budget)
    start = threading.Barrier(8)

    def work(_):
        start.wait()
        done = []
        for _ in range(4):
            try:
                done.append(private.classify(["good", "bad"]).receipt)
            except hv.PrivacyBudgetExhaustedError:
                done.append(None)
        return done

    with ThreadPoolExecutor(8) as pool:
        receipts = [receipt for done in pool.map(work, range(8)) for receipt in done if receipt is not None]
    assert (len(receipts), budget.remaining()) == (20, 0.0)
    assert hv.verify_charges(receipts, budget.export()).status == "holds"


def test_asyncio_runs_a_model_in_a_thread():
    async def main():
        budget = hv.PrivacyBudget(1000.0)
        private = wrapped(budget=budget)
        answers = await asyncio.gather(*(private.aclassify(batch) for batch in BATCHES))
        assert [one.labels for one in answers] == TRUTH
        assert budget.consumed() == 3 * SURE
        streamed = [one.labels async for one in private.aclassify_batches(BATCHES)]
        assert streamed == TRUTH

        async def source():
            for batch in BATCHES:
                await asyncio.sleep(0)
                yield batch

        streamed = [one.labels async for one in private.aclassify_batches(source())]
        assert streamed == TRUTH
        assert budget.consumed() == 9 * SURE

    asyncio.run(main())


async def coroutine_model(texts):
    await asyncio.sleep(0)
    return batch_model(texts)


async def coroutine_model_of_one(text):
    await asyncio.sleep(0)
    return batch_model([text])[0]


class AsyncCallable:
    async def __call__(self, texts):
        return batch_model(texts)


class AsyncMethod:
    async def classify(self, texts):
        return batch_model(texts)


class BothMethods:
    def classify(self, texts):
        return [("down", 0.1)] * len(texts)

    async def aclassify(self, texts):
        return [("up", 0.9)] * len(texts)


ASYNCHRONOUS = {
    "auto": (coroutine_model, "auto"),
    "batch": (coroutine_model, "batch"),
    "one": (coroutine_model_of_one, "one"),
    "object": (AsyncCallable(), "auto"),
    "method": (AsyncMethod(), "auto"),
}


@pytest.mark.parametrize(("model", "takes"), ASYNCHRONOUS.values(), ids=ASYNCHRONOUS)
def test_an_asynchronous_model_is_awaited(model, takes):
    private = wrapped(model, takes=takes)
    assert asyncio.run(private.aclassify(["good", "bad"])).labels == ["up", "down"]
    with pytest.raises(TypeError, match="it is a coroutine function, use aclassify"):
        private.classify(["good"])


def test_a_model_with_both_methods():
    private = wrapped(BothMethods(), scores="source")
    assert private.classify(["x"])[0].score == 0.1
    assert asyncio.run(private.aclassify(["x"]))[0].score == 0.9


def test_a_cancelled_call_charges_nothing_before_the_model_is_done():
    async def main():
        budget = hv.PrivacyBudget(100.0)
        asked, let_go = asyncio.Event(), asyncio.Event()

        async def slow(texts):
            asked.set()
            await let_go.wait()
            return batch_model(texts)

        task = asyncio.create_task(wrapped(slow, budget=budget).aclassify(["good"]))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        let_go.set()
        await asyncio.sleep(0)
        assert budget.consumed() == 0.0

    asyncio.run(main())


def test_a_cancelled_thread_charges_nothing_either():
    async def main():
        budget = hv.PrivacyBudget(100.0)
        asked, let_go, ended = threading.Event(), threading.Event(), threading.Event()

        def slow(texts):
            asked.set()
            let_go.wait(10)
            ended.set()
            return batch_model(texts)

        task = asyncio.create_task(wrapped(slow, budget=budget).aclassify(["good"]))
        await asyncio.to_thread(asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        let_go.set()
        assert await asyncio.to_thread(ended.wait, 10)
        assert budget.consumed() == 0.0

    asyncio.run(main())


def test_a_budget_that_waits_does_not_hold_up_the_loop():
    class Waiting:
        def __init__(self):
            self.asked, self.let_go, self.was_let_go = threading.Event(), threading.Event(), False

        def consume(self, epsilon, delta):
            self.asked.set()
            self.was_let_go = self.let_go.wait(10)

    async def main():
        budget = Waiting()
        task = asyncio.create_task(wrapped(coroutine_model, budget=budget).aclassify(["good"]))
        while not budget.asked.is_set():
            await asyncio.sleep(0.001)
        budget.let_go.set()
        assert (await task).labels == ["up"]
        assert budget.was_let_go

    asyncio.run(main())


def test_errors_of_an_asynchronous_model_charge_nothing():
    async def failing(texts):
        raise RuntimeError("no such endpoint")

    budget = hv.PrivacyBudget(100.0)
    with pytest.raises(RuntimeError, match="no such endpoint"):
        asyncio.run(wrapped(failing, budget=budget).aclassify(["good"]))
    with pytest.raises(TypeError, match="inputs must not hold None"):
        asyncio.run(wrapped(coroutine_model, budget=budget).aclassify([None]))
    assert budget.consumed() == 0.0


@pytest.mark.parametrize("batches", [None, 3, "texts"])
def test_what_is_no_stream(batches):
    private = wrapped()
    for start in (private.classify_batches, private.aclassify_batches):
        with pytest.raises(TypeError, match="batches must be an iterable of batches"):
            start(batches)
