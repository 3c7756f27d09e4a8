"""No two calls ever share a key stream: nonces advance, threads take different ones, forked and spawned processes take
different keys, and a generator cannot be copied."""

import copy
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

from evidence.reference import chacha, release, stream

SAMPLES = 512
SEED = 77


def noise_of(core, generator):
    out = np.empty(SAMPLES, dtype=np.float32)
    core.fill_gaussian(out, 1.0, generator)
    return out


def seeded_noise(nonce, rounds=20):
    return release.gaussian_noise(chacha.seed_key(SEED), nonce, rounds, SAMPLES)


def is_stream(got, want):
    return bool(np.allclose(got, want, rtol=1e-4, atol=1e-4))


def all_distinct(outputs):
    """No two outputs have any 8 samples in a row in common at the same place."""
    windows = [{part.tobytes() for part in np.asarray(out).reshape(-1, 8)} for out in outputs]
    return len(set().union(*windows)) == sum(map(len, windows))


@pytest.mark.parametrize("cipher", ("aes256", "chacha12"))
def test_every_kind_of_call_reserves_one_nonce(core, cipher):
    generator = core.Generator.unsafe_seeded(SEED, cipher=cipher)
    x = np.zeros((2, SAMPLES // 2), dtype=np.float32)
    out = np.empty_like(x)
    calls = [
        lambda: core.fill_gaussian(out, 1.0, generator),
        lambda: core.fill_laplacian(out, 1.0, generator),
        lambda: core.fill_l2_laplace(out, 1.0, generator),
        lambda: core.clip_and_noise(x, 1.0, 1.0, out, generator, "gaussian", True),
        lambda: core.clip_and_noise(x, 1.0, 1.0, out, generator, "laplacian", True),
        lambda: core.clip_and_noise(x, 1.0, 1.0, out, generator, "gaussian", False),
    ]
    for k, call in enumerate(calls):
        call()
        assert is_stream(noise_of(core, generator), seeded_noise(2 * k + 1, stream.ROUNDS[cipher]))


def test_a_refused_call_releases_nothing(core):
    generator = core.Generator.unsafe_seeded(SEED)
    x = np.full((2, 8), np.nan, dtype=np.float32)
    out = np.zeros_like(x)
    with pytest.raises(ValueError, match="x must be finite"):
        core.clip_and_noise(x, 1.0, 1.0, out, generator, "gaussian", True)
    np.testing.assert_array_equal(out, 0)


def test_seed_is_all_256_bits_of_the_key(core):
    outputs = []
    for seed in (0, 1, 1 << 64, 1 << 128, (1 << 256) - 1):
        generator = core.Generator.unsafe_seeded(seed)
        outputs.append(noise_of(core, generator))
        assert is_stream(outputs[-1], release.gaussian_noise(chacha.seed_key(seed), 0, 20, SAMPLES))
    assert all_distinct(outputs)


def test_reuse_is_seen(core):
    """all_distinct and the nonce checks reject a generator that starts again."""
    reused = [noise_of(core, core.Generator.unsafe_seeded(SEED)) for _ in range(2)]
    assert not all_distinct(reused)
    assert not is_stream(reused[1], seeded_noise(1))


def test_generators_from_the_system_differ(core):
    assert all_distinct([noise_of(core, core.Generator()) for _ in range(20)])


def test_default_generator_has_a_system_key_and_advances(core):
    generator = core.default_generator()
    assert (generator.key_source, generator.cipher) == ("os", core.backends()["default_cipher"])
    assert all_distinct([noise_of(core, core.default_generator()) for _ in range(10)])


@pytest.mark.parametrize("threads", (2, 8))
@pytest.mark.parametrize("cipher", ("aes256", "chacha20"))
def test_threads_take_different_nonces_and_skip_none(core, threads, cipher):
    """N threads with one seeded generator produce exactly the streams 0 .. N * calls - 1, each once."""
    calls = 25
    generator = core.Generator.unsafe_seeded(SEED, cipher=cipher)
    outputs = []
    start = threading.Barrier(threads)

    def work():
        start.wait()
        mine = [noise_of(core, generator) for _ in range(calls)]
        outputs.extend(mine)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all_distinct(outputs)
    by_first_sample = sorted(outputs, key=lambda out: float(out[0]))
    expected = sorted((seeded_noise(nonce, stream.ROUNDS[cipher]) for nonce in range(threads * calls)), key=lambda out: float(out[0]))
    for got, want in zip(by_first_sample, expected, strict=True):
        assert is_stream(got, want)


def in_forked_child(work):
    """What work() returns in a child made by os.fork, or the exception it raised."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - carried over to the parent
            answer = error
        with os.fdopen(write_end, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        answer = pickle.load(pipe)
    os.waitpid(child, 0)
    return answer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("used_before", (False, True))
@pytest.mark.parametrize("kind", ("own", "default"))
def test_forked_children_and_the_parent_never_share_a_stream(core, kind, used_before):
    generator = core.Generator() if kind == "own" else core.default_generator()
    outputs = [noise_of(core, generator)] if used_before else []
    children = [in_forked_child(lambda: [noise_of(core, generator) for _ in range(3)]) for _ in range(3)]
    outputs += [noise_of(core, generator) for _ in range(3)]
    for child in children:
        outputs += child
    assert all_distinct(outputs)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_grandchildren_differ_too(core):
    generator = core.Generator()

    def child():
        mine = noise_of(core, generator)
        return [mine, in_forked_child(lambda: noise_of(core, generator)), noise_of(core, generator)]

    assert all_distinct([*in_forked_child(child), noise_of(core, generator)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_seeded_generator_refuses_to_go_on_in_a_child(core):
    generator = core.Generator.unsafe_seeded(SEED)
    answer = in_forked_child(lambda: noise_of(core, generator))
    assert isinstance(answer, RuntimeError), answer
    assert is_stream(noise_of(core, generator), seeded_noise(0))  # the parent goes on


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_releases_exactly_too(core):
    """After a fork the worker threads are gone; a call large enough for them must still finish and be right."""

    def child():
        generator = core.Generator.unsafe_seeded(SEED)
        x = np.zeros((600, 512), dtype=np.float32)
        out = np.empty_like(x)
        core.set_num_threads(2)
        core.clip_and_noise(x, 1.0, 1.0, out, generator, "gaussian", True)
        return out[-1]

    core.set_num_threads(2)
    large = np.empty(600 * 512, dtype=np.float32)
    core.fill_gaussian(large, 1.0, core.Generator())  # starts the threads in the parent
    want = release.clip_and_noise(np.zeros((600, 512), dtype=np.float32), 1.0, 1.0, key=chacha.seed_key(SEED))
    core.set_num_threads(0)
    np.testing.assert_array_equal(in_forked_child(child), want[-1])


def spawned_noise(_):
    from hushvec._native import _core

    return noise_of(_core, _core.default_generator())


def test_spawned_processes_take_different_keys(core):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        outputs = pool.map(spawned_noise, range(4), chunksize=1)
    assert all_distinct([*outputs, noise_of(core, core.default_generator())])


@pytest.mark.parametrize("make", ("os", "seed"))
def test_a_generator_cannot_be_copied(core, make):
    generator = core.Generator() if make == "os" else core.Generator.unsafe_seeded(SEED)
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            duplicate(generator)


def test_generator_says_what_it_is(core):
    assert (core.Generator().seeded, core.Generator().key_source, core.Generator(12).rounds) == (False, "os", 12)
    seeded = core.Generator.unsafe_seeded(SEED, rounds=8)
    assert (seeded.seeded, seeded.key_source, seeded.rounds) == (True, "seed", 8)
    for seed in (-1, 1 << 256):
        with pytest.raises(ValueError, match="seed must be"):
            core.Generator.unsafe_seeded(seed)
    with pytest.raises(ValueError, match="rounds must be"):
        core.Generator(rounds=10)
