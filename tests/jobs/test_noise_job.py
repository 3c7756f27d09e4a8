"""A job as an object: made, charged once, pickled, kept in a file that only its owner can read; and its receipt."""

import dataclasses
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from hushvec.jobs import NoiseJob, noise_batch
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, Laplacian, PrivUnit

SETTING = dict(dimension=16, epsilon=2.0, delta=1e-6)
# (job_version, format_version) of a new job, and of one from before version 3 of the release format.
VERSIONS = {"aes256": (3, 3), "chacha20": (4, 3)}
OLD_VERSIONS = {"aes256": (2, 2), "chacha20": (1, 1)}


def ledger_of(tmp_path, **limits):
    return hv.PrivacyBudget(**({"max_epsilon": 10.0} | limits), persist_key="rows", store=tmp_path / "ledger.sqlite")


def start_at(folder):
    """One of many processes that start the same job."""
    with ledger_of(folder) as budget:
        job = NoiseJob.start(**SETTING, budget=budget, path=folder / "job.json")
    return job.id, job.entry


def test_repr_and_receipt_do_not_show_the_key(tmp_path):
    job = NoiseJob.start(**SETTING)
    shown = repr(job) + str(job) + job.receipt(3).to_json() + repr(vars(job.mechanism))
    assert "_key" not in shown
    for secret in (job._key, job._rows_key):
        assert secret.hex() not in shown and repr(secret) not in shown


def test_jobs_differ_and_do_not_repeat_their_noise():
    first, second = NoiseJob.start(**SETTING), NoiseJob.start(**SETTING)
    assert first.id != second.id
    rows = np.ones((3, 16), np.float32)
    assert not (noise_batch(rows, first) == noise_batch(rows, second)).all(1).any()


def test_a_pickled_job_is_the_same_job():
    job = NoiseJob.start(**SETTING)
    sent = pickle.loads(pickle.dumps(job))
    rows = np.ones((3, 16), np.float32)
    np.testing.assert_array_equal(noise_batch(rows, sent), noise_batch(rows, job))
    assert sent.id == job.id and sent.receipt(3) == job.receipt(3)


@pytest.mark.parametrize("cipher, version", (("chacha20", 2), ("aes256", 1), ("aes512", 3), ("aes256", 2)))
def test_a_pickled_job_of_another_format_is_refused(cipher, version):
    state = dict(NoiseJob.start(**SETTING).__getstate__(), cipher=cipher, format_version=version)
    with pytest.raises(ValueError) as refused:
        NoiseJob.__new__(NoiseJob).__setstate__(state)
    assert str(refused.value) == f"the job must have format version 3, or 1 for chacha20 or 2 for aes256, got {version} for {cipher}"


@pytest.mark.parametrize("cipher, versions", VERSIONS.items())
def test_versions_are_in_files_and_pickles(tmp_path, cipher, versions):
    """A reader that knows version 1 alone compares these numbers first, and names them."""
    job = NoiseJob.start(**SETTING, cipher=cipher, path=tmp_path / "job.json")
    written = json.loads((tmp_path / "job.json").read_text())
    assert (written["job_version"], written["format_version"]) == versions
    assert job.__getstate__()["format_version"] == job.receipt(3).format_version == 3
    assert job.parameters.startswith(f"job_version {versions[0]}\n")
    rows = np.ones((3, 16), np.float32)
    for again in (NoiseJob.load(tmp_path / "job.json"), pickle.loads(pickle.dumps(job))):
        assert (again.cipher, again.id) == (cipher, job.id)
        np.testing.assert_array_equal(noise_batch(rows, again), noise_batch(rows, job))


# A file of version 1. Id and bits are those of evidence.reference.jobs.
OLD_FILE = {
    "job_version": 1, "format_version": 1, "id": "7081a7db728d810a8ad23c4833458a19", "key": "0123456789abcdef" * 4,
    "arguments": {
        "dimension": 4, "dtype": "float32", "mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-06, "sigma": None, "clip_norm": 1.0,
        "normalize": False, "renormalize": False,
    },
    "charge": None, "rows_by": "numbers",
}  # fmt: skip
OLD_BITS = "00004c40000098c0000094400000f83f000080c000002840000000bf0000aac0"


def test_a_file_of_version_1_resumes_bit_for_bit(tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(OLD_FILE))
    path.chmod(0o600)
    resumed = NoiseJob.start(dimension=4, epsilon=2.0, delta=1e-6, path=path)
    assert resumed.id == OLD_FILE["id"] and resumed.cipher == "chacha20"
    released = noise_batch(np.eye(4, dtype=np.float32)[:2], resumed, first_row=5)
    assert released.tobytes().hex() == OLD_BITS


@pytest.mark.parametrize("cipher, other", (("aes256", "chacha20"), ("chacha20", "aes256")))
def test_the_cipher_of_a_file_is_kept(tmp_path, cipher, other):
    path = tmp_path / "job.json"
    job = NoiseJob.start(**SETTING, cipher=cipher, path=path)
    assert NoiseJob.start(**SETTING, path=path).id == NoiseJob.start(**SETTING, cipher=cipher, path=path).id == job.id
    with ledger_of(tmp_path) as budget:
        with pytest.raises(ValueError) as refused:
            NoiseJob.start(**SETTING, cipher=other, path=path, budget=budget)
        assert str(refused.value) == f"cipher must be {cipher!r}, that of the job in {path}, or None, got {other!r}"
        assert budget.consumed() == 0.0
    with pytest.raises(ValueError, match=r"holds a job with other parameters: dimension 16, asked for dimension 17$"):
        NoiseJob.start(**(SETTING | dict(dimension=17)), cipher=other, path=path)


def test_charged_once_however_often_it_is_started(tmp_path):
    with ledger_of(tmp_path) as budget:
        first = NoiseJob.start(**SETTING, budget=budget, path=tmp_path / "job.json")
        for _ in range(3):
            again = NoiseJob.start(**SETTING, budget=budget, path=tmp_path / "job.json")
            assert (again.id, again.entry) == (first.id, first.entry)
        assert NoiseJob.load(tmp_path / "job.json").charge(budget).entry == first.entry
        assert pickle.loads(pickle.dumps(first)).charge(budget).entry == first.entry
        assert budget.consumed() == 2.0
        NoiseJob.start(**SETTING, budget=budget)
        assert budget.consumed() == 4.0


def test_charged_once_by_many_processes_at_once(tmp_path):
    with ledger_of(tmp_path):
        pass
    with multiprocessing.get_context("fork").Pool(6) as pool:
        started = pool.map(start_at, [tmp_path] * 12, chunksize=1)
        pool.close()  # and not terminated: a child that is just being forked may miss the signal
        pool.join()
    assert len(set(started)) == 1
    with ledger_of(tmp_path) as budget:
        assert budget.consumed() == 2.0
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")] == []


def test_a_start_that_died_before_its_charge_is_charged_later(tmp_path):
    kept = NoiseJob.start(**SETTING, path=tmp_path / "job.json")
    assert kept.entry is None
    with ledger_of(tmp_path) as budget:
        paid = NoiseJob.start(**SETTING, budget=budget, path=tmp_path / "job.json")
        assert paid.id == kept.id and paid.entry.charge_id == kept.charge_id
        assert budget.consumed() == 2.0


def test_an_exhausted_budget_stops_the_job(tmp_path):
    with ledger_of(tmp_path, max_epsilon=1.0) as budget:
        with pytest.raises(hv.PrivacyBudgetExhaustedError):
            NoiseJob.start(**SETTING, budget=budget)
        assert budget.consumed() == 0.0


def test_only_a_ledger_that_knows_the_job_again_will_do():
    class Counter:
        def consume(self, epsilon, delta):
            raise AssertionError("must not be charged")

    with pytest.raises(TypeError, match=r"budget must be a PrivacyBudget, whose ledger knows a job again, got Counter"):
        NoiseJob.start(**SETTING, budget=Counter())
    with pytest.raises(ValueError, match=r"budget must be None for a seeded job"):
        NoiseJob.unsafe_seeded(1, **SETTING).charge(hv.PrivacyBudget(10.0))


@pytest.mark.parametrize("mechanism", ("gaussian", "laplacian", "privunit", "empirical"))
def test_the_receipt_holds(tmp_path, mechanism):
    setting = dict(sigma=0.5) if mechanism == "empirical" else dict(epsilon=2.0)
    with ledger_of(tmp_path, max_epsilon=100.0) as budget:
        job = NoiseJob.start(dimension=16, mechanism=mechanism, budget=budget, **setting)
        export = budget.export()
    receipt = job.receipt(1_000_000)
    assert hv.verify_receipt(receipt).status == "holds"
    assert hv.verify_charges([receipt], export).status == "holds"
    assert receipt.charge == job.entry and receipt.rows == 1_000_000 and receipt.per == "record"
    how = f"job {job.id}: each row's key stream is keyed by the job's key, the row's place and its bytes"
    assert how in receipt.notes
    assert receipt == dataclasses.replace(
        hv.privatize(np.ones((1, 16), np.float32), mechanism=mechanism, **setting).receipt,
        rows=1_000_000, notes=receipt.notes, charge=job.entry,
    )  # fmt: skip


def test_a_seeded_job_promises_nothing():
    job = NoiseJob.unsafe_seeded(7, **SETTING)
    receipt = job.receipt(3)
    assert receipt.key_source == "seed" and not receipt.is_dp_claim
    assert hv.verify_receipt(receipt).status == "not a DP claim"
    assert NoiseJob.unsafe_seeded(7, **SETTING).id == job.id


def test_a_job_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "job.json"
    old = os.umask(0)
    try:
        job = NoiseJob.start(**SETTING, path=path)
        job.save(tmp_path / "copy.json")
    finally:
        os.umask(old)
    for written in (path, tmp_path / "copy.json"):
        assert written.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(PermissionError, match=r"must be readable by its owner alone \(mode 600\), got mode 640"):
        NoiseJob.load(path)
    with pytest.raises(PermissionError):
        NoiseJob.start(**SETTING, path=path)


@pytest.mark.parametrize("mechanism", ("gaussian", "laplacian", "privunit", "empirical"))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_a_job_continues_from_its_file_in_another_process(tmp_path, mechanism, dtype):
    setting = dict(sigma=0.5) if mechanism == "empirical" else dict(epsilon=2.0)
    job = NoiseJob.start(dimension=16, dtype=dtype, mechanism=mechanism, renormalize=True, path=tmp_path / "job.json", **setting)
    rows = np.random.default_rng(1).standard_normal((5, 16)).astype(dtype)
    np.testing.assert_array_equal(noise_batch(rows, NoiseJob.load(tmp_path / "job.json")), noise_batch(rows, job))


def test_a_restarted_driver_continues_the_job(tmp_path):
    code = (
        "import sys, numpy as np; from hushvec.jobs import NoiseJob, noise_batch; "
        "job = NoiseJob.start(dimension=16, epsilon=2.0, path=sys.argv[1]); "
        "print(noise_batch(np.ones((2, 16), np.float32), job).tobytes().hex())"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", code, tmp_path / "job.json"], check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1


def test_a_path_with_another_job_is_refused(tmp_path):
    with ledger_of(tmp_path) as budget:
        NoiseJob.start(**SETTING, path=tmp_path / "job.json")
        with pytest.raises(ValueError, match=r"holds a job with other parameters: dimension 16, asked for dimension 17$"):
            NoiseJob.start(**(SETTING | dict(dimension=17, delta=1e-6)), path=tmp_path / "job.json", budget=budget)
        assert budget.consumed() == 0.0


@pytest.mark.parametrize(
    "change, message",
    (
        (dict(key="00" * 31), "its key must have 32 bytes, got 31"),
        (dict(key="00" * 32), "its id does not follow from its key and parameters"),
        (dict(format_version=1), r"its versions must be one of \(1, 1\), \(2, 2\), \(3, 3\), \(4, 3\), got \(3, 1\)"),
        (dict(job_version=1), r"its versions must be one of .*, got \(1, 3\)"),
        (dict(job_version=5, format_version=3), r"its versions must be one of .*, got \(5, 3\)"),
        (dict(job_version=[3]), r"its versions must be one of .*, got \(\[3\], 3\)"),
        (dict(job_version=4, format_version=3), "its id does not follow from its key and parameters"),
        (dict(job_version=1, format_version=1), "its id does not follow from its key and parameters"),
        (dict(arguments={}), "missing"),
        (dict(charge={"ledger": "x"}), "missing"),
        (dict(more=1), "its fields must be"),
    ),
    ids=lambda value: str(value)[:20],
)
def test_damaged_job_files(tmp_path, change, message):
    path = tmp_path / "job.json"
    NoiseJob.start(**SETTING, cipher="aes256", path=path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=message) as refused:
        NoiseJob.load(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("text", ("", "{", "[]", "null", '{"key": 1}', "\x00"))
def test_files_that_hold_no_job(tmp_path, text):
    path = tmp_path / "job.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ValueError, match=r"must be a job file of this version of hushvec"):
        NoiseJob.load(path)


def test_what_cannot_be_kept_in_a_file(tmp_path):
    with pytest.raises(ValueError, match=r"a seeded job is not saved: its seed makes it again"):
        NoiseJob.unsafe_seeded(1, **SETTING).save(tmp_path / "job.json")
    job = NoiseJob.start(dimension=16, mechanism=PrivUnit(epsilon=6.0, dimension=16, corpus_size=1000))
    with pytest.raises(ValueError, match=r"a job with corpus_size cannot be saved, got corpus_size=1000"):
        job.save(tmp_path / "job.json")
    assert list(tmp_path.iterdir()) == []


def test_a_mechanism_object_will_do():
    mechanism = Gaussian(epsilon=2.0, delta=1e-6, dimension=16)
    assert NoiseJob.start(dimension=16, mechanism=mechanism).parameters == NoiseJob.start(**SETTING).parameters


@pytest.mark.parametrize(
    "change, error, message",
    (
        (dict(epsilon=-1.0), ValueError, "epsilon must be > 0, got -1.0"),
        (dict(epsilon=None), TypeError, "epsilon must be given for mechanism 'gaussian'"),
        (dict(dimension=0), ValueError, "dimension must be >= 1, got 0"),
        (dict(dimension=True), TypeError, "dimension must be a whole number, got bool"),
        (dict(dtype="int8"), ValueError, "dtype must be one of 'float32', 'float64', 'float16', got 'int8'"),
        (dict(clip_norm=float("nan")), ValueError, "clip_norm must be finite, got nan"),
        (dict(mechanism="l2_laplace"), ValueError, "mechanism must have an exact form in a job, got 'l2_laplace'"),
        (dict(normalize=True, clip_norm=2.0), ValueError, "clip_norm must be 1.0 with normalize=True, got 2.0"),
        (dict(cipher="chacha12"), ValueError, "cipher must be one of 'aes256', 'chacha20', got 'chacha12'"),
        (dict(cipher=256), TypeError, "cipher must be a str, got int"),
        (dict(epsilons=1.0), TypeError, "NoiseJob.start() got an unexpected keyword argument 'epsilons'"),
        (dict(per="release"), TypeError, "NoiseJob.start() got an unexpected keyword argument 'per'"),
    ),
)
def test_bad_parameters(tmp_path, change, error, message):
    with ledger_of(tmp_path) as budget:
        with pytest.raises(error) as refused:
            NoiseJob.start(**(SETTING | change), budget=budget, path=tmp_path / "job.json")
        assert str(refused.value) == message
        assert budget.consumed() == 0.0
    assert not (tmp_path / "job.json").exists()


@pytest.mark.parametrize("seed, error", ((-1, ValueError), (2**256, ValueError), (1.5, TypeError), (True, TypeError)))
def test_bad_seeds(seed, error):
    with pytest.raises(error):
        NoiseJob.unsafe_seeded(seed, **SETTING)


@pytest.mark.parametrize("rows, error", ((-1, ValueError), (1.5, TypeError), (True, TypeError)))
def test_bad_numbers_of_rows(rows, error):
    with pytest.raises(error, match="rows must be"):
        NoiseJob.start(**SETTING).receipt(rows)


@pytest.mark.parametrize("number", [int, np.float32, np.int64, Fraction])
@pytest.mark.parametrize("kind", [Gaussian, Laplacian, PrivUnit, EmpiricalGaussian])
def test_a_mechanism_of_any_kind_of_numbers_makes_a_job(tmp_path, kind, number):
    """8 is 8.0: in the job's id, in its file, in the receipt."""
    name = "chosen_sigma" if kind is EmpiricalGaussian else "epsilon"
    mechanism = kind(**{name: number(8)}, dimension=np.int64(4), clip_norm=number(2))
    assert mechanism == kind(**{name: 8.0}, dimension=4, clip_norm=2.0)
    job = NoiseJob.start(dimension=4, mechanism=mechanism, path=tmp_path / "job.json")
    assert len(job.id) == 32
    assert NoiseJob.load(tmp_path / "job.json").parameters == job.parameters
    assert type(job.receipt(1).epsilon) is float
