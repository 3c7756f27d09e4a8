"""An adversary who reads everything that an answer carries, against what the receipts claim.

The pair audit of hushvec.audit: 20,000 answers for each of two inputs, Clopper-Pearson bounds, so that a mechanism that keeps its
claim is flagged with probability at most alpha = 1e-6 a test. Every answer is reduced to its label and to whether it carries
anything beside the public score.
"""

import numpy as np
import pytest

import hushvec as hv
from hushvec.audit import LabelTarget, audit_pair
from hushvec.middleware import Classification, Classifications, dp_classification_middleware, wrap_classification_model
from hushvec.middleware.classification import ClassificationMiddleware

SAMPLES = 20_000
ALPHA = 1e-6


def confident_model(k):
    """Input i has label i with score 0.97."""
    everything = [{"label": label, "score": 0.97 if label == 0 else 0.03 / (k - 1)} for label in range(k)]

    def classify(inputs):
        return [[{**one, "label": (one["label"] + i) % k} for one in everything] for i in inputs]

    return classify


def attack(middleware, k, epsilon, samples=SAMPLES):
    """Audit of the wrapped model: outputs are the numbers of (label, does it carry more than the public score?)."""
    model = wrap_classification_model(confident_model(k), middleware)

    def answer(inputs, generator):
        answers = model.classify(inputs.tolist())
        return [one.label + k * (one.score != 1 / k or one.all_scores is not None) for one in answers]

    target = LabelTarget(answer, labels=k, epsilon=epsilon)
    return audit_pair(target, samples=samples, confidence=1 - ALPHA)


# 0.7 * epsilon lies 7 or more standard deviations of epsilon_lower below its mean (20,000 samples at epsilon = 0.5: 3).
@pytest.mark.parametrize(("k", "epsilon", "samples"), [(2, 0.5, 40_000), (3, 1.0, 20_000), (10, 2.0, 20_000)])
def test_uniform_scores_keep_their_claim(k, epsilon, samples):
    middleware = dp_classification_middleware(epsilon=epsilon, labels=range(k))
    result = attack(middleware, k, epsilon, samples)
    assert result.could_flag
    assert not result.flagged
    assert result.epsilon_lower > 0.7 * epsilon  # the adversary does see what epsilon allows


@pytest.mark.parametrize(("k", "epsilon"), [(2, 0.5), (3, 1.0), (10, 2.0)])
def test_source_scores_beat_any_epsilon_of_their_labels(k, epsilon):
    middleware = dp_classification_middleware(epsilon=epsilon, labels=range(k), scores="source")
    result = attack(middleware, k, epsilon)
    assert result.flagged
    # a kept score under one input never comes under the other: only the number of samples ends the bound
    assert result.epsilon_lower > 4.5
    receipt = wrap_classification_model(confident_model(k), middleware).classify([0]).receipt
    assert not receipt.is_dp_claim


class KeepsTheScore(ClassificationMiddleware):
    """Mutant: the original score stays on kept labels, as under "source", with the receipt of "uniform"."""

    def release(self, answers):
        codes = self.plan.codes(answers.labels, "labels")
        drawn, receipt = self.plan.release(codes)
        scores = [said.score if code == kept else 1 / 3 for said, code, kept in zip(answers.in_full, codes, drawn)]
        return Classifications([Classification(label, score) for label, score in zip(self.plan.named(drawn), scores)], receipt)


class KeepsAllScores(ClassificationMiddleware):
    """Mutant: the score is public, but all_scores is cleared on flipped answers only."""

    def release(self, answers):
        codes = self.plan.codes(answers.labels, "labels")
        drawn, receipt = self.plan.release(codes)
        every = [said.all_scores if code == kept else None for said, code, kept in zip(answers.in_full, codes, drawn)]
        return Classifications([Classification(label, 1 / 3, one) for label, one in zip(self.plan.named(drawn), every)], receipt)


class NeverFlips(ClassificationMiddleware):
    """Mutant: the drawn answers are thrown away."""

    def release(self, answers):
        codes = self.plan.codes(answers.labels, "labels")
        _, receipt = self.plan.release(codes)
        return Classifications([Classification(label, 1 / 3) for label in self.plan.named(codes)], receipt)


@pytest.mark.parametrize("mutant", [KeepsTheScore, KeepsAllScores, NeverFlips])
def test_a_middleware_that_claims_too_much_is_caught(mutant):
    plan = dp_classification_middleware(epsilon=1.0, labels=range(3)).plan
    middleware = mutant(plan)
    claimed = wrap_classification_model(confident_model(3), middleware).classify([0]).receipt
    assert claimed.is_dp_claim
    assert hv.verify_receipt(claimed).status == "holds"
    assert attack(middleware, 3, 1.0).flagged
    assert not attack(ClassificationMiddleware(plan), 3, 1.0).flagged


def test_one_person_with_several_inputs_is_held_to_one_epsilon():
    """per="release": two answers about one person, (0, 0) against (2, 2), together within epsilon = 1; per="record" is not."""

    def attack_on_two(per):
        middleware = dp_classification_middleware(epsilon=1.0, labels=range(3), per=per)
        model = wrap_classification_model(lambda codes: list(codes), middleware, takes="batch")

        def answer(inputs, generator):
            if per == "record":
                answered = np.array(model.classify(np.repeat(inputs, 2)).labels).reshape(-1, 2)
            else:
                answered = np.array([model.classify([code, code]).labels for code in inputs.tolist()])
            return answered[:, 0] * 3 + answered[:, 1]

        return audit_pair(LabelTarget(answer, labels=3, epsilon=1.0), samples=SAMPLES // 2, confidence=1 - ALPHA)

    assert not attack_on_two("release").flagged
    assert attack_on_two("record").flagged
