"""Every mechanism that `privatize` knows, through everything that takes rows or receipts: it works, or is refused in words."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from hushvec.jobs import NoiseJob, noise_batch
from hushvec.mechanisms import INTEGER_MECHANISMS, MECHANISMS, PublicCodebook
from hushvec.retrieval import PrivateIndex, VectorNoise, embedding_inversion, evaluate, membership_inference, tune_epsilon
from hushvec.retrieval.attacks.row_laws import law_of, log_densities, log_ratios
from hushvec.retrieval.measures import theoretical_cosine
from retrieval.attacks.small_indexes import OnDocuments, directions

DIMENSION, ROWS, EPSILON = 16, 60, 8.0
CLEAN = directions(ROWS, DIMENSION, seed=1)
CODEBOOK = PublicCodebook.of(directions(40, DIMENSION, seed=2))
NAMES = (*MECHANISMS, *INTEGER_MECHANISMS, "codebook")
WHOLE = "x must be int64 or int32 for mechanism {name!r}, got float32, which 'gaussian' takes"


def arguments(name, epsilon=EPSILON):
    if name == "empirical":
        return {"mechanism": name, "sigma": 4.0 / epsilon}
    if name == "codebook":
        return {"mechanism": CODEBOOK.mechanism(epsilon)}
    return {"mechanism": name, "epsilon": epsilon}


def rows(name):
    return np.rint(100 * CLEAN).astype(np.int64) if name in INTEGER_MECHANISMS else CLEAN


def released(name, epsilon=EPSILON):
    return hv.privatize(rows(name), clip_norm=100 if name in INTEGER_MECHANISMS else 1.0, **arguments(name, epsilon))


def index_of(name, epsilon=EPSILON, generator=None):
    return PrivateIndex(DIMENSION, documents=VectorNoise(**arguments(name, epsilon)), store="numpy", generator=generator)


def measured(name, folder):
    index = index_of(name)
    index.add(CLEAN)
    assert 0 < evaluate(index, CLEAN, np.arange(ROWS), resamples=20, clean=CLEAN).theoretical_cosine <= 1


def attacked(attack, name, folder):
    found = membership_inference(index_of(name).fresh, CLEAN, attack=attack, shadow_models=4, k=5, resamples=20)
    assert 0 <= found.auc.value <= 1 and found.epsilon_claimed > 0


def inverted(name, folder):
    """At epsilon 8 one row in ten is recognized, and one run in a hundred recognizes none."""
    release = released(name, 64.0)
    codebook = CODEBOOK if name == "codebook" else None
    found = embedding_inversion(release.values, CLEAN, receipt=release.receipt, codebook=codebook, resamples=20)
    assert found.identified[1].value > 1 / ROWS


def inverted_as_floats(name, folder):
    release = released(name)
    values, codebook = np.asarray(release.values, np.float32), CODEBOOK if name == "codebook" else None
    embedding_inversion(values, CLEAN, receipt=release.receipt, codebook=codebook, resamples=20)


def inverted_without_its_codebook(name, folder):
    release = released(name)
    embedding_inversion(np.asarray(release.values, np.float32), CLEAN, receipt=release.receipt, resamples=20)


def expected(name, folder):
    assert 0 < theoretical_cosine(released(name).receipt) <= 1


def tuned(name, folder):
    setting = {"target_tpr": 0.5, "fpr": 0.05, "steps": 2, "shadow_models": 4, "k": 5, "resamples": 20}
    result = tune_epsilon(lambda epsilon, source: index_of(name, epsilon, source), public_documents=CLEAN, **setting)
    assert len(result.trials) in (1, 2)


def kept(name, folder):
    index = index_of(name)
    index.add(CLEAN)
    index.save(folder / "index")
    again = PrivateIndex.load(folder / "index")
    assert (again.search(CLEAN[:3], 5).ids == index.search(CLEAN[:3], 5).ids).all() and again.receipts == index.receipts
    evaluate(again, CLEAN, np.arange(ROWS), resamples=20)
    again.add(CLEAN[:2])


def in_a_job(name, folder):
    whole = name in INTEGER_MECHANISMS
    job = NoiseJob.start(dimension=DIMENSION, dtype="int64" if whole else "float32", path=folder / "job.json", **arguments(name))
    again = NoiseJob.load(folder / "job.json", codebook=CODEBOOK if name == "codebook" else None)
    parts = [noise_batch(rows(name)[:20], job), noise_batch(rows(name)[20:], again, first_row=20)]
    assert (np.concatenate(parts) == noise_batch(rows(name), again)).all()


def served(name, folder):
    pytest.importorskip("starlette")
    from serve import toy_models
    from serve.services import client_of, policy_fields

    tenant = {"mechanism": name}
    if name == "codebook":
        PublicCodebook.of(directions(40, toy_models.DIMENSION)).save(folder / "book.npz")
        tenant["codebook"] = str(folder / "book.npz")
    with client_of(policy_fields(folder / "budget.sqlite", epsilon=EPSILON, **tenant)) as client:
        answer = client.post("/v1/embeddings", json={"input": ["a b", "c"], "model": "words"})
    assert answer.status_code == 200 and hv.verify_receipt(answer.json()["hushvec"]["receipt"]).status == "holds"


def as_bytes(name, folder):
    release = hv.privatize(rows(name), dtype="int8", **arguments(name))
    assert release.values.dtype == np.int8
    embedding_inversion(release.to_float32(), CLEAN, receipt=release.receipt, resamples=20)


USES = {
    "evaluate": measured,
    "logistic": partial(attacked, "logistic"),
    "likelihood": partial(attacked, "likelihood"),
    "released": partial(attacked, "released"),
    "inversion": inverted,
    "inversion of floats": inverted_as_floats,
    "inversion without codebook": inverted_without_its_codebook,
    "expected cosine": expected,
    "tune": tuned,
    "save and load": kept,
    "job": in_a_job,
    "service": served,
    "int8": as_bytes,
}
_IN_AN_INDEX = ("evaluate", "logistic", "likelihood", "released", "tune", "save and load")
_INT8 = "dtype must be None for mechanism {name!r}: int8 values are those of 'gaussian', 'empirical' and 'privunit'"
_SERVED = "tenants.alpha.mechanism: Input should be 'privunit', 'gaussian', 'laplacian' or 'codebook'"
# What is refused, and in which words.
REFUSED = {
    **{(use, name): WHOLE for use in _IN_AN_INDEX for name in INTEGER_MECHANISMS},
    **{("inversion", name): "released must be a float array, got int64" for name in INTEGER_MECHANISMS},
    **{
        (use, name): "receipt must be of rows of floats, got mechanism {name!r}: its rows are whole numbers"
        for use in ("inversion of floats", "inversion without codebook")
        for name in INTEGER_MECHANISMS
    },
    ("inversion without codebook", "codebook"): "codebook must be the PublicCodebook with digest " + repr(CODEBOOK.digest),
    **{("expected cosine", name): "mechanism must be one of 'gaussian', " for name in INTEGER_MECHANISMS},
    ("expected cosine", "codebook"): "release must be the codebook's mechanism, got a receipt of its answers",
    ("job", "l2_laplace"): "mechanism must have an exact form in a job, got 'l2_laplace'",
    **{("job", name): "dtype must be one of 'float32', 'float64', 'float16', got 'int64'" for name in INTEGER_MECHANISMS},
    **{("service", name): _SERVED for name in ("l2_laplace", "empirical", *INTEGER_MECHANISMS)},
    **{("int8", name): _INT8 for name in ("laplacian", "l2_laplace", *INTEGER_MECHANISMS, "codebook")},
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("use", USES)
def test_it_works_or_is_refused_in_words(use, name, tmp_path):
    words = REFUSED.get((use, name))
    if words is None:
        USES[use](name, tmp_path)
        return
    with pytest.raises((ValueError, TypeError)) as refusal:
        USES[use](name, tmp_path)
    assert words.format(name=name) in str(refusal.value)


def test_the_law_of_a_codebook_is_that_of_its_answers():
    """Against chances written out; codes that are released as one row answer together, and no ratio is beyond epsilon.

    Over 10,000 answers for each of two rows, how often each code comes is what the law says: chi-squared, alpha = 1e-9. The law of
    another epsilon is rejected.
    """
    twice = directions(12, DIMENSION, seed=4)[[*range(12), 0, 3]]  # two codes are there two times
    book = PublicCodebook.of(twice)
    rows_of = directions(2, DIMENSION, seed=5)
    release = hv.privatize(np.repeat(rows_of, 10_000, axis=0), mechanism=book.mechanism(2.0))
    seen, place = np.unique(release.values, axis=0, return_inverse=True)
    law = law_of(release.receipt, book)
    nearest = np.argmax(rows_of.astype(np.float64) @ twice.T.astype(np.float64), axis=1)
    truth, other = release.receipt.truth_values / 2**64, release.receipt.other_values / 2**64
    codes_of = [np.flatnonzero((law.table == row).all(axis=1)) for row in seen]
    wanted = [[truth * (n in codes) + other * (len(codes) - (n in codes)) for n in nearest] for codes in codes_of]
    np.testing.assert_allclose(np.exp(log_densities(seen, rows_of, law)), wanted, rtol=1e-12)
    assert len(seen) == 12 and np.allclose(np.sum(wanted, axis=0), 1.0)
    ratios = log_ratios(np.repeat(seen, 14, axis=0), np.tile(twice, (12, 1)), np.tile(twice[::-1], (12, 1)), law)
    assert np.abs(ratios).max() <= 2.0 + 1e-12 and np.abs(ratios).max() > 1.99

    def p_value(table):
        found = [np.bincount(part, minlength=12) for part in place.reshape(2, -1)]
        return min(stats.chisquare(one, 10_000 * np.array(share)).pvalue for one, share in zip(found, np.transpose(table)))

    assert p_value(wanted) > 1e-9
    assert p_value(np.exp(log_densities(seen, rows_of, book.mechanism(1.8)))) < 1e-9


def test_a_row_that_a_store_rounded_is_the_answer_nearest_to_it():
    values, receipt = released("codebook")
    law = law_of(receipt, CODEBOOK)
    rounded = (values.astype(np.float16).astype(np.float32), values * np.float32(1 + 2**-20))
    for rows in rounded:
        assert (rows != values).any() and (log_densities(rows, CLEAN, law) == log_densities(values, CLEAN, law)).all()


def test_another_codebook_than_the_receipt_s_is_refused():
    values, receipt = released("codebook")
    other = PublicCodebook.of(directions(40, DIMENSION, seed=3))
    with pytest.raises(
        ValueError, match=f"codebook must have digest '{CODEBOOK.digest}', as the receipt says, got '{other.digest}'"
    ):
        embedding_inversion(values, CLEAN, receipt=receipt, codebook=other)
    with pytest.raises(TypeError, match="codebook must be left out without a receipt of its answers"):
        embedding_inversion(values, CLEAN, codebook=other)
    labels = hv.privatize_labels(["yes"], ["no", "yes"], epsilon=1.0).receipt
    with pytest.raises(TypeError, match="receipt must be one of released rows or None, got LabelReceipt"):
        embedding_inversion(values, CLEAN, receipt=labels)


def test_an_index_of_one_s_own_shows_its_codebook():
    class Shown(OnDocuments):
        codebook = CODEBOOK

    for kind in (OnDocuments, Shown):
        attack = partial(
            membership_inference,
            partial(kind, **arguments("codebook")),
            CLEAN,
            attack="released",
            shadow_models=2,
            k=5,
            resamples=20,
        )
        if kind is Shown:
            assert attack().auc.value > 0.5
            continue
        with pytest.raises(TypeError, match=f"codebook must be the PublicCodebook with digest '{CODEBOOK.digest}'"):
            attack()
    index = OnDocuments(hv.Generator(), **arguments("codebook"))
    index.add(CLEAN, np.arange(ROWS))
    assert evaluate(index, CLEAN, np.arange(ROWS), k=5, resamples=20).theoretical_cosine is None
