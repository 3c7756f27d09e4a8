"""Jobs that answer with codes: bits by docs/format.md section 10, parts and retries, other data, the charge, files and receipts.

Seeds are fixed: a test always passes or never does.
"""

import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from evidence.reference import jobs as reference
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.jobs import NoiseJob, derivation, noise_file
from hushvec.mechanisms import PrivUnit, PublicCodebook
from hushvec.mechanisms.base import RowKeys
from hushvec.receipts.labels import LabelReceipt
from jobs.named import noise_batch
from mechanisms.discrete import discrete_reference
from receipts.forgeries import SCRIPT, module_of

SEED = 2**255 + 12345
KEY = SEED.to_bytes(32, "little")
ALPHA = 1e-6

RNG = np.random.default_rng(0)
CODEBOOK = PublicCodebook.of(RNG.standard_normal((20, 12)).astype(np.float32))
OTHER = PublicCodebook.of(RNG.standard_normal((20, 12)).astype(np.float32))
ROWS = RNG.standard_normal((30, 12)).astype(np.float32)


def job_of(epsilon=3.0, seed=SEED, codebook=CODEBOOK, **settings):
    return NoiseJob.unsafe_seeded(seed, dimension=12, mechanism=codebook.mechanism(epsilon), **settings)


def started(epsilon=3.0, codebook=CODEBOOK, **settings):
    return NoiseJob.start(dimension=12, mechanism=codebook.mechanism(epsilon), **settings)


def codes_of(released, job):
    """Which row of the table came out."""
    place_of = {row.tobytes(): place for place, row in enumerate(job.mechanism.table.astype(released.dtype))}
    return np.array([place_of[row.tobytes()] for row in released])


# ---- bits ----


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
@pytest.mark.parametrize("normalize", (False, True))
@pytest.mark.parametrize("cipher, version, rounds", (("chacha20", 1, 20), ("aes256", 2, 14)))
def test_bits_are_those_of_the_reference(cipher, version, rounds, dtype, normalize):
    job = job_of(dtype=dtype, normalize=normalize, cipher=cipher)
    text = reference.parameters(
        job_version=version, mechanism="codebook", epsilon=3.0, delta=0.0, dimension=12, dtype=dtype, clip_norm=1.0,
        normalize=int(normalize), renormalize=0, codebook=CODEBOOK.digest, table=reference.digest(job.mechanism.table),
    )  # fmt: skip
    assert job.parameters == text and job.id == reference.job_id(KEY, text)
    rows = ROWS.astype(dtype)
    read = reference.unit_rows(rows) if normalize else rows
    places = [reference.place(partition=2**40, row=7 + place) for place in range(len(rows))]
    keys = [reference.answer_key(KEY, text, *of_one) for of_one in zip(places, read, CODEBOOK.encode(read))]
    wanted = [discrete_reference.responses(key, 0, rounds, [int(code)], 20, 3.0)[0] for code, key in zip(CODEBOOK.encode(read), keys)]
    released = noise_batch(rows, job, partition=2**40, first_row=7)
    assert released.dtype == rows.dtype
    assert codes_of(released, job).tolist() == wanted


FROZEN = [0, 0, 3, 3, 0, 3, 3, 1, 2, 4, 2, 1, 1, 3, 4, 2, 0, 1, 1, 3, 0, 3, 0, 4, 0, 3, 2, 1, 2, 0]


def test_frozen_bits():
    """Answers of the first 30 places, made by the reference in tests/evidence/reference and tests/discrete."""
    rows = np.repeat(np.eye(5, dtype=np.float32), 6, axis=0)
    codebook = PublicCodebook.of(np.eye(5, dtype=np.float32)).for_any_row()   # its own rows
    job = NoiseJob.unsafe_seeded(1, dimension=5, mechanism=codebook.mechanism(1.0))
    assert codes_of(noise_batch(rows, job), job).tolist() == FROZEN


def test_batches_order_and_attempts_change_no_bit():
    job = started()
    whole = noise_batch(ROWS, job)
    parts = [noise_batch(ROWS[:7], job), noise_batch(ROWS[7:8], job, first_row=7), noise_batch(ROWS[8:], job, first_row=8)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    sent = pickle.loads(pickle.dumps(job))
    assert sent.id == job.id
    np.testing.assert_array_equal(noise_batch(ROWS, sent), whole)
    names = [f"person {place}" for place in range(len(ROWS))]
    named = noise_batch(ROWS, job, ids=names)
    np.testing.assert_array_equal(noise_batch(ROWS[::-1], job, ids=names[::-1])[::-1], named)
    assert (named != whole).any()


def test_the_table_travels_with_a_job():
    """Another machine might round it otherwise; the job's own is what its id names."""
    sent = pickle.loads(pickle.dumps(started()))
    assert "table" in vars(sent.mechanism)


# ---- the law, and what other data gets ----


def answers_at(job, row, count, **place):
    return codes_of(noise_batch(np.repeat(row[None], count, axis=0), job, **place), job)


def test_answers_have_the_law():
    """n = 20,000 places, chi-square over 6 codes, alpha 1e-6; the law of 5 codes for 6 and that of 1.1 epsilon are rejected."""
    job, row, n = job_of(epsilon=1.5, codebook=PublicCodebook.of(CODEBOOK.codes[:6])), ROWS[0], 20_000
    counts = np.bincount(answers_at(job, row, n), minlength=6)

    def p_value(epsilon, k):
        truth = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
        wanted = np.full(6, (1 - truth) / 5)
        wanted[job.mechanism.codebook.encode(row)] = truth
        return stats.chisquare(counts, n * wanted).pvalue

    assert p_value(1.5, 6) > ALPHA > max(p_value(1.65, 6), p_value(1.5, 5))


def lies(job, rows):
    """How far an answer is from the truth, modulo k: 0 is the truth. The same for all codes if the stream is the same."""
    return (codes_of(noise_batch(rows, job), job) - CODEBOOK.encode(rows)) % len(CODEBOOK)


def check_unrelated(first, second, epsilon):
    """n = 4,000 pairs: how often lies agree, two-sided binomial at alpha 1e-6, against independent answers."""
    law = CODEBOOK.mechanism(epsilon).response
    agree = law.probability_of_truth**2 + 19 * law.probability_of_each_other**2
    assert stats.binomtest(int((first == second).sum()), len(first), agree).pvalue > ALPHA


def test_other_data_at_a_place_has_unrelated_noise():
    """With the same code, in the last bit of one element; and with another code."""
    job, row = job_of(epsilon=1.0), ROWS[0]
    near, far = row.copy(), CODEBOOK.codes[(CODEBOOK.encode(row)[0] + 3) % 20]
    near[0] = np.nextafter(near[0], np.float32(9))
    assert CODEBOOK.encode(near)[0] == CODEBOOK.encode(row)[0] != CODEBOOK.encode(far)[0]
    rows = [np.repeat(one[None], 4000, axis=0) for one in (row, near, far)]
    found = [lies(job, one) for one in rows]
    check_unrelated(found[0], found[1], 1.0)
    check_unrelated(found[0], found[2], 1.0)
    np.testing.assert_array_equal(lies(job, rows[0]), found[0])


@pytest.mark.parametrize("forgets", ("the row and its code", "the code"))
def test_a_derivation_that_forgets_is_caught(forgets, monkeypatch):
    """Keyed by the place alone, other data gets the same shift. Keyed without the code, so does a row whose code another machine
    computes otherwise."""
    job = job_of(epsilon=1.0)
    rows = np.repeat(ROWS[:1], 4000, axis=0)
    honest = RowKeys.of_row
    kept = {"the row and its code": lambda content: b"", "the code": lambda content: content[:-4]}[forgets]
    monkeypatch.setattr(RowKeys, "of_row", lambda keys, row, content: honest(keys, row, kept(content)))
    first = lies(job, rows)
    encode = PublicCodebook.encode
    if forgets == "the code":
        monkeypatch.setattr(PublicCodebook, "encode", lambda self, x: (encode(self, x) + 1) % 20)
        second = lies(job, rows)
    else:
        second = lies(job, np.repeat(CODEBOOK.codes[:1], 4000, axis=0))
    with pytest.raises(AssertionError):
        check_unrelated(first, second, 1.0)


def test_a_row_whose_code_another_machine_computes_otherwise_is_a_release_of_its_own(monkeypatch):
    job, rows = job_of(epsilon=1.0), np.repeat(ROWS[:1], 4000, axis=0)
    first, encode = lies(job, rows), PublicCodebook.encode
    monkeypatch.setattr(PublicCodebook, "encode", lambda self, x: (encode(self, x) + 1) % 20)
    check_unrelated(first, lies(job, rows), 1.0)


def test_rows_are_read_once(monkeypatch):
    """Key and code are those of one reading: a row that changes during the call has the answer of what was read."""
    job, source = started(), ROWS[:3].copy()
    before = noise_batch(ROWS[:3], job)
    encode = PublicCodebook.encode

    def changing(self, x):
        found = encode(self, x)
        source[:] = -source
        return found

    monkeypatch.setattr(PublicCodebook, "encode", changing)
    np.testing.assert_array_equal(noise_batch(source, job), before)


# ---- what it costs, and what it says ----


def test_it_is_charged_once_and_its_receipts_name_the_codebook(tmp_path):
    budget = hv.PrivacyBudget(max_epsilon=4.0)
    settings = dict(budget=budget, path=tmp_path / "job.json")
    job = started(**settings)
    again = started(**settings)
    assert (again.id, again.entry, budget.consumed()) == (job.id, job.entry, 3.0)
    np.testing.assert_array_equal(noise_batch(ROWS, again), noise_batch(ROWS, job))
    receipt = job.receipt(len(ROWS))
    assert isinstance(receipt, LabelReceipt)
    assert (receipt.codebook, receipt.epsilon, receipt.answers, receipt.per) == (CODEBOOK.digest, 3.0, 30, "record")
    assert job.note in receipt.notes and receipt.is_dp_claim
    assert hv.verify_receipt(receipt).status == "holds"
    assert hv.verify_charges([receipt], budget.export()).status == "holds"
    script = module_of(SCRIPT.read_text())
    assert script.check_receipt(json.loads(receipt.to_json()))[0] == "holds"
    forged = dataclasses.replace(receipt, epsilon=2.9)
    assert hv.verify_receipt(forged).status == script.check_receipt(json.loads(forged.to_json()))[0] == "does not hold"
    with pytest.raises(PrivacyBudgetExhaustedError):
        started(epsilon=2.0, budget=budget)
    assert not job_of().receipt(3).is_dp_claim


def test_a_file_names_the_codebook_and_asks_for_it(tmp_path):
    path = tmp_path / "job.json"
    job = started(path=path)
    loaded = NoiseJob.load(path, codebook=CODEBOOK)
    assert loaded.id == job.id
    np.testing.assert_array_equal(noise_batch(ROWS, loaded), noise_batch(ROWS, job))
    with pytest.raises(TypeError, match=f"codebook must be given for the job in .*{CODEBOOK.digest}"):
        NoiseJob.load(path)
    with pytest.raises(ValueError, match="codebook must be that of the job"):
        NoiseJob.load(path, codebook=OTHER)
    with pytest.raises(TypeError, match=r"codebook must be a hushvec\.mechanisms\.PublicCodebook or None, got ndarray"):
        NoiseJob.load(path, codebook=ROWS)
    with pytest.raises(ValueError, match="holds a job with other parameters: epsilon"):
        started(epsilon=4.0, path=path)
    with pytest.raises(ValueError, match="codebook must be that of the job"):
        started(codebook=OTHER, path=path)
    plain = tmp_path / "plain.json"
    NoiseJob.start(dimension=12, mechanism=PrivUnit(epsilon=3.0, dimension=12), path=plain)
    with pytest.raises(ValueError, match=r"codebook must be that of the job .*, None"):
        NoiseJob.load(plain, codebook=CODEBOOK)


def test_a_table_of_other_bits_is_another_job(tmp_path, monkeypatch):
    """Another machine that rounds the table otherwise cannot go on with a job from its file."""
    started(path=tmp_path / "job.json")
    decoded = PublicCodebook.decoded_codes

    def rounded(self, response):
        table = decoded(self, response)
        table[0, 0] = np.nextafter(table[0, 0], np.float32(9))
        return table

    monkeypatch.setattr(PublicCodebook, "decoded_codes", rounded)
    with pytest.raises(ValueError, match="its id does not follow from its key and parameters"):
        NoiseJob.load(tmp_path / "job.json", codebook=CODEBOOK)


def test_a_parquet_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 12)
    pq.write_table(pa.table({"embedding": rows}), tmp_path / "in.parquet")
    job, target = started(), tmp_path / "out.parquet"
    for _ in range(2):  # the second time over its own output
        receipt = noise_file(tmp_path / "in.parquet", target, job)
        assert receipt.codebook == CODEBOOK.digest and receipt.answers == 30
        written = np.stack(pq.read_table(target)["embedding"].to_numpy())
        np.testing.assert_array_equal(written, noise_batch(ROWS, job))
    assert LabelReceipt.from_json((tmp_path / "out.parquet.receipt.json").read_text()) == receipt
    with pytest.raises(FileExistsError):
        noise_file(tmp_path / "in.parquet", target, started())


@pytest.mark.parametrize(
    "rows, error, text",
    [
        (np.where(np.arange(12) == 3, np.nan, ROWS[:4]), ValueError, "batch must be finite, got nan in row 0"),
        (np.tile(CODEBOOK.codes, 1), ValueError, "codebook must be fitted on public rows, not on those to be released"),
        (ROWS[:, :5], ValueError, "batch must have 12 columns like the job, got 5"),
        (ROWS.astype(np.float64), TypeError, "batch must be float32 like the job, got float64"),
    ],
)
def test_bad_rows(rows, error, text):
    job = started(codebook=PublicCodebook.of(CODEBOOK.codes))
    with pytest.raises(error, match=text):
        noise_batch(rows if error is TypeError else rows.astype(np.float32), job)


def test_no_rows_and_one_row():
    job = started()
    assert noise_batch(ROWS[:0], job).shape == (0, 12)
    np.testing.assert_array_equal(noise_batch(ROWS[0], job), noise_batch(ROWS[:1], job)[0])
    with pytest.raises(ValueError, match="rows_per_person must be 1"):
        NoiseJob.start(dimension=12, mechanism=CODEBOOK.mechanism(3.0, rows_per_person=2))


def test_each_row_has_one_answer_of_its_own():
    """n = 400 equal rows at as many places: at epsilon = 0.5 many answers, and no two neighbors bound to agree."""
    found = answers_at(started(epsilon=0.5), ROWS[0], 400)
    assert len(set(found.tolist())) == 20
    none = np.empty((0, 12), np.float32)
    CODEBOOK.mechanism(3.0).release_keyed(ROWS[:0], none, RowKeys(KEY, derivation.positions(0, 0, 0), "aes256"), half_words=False)
