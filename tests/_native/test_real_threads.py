"""What threads of one process share: streams, states, budgets, locked memory, a fork.

On a free-threaded build of Python nothing but the core's own locks keeps these apart. There the core still has to be asked for it:
`PYTHON_GIL=0 pytest tests/_native/test_real_threads.py`.
"""

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import hushvec as hv
from hushvec._native import _core
from hushvec.budget import PrivacyBudget
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.secure_memory import SecureBuffer

THREADS, CALLS = 8, 200
SEED = 77


def in_threads(work, threads=THREADS):
    """What work(number) returned in each of so many threads, which began at the same time."""
    start, answers, errors = threading.Barrier(threads), [None] * threads, []

    def run(number):
        start.wait()
        try:
            answers[number] = work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    return answers


@pytest.fixture(autouse=True)
def often_interrupted():
    """With a GIL, threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="Python before 3.13 has a GIL")
def test_the_switch_of_the_gil_is_obeyed():
    """Or all that follows would say nothing about threads without one."""
    if os.environ.get("PYTHON_GIL") != "0":
        pytest.skip("asks for PYTHON_GIL=0 on a free-threaded build")
    assert not sys._is_gil_enabled()


# ---- streams ----


@pytest.mark.parametrize("cipher", ("aes256", "chacha8"))
def test_one_generator_gives_each_call_its_own_stream(cipher):
    """All nonces once: the rows are those of one thread, in some order."""

    def draw(generator):
        return [hv.gaussian_noise(16, generator=generator).tobytes() for _ in range(CALLS)]

    shared = hv.Generator.unsafe_seeded(SEED, cipher=cipher)
    drawn = in_threads(lambda _: draw(shared))
    alone = hv.Generator.unsafe_seeded(SEED, cipher=cipher)
    assert sorted(row for rows in drawn for row in rows) == sorted(row for _ in range(THREADS) for row in draw(alone))


def test_one_state_gives_each_call_its_own_nonce():
    """A state is ordinary memory: the step of its nonce must be one of a lock."""
    state = np.zeros(6, np.int64)
    state[5] = 20

    def take(_):
        for _ in range(100 * CALLS):
            _core._take_from_state(state)
        return [int(_core._state_words(_core._take_from_state(state))[4]) for _ in range(CALLS)]

    taken = in_threads(take)
    assert len({nonce for nonces in taken for nonce in nonces}) == CALLS * THREADS
    assert state[4] == 101 * CALLS * THREADS   # 20,000 of 600,000 were lost while only a GIL made the step one


def test_a_reserved_stream_may_be_used_in_another_thread():
    generator = hv.Generator.unsafe_seeded(SEED)
    streams = [generator._reserve() for _ in range(THREADS)]

    def fill(number):
        out = np.empty(64, np.float32)
        for _ in range(CALLS):
            _core.fill_gaussian(out, 1.0, streams[number])
        return out.tobytes()

    drawn = in_threads(fill)
    again = hv.Generator.unsafe_seeded(SEED)
    assert drawn == [hv.gaussian_noise(64, generator=again).tobytes() for _ in range(THREADS)]


def test_the_generator_of_the_process_repeats_nothing():
    drawn = in_threads(lambda _: [hv.gaussian_noise(8).tobytes() for _ in range(CALLS)])
    assert len({row for rows in drawn for row in rows}) == THREADS * CALLS


# ---- arithmetic ----


def test_one_input_gives_each_thread_the_bits_of_its_seed():
    x = np.random.default_rng(SEED).standard_normal((40, 96), dtype=np.float32)
    before = x.copy()

    def release(number):
        generator = hv.Generator.unsafe_seeded(number)
        return [hv.clip_and_noise(x, 1.0, 0.5, generator=generator).tobytes() for _ in range(20)]

    expected = [release(number) for number in range(THREADS)]
    assert in_threads(release) == expected
    assert len(set(map(tuple, expected))) == THREADS   # or a mix-up would not be seen
    np.testing.assert_array_equal(x, before)


def test_calls_that_start_threads_of_their_own():
    x = np.ones((1_200, 512), np.float32)
    before = _core.get_num_threads()
    hv.set_num_threads(2)
    try:
        expected = hv.clip_and_noise(x, 1.0, 0.5, generator=hv.Generator.unsafe_seeded(SEED))
        for got in in_threads(lambda _: hv.clip_and_noise(x, 1.0, 0.5, generator=hv.Generator.unsafe_seeded(SEED)), 4):
            np.testing.assert_array_equal(got, expected)
    finally:
        hv.set_num_threads(before)


# ---- budgets and receipts ----


@pytest.mark.parametrize("store", ("memory", "file"))
def test_releases_stop_at_the_limit_and_each_receipt_has_a_row(store, tmp_path):
    """8 threads want 64 releases at epsilon 1 of a budget of 40: 40 get one, each with a charge and values of its own."""
    place = "memory" if store == "memory" else tmp_path / "budget.sqlite"
    x = np.random.default_rng(SEED).standard_normal((4, 32), dtype=np.float32)

    with PrivacyBudget(40.0, 1e-3, persist_key="shared", store=place) as budget:

        def release(_):
            made = []
            for _ in range(8):
                try:
                    made.append(hv.privatize(x, epsilon=1.0, delta=1e-5, budget=budget))
                except PrivacyBudgetExhaustedError:
                    made.append(None)
            return made

        asked = [one for made in in_threads(release) for one in made]
        released = [one for one in asked if one is not None]
        assert len(asked) == 64 and len(released) == 40
        assert budget.consumed() == 40.0 and budget.is_exhausted()
        rows = budget.verify().rows
    assert rows == 41   # the opening row too
    assert sorted(one.receipt.charge.sequence for one in released) == list(range(2, 42))
    assert len({one.values.tobytes() for one in released}) == 40
    assert len({one.receipt.charge.charge_id for one in released}) == 40


# ---- locked memory ----


def test_locked_memory_comes_and_goes():
    gc.collect()
    before = _core.memory_report()

    def use(number):
        for size in range(1, 60):
            with SecureBuffer(64 * size) as buffer:
                view = buffer.numpy()
                view[:] = number + 1
                assert (np.asarray(view) == number + 1).all()
            streams = [hv.Generator()._reserve() for _ in range(3)]
            _core.memory_report()
            del streams, view

    in_threads(use)
    gc.collect()
    after = _core.memory_report()
    assert after["mappings"] - before["mappings"] == (after["key_bytes"] - before["key_bytes"]) // 4096
    assert after["key_slots"] == before["key_slots"]


def test_scrubbing_beside_reports():
    pages = _core.LockedPages(1 << 16)
    memory = np.frombuffer(pages, np.uint8)

    def scrub(number):
        for _ in range(CALLS):
            _core.memory_report() if number % 2 else pages.scrub()
            assert not pages.wiped_by_fork and pages.refusals.keys() == {"lock", "leave_out_of_dumps", "wipe_on_fork"}

    in_threads(scrub)
    assert not memory.any()


# ---- fork and import ----


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_threads_draw():
    """The child finds every lock free, and draws from keys of its own."""
    generator, done = hv.Generator(), threading.Event()

    def draw():
        while not done.is_set():
            hv.gaussian_noise(8, generator=generator)
            _core.LockedPages(64)

    workers = [threading.Thread(target=draw) for _ in range(4)]
    for worker in workers:
        worker.start()
    drawn = set()
    try:
        for _ in range(20):
            read_end, write_end = os.pipe()
            child = os.fork()
            if child == 0:
                out = np.empty(8, np.float32)
                _core.fill_gaussian(out, 1.0, generator)
                _core.memory_report()
                os.write(write_end, out.tobytes())
                os._exit(0)
            os.close(write_end)
            deadline = time.monotonic() + 60
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                    pytest.fail("a forked child hangs")
                time.sleep(0.002)
            with os.fdopen(read_end, "rb") as pipe:
                drawn.add(pipe.read())
            drawn.add(hv.gaussian_noise(8, generator=generator).tobytes())
    finally:
        done.set()
        for worker in workers:
            worker.join()
    assert len(drawn) == 40 and b"" not in drawn


def test_the_first_import_and_call_in_many_threads():
    program = """
import sys, threading
start, drawn = threading.Barrier(8), []
def work():
    start.wait()
    import hushvec as hv
    drawn.append(hv.privatize([[0.5] * 8], epsilon=1.0).values)
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len({str(values) for values in drawn}))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (answer.stdout, answer.returncode) == ("8\n", 0), answer.stderr
