"""Do the bits of a job follow docs/format.md section 10, and nothing else?"""

import hashlib
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushvec as hv
from evidence.reference import jobs as reference
from evidence.reference import stream
from hushvec.jobs import NoiseJob
from hushvec.mechanisms import PrivUnit
from jobs.named import noise_batch

pa = pytest.importorskip("pyarrow")

SEED = 2**255 + 12345
KEY = SEED.to_bytes(32, "little")
VERSIONS = {"aes256": 2, "chacha20": 1}


def rows_of(count, dimension, dtype="float32", seed=5):
    return (np.random.default_rng(seed).standard_normal((count, dimension)) / 4).astype(dtype)


def text_of(job):
    mechanism = job.mechanism
    epsilon, delta = mechanism.cost
    lines = dict(
        job_version=VERSIONS[job.cipher], mechanism=mechanism.name, epsilon=epsilon, delta=delta, dimension=job.dimension,
        dtype=job.dtype, clip_norm=mechanism.clip_norm, noise=mechanism.noise_parameter, normalize=int(job.normalize),
        renormalize=int(job.renormalize),
    )  # fmt: skip
    if isinstance(mechanism, PrivUnit):
        lines |= dict(cap_probability=mechanism.cap_probability, threshold=mechanism.threshold)
    return reference.parameters(**lines)


def expected_keys(key, places, rows):
    return b"".join(hashlib.blake2b(place + row, key=key, digest_size=32).digest() for place, row in zip(places, rows))


@pytest.mark.parametrize("size", (1, 87, 88, 89, 127, 128, 129, 215, 216, 217, 1536, 5000))
def test_row_keys_are_blake2b(backend, hooks, size):
    random = np.random.default_rng(size)
    for count in (1, 2, 3, 4, 7, 8, 9, 17):
        places, rows = ([random.bytes(length) for _ in range(count)] for length in (40, size))
        assert hooks.row_keys(backend, KEY, b"".join(places), b"".join(rows), size) == expected_keys(KEY, places, rows)


@settings(max_examples=100, deadline=None)
@given(key=st.binary(min_size=32, max_size=32), place=st.binary(min_size=40, max_size=40), row=st.binary(min_size=1, max_size=700))
def test_row_keys_are_blake2b_for_any_bytes(hooks, core, key, place, row):
    assert hooks.row_keys(core.backends()["active"], key, place, row, len(row)) == expected_keys(key, [place], [row])


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
@pytest.mark.parametrize("mechanism, law", (("gaussian", "gaussian"), ("laplacian", "laplacian"), ("empirical", "gaussian")))
@pytest.mark.parametrize("cipher", VERSIONS)
def test_bits_are_those_of_the_reference(cipher, dtype, mechanism, law):
    setting = dict(sigma=0.4) if mechanism == "empirical" else dict(epsilon=6.0)
    for dimension in (1, 17, 300):
        setting |= dict(dimension=dimension, dtype=dtype, mechanism=mechanism, clip_norm=1.5, cipher=cipher)
        job = NoiseJob.unsafe_seeded(SEED, **setting)
        rows = rows_of(6, dimension, dtype)  # streams of AES are keyed four at a time
        assert job.parameters == text_of(job)
        assert job.id == reference.job_id(KEY, text_of(job))
        places = [reference.place(partition=2**40, row=7 + i) for i in range(6)]
        noise, rounds = job.mechanism.noise_parameter, stream.ROUNDS[cipher]
        expected = reference.released(rows, KEY, text_of(job), places, 1.5, noise, law, dtype, rounds)
        np.testing.assert_array_equal(noise_batch(rows, job, partition=2**40, first_row=7), expected)


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
@pytest.mark.parametrize("mechanism", ("gaussian", "laplacian"))
@pytest.mark.parametrize("cipher, job_version", (("aes256", 3), ("chacha20", 4)))
def test_a_row_of_version_3_is_the_first_of_a_call_with_its_key(cipher, job_version, dtype, mechanism):
    for dimension in (1, 17, 300, 768):
        setting = dict(dimension=dimension, dtype=dtype, mechanism=mechanism, epsilon=6.0, cipher=cipher)
        job = NoiseJob.unsafe_seeded(SEED, format_version=3, **setting)
        old = NoiseJob.unsafe_seeded(SEED, **setting)
        text = text_of(job)
        assert job.parameters == text.replace(f"job_version {VERSIONS[cipher]}", f"job_version {job_version}")
        assert job.id == reference.job_id(KEY, job.parameters) != old.id
        rows = rows_of(6, dimension, dtype)
        released = noise_batch(rows, job, partition=3)
        assert job.receipt(6).format_version == 3 and job.receipt(6).grid >= old.receipt(6).grid
        for i, row in enumerate(rows):
            key = reference.row_key(KEY, job.parameters, reference.place(partition=3, row=i), row)
            generator = hv.Generator.unsafe_seeded(int.from_bytes(key, "little"), cipher=cipher, format_version=3)
            expected = hv.privatize(row[None], mechanism=job.mechanism, epsilon=None, generator=generator)
            np.testing.assert_array_equal(released[i], expected.values[0])
            assert expected.receipt.grid == job.receipt(6).grid
        assert hv.verify_receipt(job.receipt(6)).status == "not a DP claim"  # of a seed


@pytest.mark.parametrize(
    "setting, versions",
    (
        (dict(mechanism="privunit", epsilon=6.0), "2"),
        (dict(mechanism="gaussian", epsilon=6.0), "2 or 3"),
    ),
)
def test_a_version_that_a_job_does_not_have_is_refused(setting, versions):
    for version in ({1, 2, 3, 4} - set(map(int, versions.split(" or ")))):
        with pytest.raises(ValueError) as refused:
            NoiseJob.unsafe_seeded(SEED, dimension=8, cipher="aes256", format_version=version, **setting)
        mechanism = setting["mechanism"]
        assert str(refused.value) == f"format_version must be {versions} for {mechanism!r} from aes256, got {version}"


def test_bits_of_rows_named_by_ids():
    job = NoiseJob.unsafe_seeded(SEED, dimension=20, epsilon=6.0)
    rows, sigma = rows_of(4, 20), job.mechanism.noise_parameter
    numbers = [0, -1, 2**63 - 1, -(2**63)]
    places = [reference.place(number=number) for number in numbers]
    expected = reference.released(rows, KEY, text_of(job), places, 1.0, sigma, "gaussian")
    np.testing.assert_array_equal(noise_batch(rows, job, ids=numbers), expected)
    texts = ["", "ann", "Jürgen", "文"]
    places = [reference.place(text=text) for text in texts]
    expected = reference.released(rows, KEY, text_of(job), places, 1.0, sigma, "gaussian")
    np.testing.assert_array_equal(noise_batch(rows, job, ids=texts), expected)


@pytest.mark.parametrize("cipher", VERSIONS)
def test_privunit_bits_are_those_of_the_reference(cipher):
    job = NoiseJob.unsafe_seeded(SEED, dimension=24, epsilon=6.0, mechanism="privunit", cipher=cipher)
    rows = rows_of(3, 24)
    law = job.mechanism.cap_probability, job.mechanism.threshold
    places = [reference.place(partition=0, row=i) for i in range(3)]
    n = reference.privunit_integers(rows, KEY, text_of(job), places, *law, job.mechanism.sigma, stream.ROUNDS[cipher])
    np.testing.assert_array_equal(noise_batch(rows, job), (n * job.mechanism.grid).astype(np.float32))


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
@pytest.mark.parametrize("dimension", (1, 31, 300, 9000))
def test_unit_rows_are_those_of_the_reference(core, dtype, dimension):
    rows = rows_of(12, dimension, dtype)
    rows[3] = 0
    info = np.finfo(dtype)
    rows[4, :] = info.max
    rows[5, :] = info.smallest_subnormal
    rows[6, 0] = info.max
    if dtype == "float64":
        rows[7] *= 1e-300
    got = np.full_like(rows, np.nan)
    core.unit_rows(rows, got)
    np.testing.assert_array_equal(got, reference.unit_rows(rows))
    lengths = np.linalg.norm(got.astype(np.float64), axis=1)
    expected = np.ones(12)
    expected[3] = 0
    np.testing.assert_allclose(lengths, expected, atol={"float16": 2e-2}.get(dtype, 1e-6))
    core.unit_rows(rows, rows)
    np.testing.assert_array_equal(rows, got)


def test_normalized_bits_are_those_of_the_reference():
    job = NoiseJob.unsafe_seeded(SEED, dimension=40, epsilon=6.0, normalize=True, renormalize=True)
    rows, places = rows_of(3, 40), [reference.place(partition=0, row=i) for i in range(3)]
    sigma = job.mechanism.noise_parameter
    released = reference.released(reference.unit_rows(rows), KEY, text_of(job), places, 1.0, sigma, "gaussian")
    np.testing.assert_array_equal(noise_batch(rows, job), reference.unit_rows(released))


def test_ids_of_every_width_are_the_same_places():
    job = NoiseJob.unsafe_seeded(1, dimension=8, epsilon=6.0)
    rows, ids = rows_of(3, 8), [1, 5, 100]
    expected = noise_batch(rows, job, ids=ids)
    for kind in ("int8", "uint8", "int32", "uint32", "int64", "uint64", ">i8"):
        np.testing.assert_array_equal(noise_batch(rows, job, ids=np.array(ids, kind)), expected)
    np.testing.assert_array_equal(noise_batch(rows, job, ids=np.array(ids, object)), expected)
    for kind in (pa.int16(), pa.uint64()):
        np.testing.assert_array_equal(noise_batch(rows, job, ids=pa.array(ids, kind)), expected)
    texts = ["1", "5", "100"]
    named = noise_batch(rows, job, ids=texts)
    assert not (named == expected).all(1).any()
    for kind in (pa.string(), pa.large_string()):
        np.testing.assert_array_equal(noise_batch(rows, job, ids=pa.array(texts, kind)), named)
    np.testing.assert_array_equal(noise_batch(rows, job, ids=np.array(texts)), named)
    large = [2**64 - 1, 2**63, 0]
    places = [reference.place(number=number) for number in large]
    expected = reference.released(rows, (1).to_bytes(32, "little"), text_of(job), places, 1.0, job.mechanism.sigma, "gaussian")
    np.testing.assert_array_equal(noise_batch(rows, job, ids=large), expected)


@pytest.mark.parametrize("dimension", (3, 384, 9000))
@pytest.mark.parametrize(
    "setting",
    (
        dict(epsilon=6.0),
        dict(epsilon=6.0, mechanism="laplacian"),
        dict(epsilon=6.0, normalize=True),
        dict(epsilon=6.0, renormalize=True),
        dict(epsilon=6.0, dtype="float64", normalize=True, renormalize=True),
        dict(epsilon=6.0, dtype="float16", normalize=True),
        dict(epsilon=6.0, mechanism="privunit"),
        dict(epsilon=6.0, cipher="aes256"),
        dict(epsilon=6.0, mechanism="privunit", cipher="aes256"),
    ),
    ids=lambda setting: " ".join(map(str, setting.values())),
)
def test_no_batching_changes_a_bit(setting, dimension):
    job = NoiseJob.unsafe_seeded(3, dimension=dimension, **setting)
    count = 24
    rows = rows_of(count, dimension, job.dtype)
    whole = noise_batch(rows, job)
    random = np.random.default_rng(17)
    for _ in range(3):
        cuts = [0, *sorted(random.choice(np.arange(1, count), 5, replace=False)), count]
        parts = [noise_batch(rows[a:b], job, first_row=a) for a, b in pairwise(cuts)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    ids = np.arange(count) * 7 - 30
    by_id = noise_batch(rows, job, ids=ids)
    order = random.permutation(count)
    np.testing.assert_array_equal(noise_batch(rows[order], job, ids=ids[order]), by_id[order])
    np.testing.assert_array_equal(noise_batch(np.asfortranarray(rows), job), whole)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(job)).receipt(1), job.receipt(1))


@pytest.mark.parametrize("cipher", VERSIONS)
def test_threads_change_no_bit(cipher):
    job = NoiseJob.unsafe_seeded(3, dimension=100, epsilon=6.0, cipher=cipher)
    rows = rows_of(6000, 100)
    try:
        hv.set_num_threads(1)
        one = noise_batch(rows, job)
        hv.set_num_threads(3)
        np.testing.assert_array_equal(noise_batch(rows, job), one)
    finally:
        hv.set_num_threads(0)


def test_every_parameter_gives_another_stream():
    """Where key, place and bytes agree and parameters do not, the streams must not agree: their difference would show the rows."""
    base = dict(dimension=32, epsilon=6.0)
    others = (
        dict(), dict(delta=1e-6), dict(clip_norm=2.0), dict(mechanism="laplacian"), dict(renormalize=True), dict(normalize=True),
        dict(mechanism="empirical", sigma=0.5, epsilon=None), dict(cipher="aes256"),
    )  # fmt: skip
    jobs = [NoiseJob.unsafe_seeded(9, **(base | other)) for other in others]
    assert len({job.id for job in jobs}) == len(jobs)
    assert len({job._rows_key for job in jobs}) == len(jobs)
