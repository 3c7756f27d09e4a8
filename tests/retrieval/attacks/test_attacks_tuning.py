"""Bisection to the largest epsilon that an attack does not break."""

import json

import numpy as np
import pytest

from hushvec.retrieval.attacks.bounds import membership_bound
from hushvec.retrieval.attacks.membership import tune_epsilon
from retrieval.attacks.small_indexes import OnDocuments, Plain, directions

POOL = directions(1000, 8)
QUICK = dict(attack="released", k=1, shadow_models=2, resamples=100, fpr=0.01)


def on_documents(epsilon, generator):
    return OnDocuments(generator, epsilon=epsilon, mechanism="privunit")


def test_the_answer_meets_the_limit_and_the_next_one_does_not():
    """n = 500 + 500; the limit is 0.1 at an fpr of 0.01."""
    tuned = tune_epsilon(on_documents, POOL, target_tpr=0.1, low=0.5, high=64.0, steps=6, **QUICK)
    epsilons = [trial.epsilon for trial in tuned.trials]
    assert epsilons == sorted(epsilons) and len(epsilons) == 6 and (epsilons[0], epsilons[-1]) == (0.5, 64.0)
    met = [trial.epsilon for trial in tuned.trials if trial.meets]
    assert tuned.epsilon == max(met)
    above = min(trial.epsilon for trial in tuned.trials if trial.epsilon > tuned.epsilon)
    # four halvings of the logarithm of 128
    assert above / tuned.epsilon == pytest.approx(128 ** (1 / 16))
    for trial in tuned.trials:
        assert trial.meets == (trial.tpr.high <= 0.1)
        assert trial.result.epsilon_claimed == trial.epsilon


def test_what_is_proven_is_smaller_and_holds():
    tuned = tune_epsilon(on_documents, POOL, target_tpr=0.1, steps=2, **QUICK)
    assert 0 < tuned.epsilon_proven < 2.31
    assert membership_bound(tuned.epsilon_proven, 0.0, 0.01) <= 0.1


def test_every_look_has_its_share_of_the_confidence():
    tuned = tune_epsilon(on_documents, POOL, target_tpr=0.1, steps=3, confidence=0.94, **QUICK)
    assert {round(trial.tpr.confidence, 12) for trial in tuned.trials} == {0.98}


def test_met_everywhere():
    class Silent(Plain):
        def vectors(self):
            return np.zeros_like(self.rows)

    tuned = tune_epsilon(lambda epsilon, generator: Silent(generator), POOL, target_tpr=0.2, **QUICK)
    assert tuned.epsilon == 64.0 and len(tuned.trials) == 1


def test_met_nowhere():
    tuned = tune_epsilon(lambda epsilon, generator: Plain(generator), POOL, target_tpr=0.1, **QUICK)
    assert tuned.epsilon is None and [trial.epsilon for trial in tuned.trials] == [0.1, 64.0]


def test_utility_decides_among_those_that_meet_the_limit():
    seen = []

    def utility(epsilon):
        seen.append(epsilon)
        return -epsilon

    tuned = tune_epsilon(on_documents, POOL, target_tpr=0.1, low=0.5, steps=4, utility=utility, **QUICK)
    met = [trial.epsilon for trial in tuned.trials if trial.meets]
    assert tuned.epsilon == min(met) == 0.5 and sorted(seen) == met
    assert all(trial.utility == (-trial.epsilon if trial.meets else None) for trial in tuned.trials)


def test_one_private_row_moves_the_answer_and_the_result_says_so():
    """120 rows with their own vectors as queries: negating one row moves what comes out, for some rows by a factor of 7 and more."""

    def tuned_with_negated(row):
        rows = directions(120, 8)
        rows[row] *= -1
        return tune_epsilon(on_documents, rows, **(QUICK | {"fpr": 0.05}), target_tpr=0.25, confidence=0.5, steps=6)

    found = [tuned_with_negated(row) for row in range(8)]
    assert len({tuned.epsilon for tuned in found}) > 1
    for tuned in found:
        assert tuned.tuned_on == tuned.to_dict()["tuned_on"] == "private documents"
        shown = " ".join(str(tuned).split())  # lines are wrapped
        assert "no receipt covers that" in tuned.note and tuned.note in shown and tuned.note == tuned.to_dict()["note"]


def test_other_peoples_documents_are_named_as_such():
    private = tune_epsilon(on_documents, POOL, target_tpr=0.1, steps=2, **QUICK)
    public = tune_epsilon(on_documents, public_documents=POOL, target_tpr=0.1, steps=2, **QUICK)
    assert public.epsilon == private.epsilon and [one.tpr for one in public.trials] == [one.tpr for one in private.trials]
    assert public.tuned_on == "public documents" and "calls public" in str(public)


@pytest.mark.parametrize(("given", "got"), [({}, "neither"), ({"documents": POOL, "public_documents": POOL}, "both")])
def test_documents_are_private_or_public(given, got):
    with pytest.raises(TypeError, match=rf"one of documents \(private\) and public_documents must be given, got {got}"):
        tune_epsilon(on_documents, target_tpr=0.1, **given, **QUICK)


def test_ready_for_json():
    tuned = tune_epsilon(on_documents, POOL, target_tpr=0.1, steps=2, **QUICK)
    again = json.loads(json.dumps(tuned.to_dict()))
    assert again["epsilon"] == tuned.epsilon and len(again["trials"]) == 2


@pytest.mark.parametrize(
    "change,words",
    [
        (dict(target_tpr=0.01), "target_tpr must be > fpr = 0.01 and < 1, got 0.01: guessing reaches fpr"),
        (dict(target_tpr=1.0), "target_tpr must be > fpr = 0.01 and < 1, got 1.0: guessing reaches fpr"),
        (dict(fpr=0.0), "fpr must be > 0 and < 1, got 0.0"),
        (dict(low=64.0), "low must be < high = 64.0, got 64.0"),
        (dict(low=0.0), "low must be > 0, got 0.0"),
        (dict(steps=1), "steps must be >= 2, got 1"),
        (dict(confidence=1.0), "confidence must be > 0 and < 1, got 1.0"),
        (dict(attack="guess"), "attack must be one of 'logistic', 'likelihood', 'released', got 'guess'"),
        (
            dict(target_tpr=0.005, fpr=0.001),
            "target_tpr must be >= 0.0115 to be shown with 500 members, got 0.005: ask for more documents or target_models",
        ),
    ],
)
def test_bad_values(change, words):
    with pytest.raises(ValueError) as caught:
        tune_epsilon(on_documents, POOL, **(QUICK | {"target_tpr": 0.1} | change))
    assert str(caught.value) == words


def test_an_argument_that_no_attack_has_is_refused_before_an_index_is_made():
    with pytest.raises(TypeError, match="unexpected keyword argument 'shadow_model'"):
        tune_epsilon(lambda epsilon, generator: pytest.fail("made"), POOL, target_tpr=0.1, shadow_model=4, **QUICK)
