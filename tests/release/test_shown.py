"""What `print` and notebooks show of releases, receipts, budgets, indexes and results: about ten lines, and no claim too many."""

import dataclasses
import html
import re

import numpy as np
import pytest

import hushvec as hv
from hushvec.accounting import GaussianDP, PureDP, compose
from hushvec.mechanisms import Gaussian, PublicCodebook
from hushvec.receipts.training import TrainingReceipt
from hushvec.retrieval import (
    PrivateIndex,
    ScoreNoise,
    VectorNoise,
    embedding_inversion,
    evaluate,
    membership_inference,
    tune_epsilon,
)
from receipts.forgeries import aggregate_receipt

ROWS = np.random.default_rng(3).standard_normal((400, 8)).astype(np.float32)


def seeded():
    return hv.Generator.unsafe_seeded(1)


class Model:
    def embed(self, texts):
        return ROWS[: len(texts)]


def empirical():
    sensitivity = hv.calibrate_sensitivity(Model(), [f"text {number}" for number in range(40)])
    wrapped = hv.wrap_embedding_model(Model(), hv.dp_embedding_middleware(epsilon=8.0, sensitivity=sensitivity))
    return wrapped.embed(["a"]).receipts[0]


def selection():
    index = PrivateIndex(8, scores=ScoreNoise(epsilon=1.0, mechanism="gumbel"), store="numpy")
    index.add(ROWS)
    return index.search(ROWS[:3], k=2).score_receipt


def training(**changes):
    fields = {"noise_multiplier": 1.0, "sigma": 1.0, "epsilon": 4.4, "is_dp_claim": True, "grade": "exact", "key_source": "os"}
    return TrainingReceipt(
        **{**fields, **changes},
        steps=1,
        adjacency="add-remove",
        delta=1e-5,
        sampling_probability=1.0,
        clip_norm=1.0,
        clipping="auto",
        sensitivity=1.0,
        expected_batch_size=8.0,
        theorem="single",
        cipher="chacha20",
        rounds=20,
        format_version=1,
        library_version="0.1.0",
    )


CLAIMS = {
    "gaussian": lambda: hv.privatize(ROWS, epsilon=8.0).receipt,
    "one person": lambda: hv.privatize(ROWS[:3], epsilon=8.0, per="release").receipt,
    "privunit int8": lambda: hv.privatize(ROWS, epsilon=8.0, mechanism="privunit", dtype="int8").receipt,
    "empirical": lambda: hv.privatize(ROWS, sigma=0.5, mechanism="empirical").receipt,
    "empirical sensitivity": empirical,
    "codes": lambda: hv.privatize(ROWS[:5], mechanism=PublicCodebook.fit(-ROWS, epsilon=4.0).mechanism(epsilon=4.0)).receipt,
    "labels": lambda: hv.privatize_labels(["a", "b"], ["a", "b", "c"], epsilon=2.0).receipt,
    "reports": lambda: hv.collect.Vocabulary(["a", "b", "c"], epsilon=1.0).release(["a", "b"]).receipt,
    "selection": selection,
    "training": training,
    "aggregate": aggregate_receipt,
}
NO_CLAIMS = {
    "seed": lambda: hv.privatize(ROWS, epsilon=8.0, generator=seeded()).receipt,
    "float": lambda: hv.privatize(ROWS, epsilon=8.0, mechanism="l2_laplace").receipt,
    "seeded labels": lambda: hv.privatize_labels(["a"], ["a", "b"], epsilon=2.0, generator=seeded()).receipt,
    "no noise": lambda: training(epsilon=None, noise_multiplier=0.0, sigma=0.0, is_dp_claim=False),
    "float sums": lambda: training(grade="float", is_dp_claim=False),
    "changed model": lambda: dataclasses.replace(training(is_dp_claim=False), notes=("the model has changed",)),
    # claims that their own fields contradict, as a forger would write them
    "forged seed": lambda: dataclasses.replace(hv.privatize(ROWS, epsilon=8.0, generator=seeded()).receipt, is_dp_claim=True),
    "forged float": lambda: dataclasses.replace(hv.privatize(ROWS, epsilon=8.0, mechanism="l2_laplace").receipt, is_dp_claim=True),
    "forged training": lambda: training(key_source="seed"),
}


def words(text):
    return " ".join(text.split())


def texts_of_table(thing):
    return words(html.unescape(re.sub(r"<[^>]*>", " ", thing._repr_html_())))


@pytest.mark.parametrize("make", CLAIMS.values(), ids=CLAIMS)
def test_receipts_with_a_claim(make):
    receipt = make()
    text = str(receipt)
    assert "NOT A DP CLAIM" not in text and "  guarantee" in text and f"delta {receipt.delta!r} for" in text
    assert "hushvec.verify_receipt recomputes it" in text and "key from the operating system" in text
    assert float(re.search(r"epsilon ([\d.e+-]+)", text).group(1)) >= receipt.epsilon
    assert 7 <= text.count("\n") <= 15
    for note in receipt.notes:
        assert note in words(text)


@pytest.mark.parametrize("make", NO_CLAIMS.values(), ids=NO_CLAIMS)
def test_receipts_without_a_claim_say_so_first(make):
    receipt = make()
    first, second, *_ = str(receipt).split("\n")
    assert first.endswith(": NOT A DP CLAIM") and second.startswith("  ! ")
    lines = str(receipt).split("\n")
    assert any(re.fullmatch(r"  guarantee +none", line) for line in lines)
    assert "not guaranteed" in words(str(receipt)) and "recomputes it" not in str(receipt)
    if receipt.key_source == "seed":
        assert "! key from a user-given seed: not a DP claim" in str(receipt) and "KEY FROM A USER-GIVEN SEED" in str(receipt)
    if receipt.grade == "float":
        assert "! floating-point: not protected" in str(receipt) and "floating-point, NOT PROTECTED" in str(receipt)


def test_an_empirical_sensitivity_stands_out():
    lines = str(empirical()).split("\n")
    assert lines[0] == "Receipt of noisy vectors"
    assert any(line.startswith("  ! sensitivity ") and "is empirical" in line for line in lines[1:5])
    chosen = str(CLAIMS["empirical"]()).split("\n")
    assert chosen[1] == "  ! sigma was chosen by the caller; epsilon is what it buys at this delta"


def test_a_source_of_scores_stands_out():
    receipt = dataclasses.replace(CLAIMS["labels"](), scores="source", is_dp_claim=False)
    assert str(receipt).split("\n")[1].startswith("  ! scores are the model's own where its label was kept")


@pytest.mark.parametrize("make", [*CLAIMS.values(), *NO_CLAIMS.values()], ids=[*CLAIMS, *NO_CLAIMS])
def test_tables_say_what_print_says(make):
    receipt = make()
    plain = [line.removeprefix("  ! ") for line in str(receipt).split("\n")]
    assert texts_of_table(receipt) == words(" ".join(plain))


def test_a_receipt_is_printed_in_full():
    budget = hv.PrivacyBudget(10.0)
    receipt = hv.privatize(ROWS[:3], epsilon=8.0, budget=budget, normalize=True, renormalize=True).receipt
    assert str(receipt) == (
        "Receipt of noisy vectors\n"
        "  guarantee    epsilon 8.0, delta 1e-05 for one row (every row is another person), replace-one\n"
        "               as the receipt states; hushvec.verify_receipt recomputes it\n"
        "  mechanism    gaussian, sigma 1.20046 in the unit of the rows\n"
        "  rows         3 x 8 float32, brought to length 1 (L2) before the noise\n"
        "  sensitivity  2 (L2): the most that one person can change\n"
        f"  values       exact, on a grid of {receipt.grid:g}; brought to unit length after the noise\n"
        f"  noise        {'AES-256' if receipt.cipher == 'aes256' else 'ChaCha20'}, key from the operating system\n"
        f"  charged      row 2 of ledger {receipt.charge.ledger[:16]}"
    )


def test_releases():
    release = hv.privatize(ROWS, epsilon=8.0)
    lines = str(release).split("\n")
    assert lines[:2] == ["Release of noisy vectors", "  released     numpy float32 400 x 8"]
    assert lines[2:] == str(release.receipt).split("\n")[1:]
    assert repr(release) == "Release(numpy float32 400 x 8, gaussian, is_dp_claim=True)"
    assert "NOT A DP CLAIM" in str(hv.privatize(ROWS, epsilon=8.0, generator=seeded()))
    labels = hv.privatize_labels(["a", "b"], ["a", "b", "c"], epsilon=2.0)
    assert str(labels).startswith("Release of private labels\n  released   2 labels\n")
    assert repr(labels) == "LabelRelease(2 labels, randomized_response, is_dp_claim=True)"
    reports = hv.collect.Vocabulary(["a", "b"], epsilon=1.0).release(["a"])
    assert str(reports).startswith("Release of reports to a collector\n  released    1 report\n")
    values, receipt = release
    assert values is release.values and receipt is release.receipt


@pytest.mark.parametrize("make", [*CLAIMS.values()], ids=[*CLAIMS])
def test_repr_is_one_line(make):
    assert "\n" not in repr(make())


# ---- budgets ----


def test_a_budget(tmp_path):
    with hv.PrivacyBudget(10.0, 1e-3, persist_key="notes", store=tmp_path / "b.sqlite") as budget:
        budget.consume(2.5, 1e-5, purpose="a")
        first, epsilon, delta, charges, *rest = str(budget).split("\n")
        assert first == "Privacy budget 'notes'" and charges == "  charges    1"
        assert epsilon == "  epsilon    2.5 of 10 spent (25 %), 7.5 left"
        assert delta == "  delta      1e-05 of 0.001 spent (1 %), 0.00099 left"
        assert "at most epsilon 10, delta 0.001" in words(" ".join(rest)) and "!" not in str(budget)
        budget.reset()
        assert str(budget).split("\n")[1] == "  ! 1 reset: what was spent before the last one still counts, and is not shown here"
        budget.consume(10.0)
        assert "  ! exhausted: further charges are refused" in str(budget)
        assert texts_of_table(budget) == words(str(budget).replace("  ! ", " "))
    assert str(budget) == "Privacy budget 'notes': closed"


def test_a_budget_that_only_counts_guarantees_nothing():
    budget = hv.PrivacyBudget(max_rho=0.5, on_exhausted="warn")
    text = words(str(budget))
    assert "this ledger only counts and refuses nothing, so its limits guarantee nothing" in text
    assert "guarantee none from the limits" in text and "at most" not in text
    assert hv.PrivacyBudget(1.0, 0.0)._repr_html_().count("<tr>") == 5


# ---- indexes and results ----


def index(**settings):
    made = PrivateIndex(8, **{"documents": VectorNoise(epsilon=8.0), "store": "numpy", **settings})
    made.add(ROWS)
    return made


def test_an_index():
    made = index()
    first, *lines = str(made).split("\n")
    assert first == repr(made) and lines[0].startswith("  documents  privunit, epsilon = 8.0, delta = 0.0 for each row")
    assert "NOT" not in str(made)
    assert str(index(generator=seeded())).split("\n")[1] == "  ! key from a user-given seed: NOT a DP claim"
    bare = index(documents=None)
    assert str(bare).split("\n")[1] == "  ! documents have no protection: answers show who is in the index"
    for line in made.describe()[1:]:
        assert words(line.partition(": ")[2]) in words(str(made))
    assert texts_of_table(made) == words(str(made))


def test_an_evaluation():
    made = index()
    found = evaluate(made, ROWS[:30], np.arange(30), k=(1, 5), resamples=50, clean=ROWS)
    text = str(found)
    assert text.startswith("Evaluation of 30 queries\n  ! measured on the queries")
    for name, estimate in found.metrics.items():
        assert re.search(rf"^  {name} +{re.escape(str(estimate))}", text, re.M)
    assert "bootstrap over queries, 50 resamples" in text
    assert texts_of_table(found) == words(text.replace("  ! ", " "))


def make(epsilon, generator):
    return PrivateIndex(8, documents=VectorNoise(epsilon=epsilon), generator=generator)


def test_attacks():
    attack = membership_inference(lambda generator: make(2.0, generator), ROWS, shadow_models=4, k=1, resamples=50, fprs=(0.01,))
    text = str(attack)
    assert "  ! an attack that fails proves nothing: a stronger one may succeed" in text
    assert f"{attack.auc}; guessing 0.5; the claim allows " in text
    assert "claimed" in text and "epsilon 2.0, delta 0.0" in text and "THE CLAIM IS REFUTED" not in text
    refuted = dataclasses.replace(attack, epsilon_lower=2.5)
    assert "THE CLAIM IS REFUTED" in str(refuted)
    assert "there is no claim to refute" in str(dataclasses.replace(attack, epsilon_claimed=None))

    release = hv.privatize(ROWS, epsilon=8.0, mechanism="privunit")
    inversion = embedding_inversion(release.values, ROWS, receipt=release.receipt, resamples=50)
    assert f"{inversion.identified[1]} of the rows; chance 0.0025; the receipt allows " in str(inversion)

    tuned = tune_epsilon(make, public_documents=ROWS, target_tpr=0.3, fpr=0.05, steps=2, shadow_models=4, k=1, resamples=50)
    assert tuned.note in words(str(tuned)) and "no attack at all can exceed it up to epsilon" in str(tuned)
    for result in (attack, inversion, tuned):
        assert texts_of_table(result) == words(str(result).replace("  ! ", " ")) and str(result).count("\n") < 16


def test_audits():
    result = hv.audit.audit_pair(Gaussian(epsilon=1.0, delta=1e-5, dimension=2), samples=2000)
    result = dataclasses.replace(result, estimate=None, epsilon_lower=0.5)  # whatever this sample says
    assert str(result).startswith("Audit of gaussian\n  claimed ") and "THE CLAIM IS REFUTED" not in str(result)
    assert "THE CLAIM IS REFUTED" in str(dataclasses.replace(result, epsilon_lower=1.5))
    together = hv.audit.Audit(results=(result,), confidence=0.999)
    assert re.search(r"^  pair +", str(together), re.M) and "99.9 % for all methods together" in str(together)


# ---- answers ----


def test_a_verification():
    assert str(hv.verify_receipt(CLAIMS["gaussian"]())) == (
        "Verification: holds\n  reason  (8.0, 1e-05)-DP under replacement of one row follows from the parameters"
    )
    assert str(hv.verify_receipt(NO_CLAIMS["seed"]())).split("\n")[:2] == [
        "Verification: not a DP claim",
        "  ! key from a user-given seed: not a DP claim",
    ]
    refused = hv.verify_receipt(dataclasses.replace(CLAIMS["gaussian"](), epsilon=0.5))
    assert str(refused).split("\n")[0] == "Verification: does not hold" and f"  ! {refused.reasons[0]}"[:60] in str(refused)
    status, reasons = refused
    assert (status, reasons) == (refused.status, refused.reasons) and repr(refused).startswith("Verification(status='does not hold'")


def test_a_composition():
    together = compose([GaussianDP(noise_multiplier=4.0)] * 4, delta=1e-5)
    first, second, third, *rest = str(together).split("\n")
    assert (first, second) == ("Composition of 4 releases", "  together  epsilon 1.99310, delta 1e-05, replace-one")
    assert third == "  gaussian  epsilon 1.99310, delta 1e-05" and len(rest) == 7
    assert float(re.search(r"epsilon ([\d.]+)", second)[1]) >= together.epsilon
    worthless = compose([PureDP(epsilon=5.0)] * 2, epsilon=0.001)
    assert worthless.delta < 1 and "guarantees nothing" not in str(worthless)
    assert str(dataclasses.replace(worthless, delta=1.0)).split("\n")[1] == "  ! delta is 1, so this guarantees nothing"
    assert str(compose([PureDP(epsilon=1.0)])).startswith("Composition of 1 release\n")


def test_a_recommendation():
    found = hv.recommend(384, 8.0)
    first, header, best, *rest = str(found).split("\n")
    assert first == "Recommended for task 'retrieval': privunit"
    assert header == "  mechanism   epsilon  delta  grade  expected cosine  noise norm"
    assert best == "  privunit          8      0  exact           0.1386       7.144"
    assert rest[3] == "  l2_laplace  no claim: computed in floating point" and len(rest) == 7
    assert words(str(found)).endswith(f"why {found.why}")


def test_a_search():
    made = PrivateIndex(8, queries=VectorNoise(epsilon=8.0), store="numpy")
    made.add(ROWS, [f"n{number}" for number in range(400)])   # short: a line that is too long is broken in two
    found = made.search(ROWS[:9], k=7)
    first, *queries, more, noise, scores = str(found).split("\n")
    assert first == "Search: 9 queries, the best 7 rows each" and len(queries) == 4
    ids, values = found.ids[1].tolist(), found.scores[1].tolist()
    told = ", ".join(f"{one} ({value:.3g})" for one, value in zip(ids[:5], values))
    assert queries[1] == f"  query 1      {told}, 2 more"
    assert (more, noise) == ("  ...          5 more queries", "  query noise  privunit, epsilon 72.0, delta 0.0 for this search")
    assert scores == "  score noise  none"
    one = words(str(made.search(ROWS[:1], k=20)))
    assert one.startswith("Search: 1 query, the best 20 rows query 0 ") and one.count("(") == 15 and ", 5 more" in one
    assert words(str(made.search(ROWS[:1], k=1, among=[]))).startswith("Search: 1 query, the best 0 rows query 0 no rows")


def test_a_search_says_what_its_noise_is_worth():
    answer = index(documents=None, scores=ScoreNoise(epsilon=1.0, mechanism="gumbel"), generator=seeded()).search(ROWS[:1], k=3)
    ids = ", ".join(map(str, answer.ids[0].tolist()))
    assert str(answer).split("\n")[1:] == [
        f"  query 0      {ids}",
        "  query noise  none",
        "  score noise  gumbel_top_k, epsilon 1.0, delta 0.0 for this search; NOT A DP CLAIM",
    ]


ANSWERS = {
    "verification": lambda: hv.verify_receipt(NO_CLAIMS["seed"]()),
    "composition": lambda: compose([GaussianDP(noise_multiplier=4.0)] * 4, delta=1e-5),
    "recommendation": lambda: hv.recommend(384, 8.0),
    "search": lambda: index().search(ROWS[:9], k=30),
}


@pytest.mark.parametrize("make", ANSWERS.values(), ids=ANSWERS)
def test_answers_take_ten_lines_and_tables_say_the_same(make):
    answer = make()
    assert str(answer).count("\n") < 10
    assert texts_of_table(answer) == words(str(answer).replace("  ! ", " "))


def test_ids_are_escaped():
    made = PrivateIndex(8, documents=VectorNoise(epsilon=8.0), store="numpy")
    made.add(ROWS[:1], ["<b>\x1b[31m"])
    found = made.search(ROWS[:1], k=1)
    assert "<b>\\x1b[31m (" in str(found) and "&lt;b&gt;" in found._repr_html_() and "<b>" not in found._repr_html_()
