"""Private labels: a classifier with private answers, its budget, and how a kept score would reveal them."""

import hushvec as hv
from hushvec.middleware import dp_classification_middleware, wrap_classification_model

MOODS = ["calm", "glad", "tired"]
CUES = {"slept": "calm", "quiet": "calm", "won": "glad", "friends": "glad", "late": "tired", "again": "tired"}


def mood_of(text):
    """A toy classifier: the mood with most cue words, and their share as the score."""
    found = [CUES[word] for word in text.lower().split() if word in CUES] or ["calm"]
    mood = max(MOODS, key=found.count)
    return mood, found.count(mood) / len(found)


diary = ["Late again and the bus was late", "We won and friends came over", "A quiet day", "Slept well at last"]

budget = hv.PrivacyBudget(max_epsilon=5.0)
model = wrap_classification_model(mood_of, dp_classification_middleware(epsilon=2.0, labels=MOODS, budget=budget))
answers = model.classify(diary)
for text, answer in zip(diary, answers):
    print(f"{answer.label:6} (score {answer.score:.3f})  <- {text}")
print("receipt:", *hv.verify_receipt(answers.receipt).reasons, "| budget left:", budget.remaining())

# One person's whole diary as one unit of privacy: every answer gets a quarter of epsilon.
model = wrap_classification_model(mood_of, dp_classification_middleware(epsilon=2.0, labels=MOODS, per="release"))
receipt = model.classify(diary).receipt
print(f"one person: an answer is true with probability {receipt.truth_values / 2**64:.3f}, {hv.verify_receipt(receipt).status}")

# scores="source" keeps the classifier's score on true answers: reading the score undoes the noise.
model = wrap_classification_model(mood_of, dp_classification_middleware(epsilon=2.0, labels=MOODS, scores="source"))
answers = model.classify(diary * 250)
known = sum(answer.score != 1 / len(MOODS) for answer in answers)
print(f"scores='source': {known} of {len(answers)} answers are known to be true by their score")
print("its receipt:", hv.verify_receipt(answers.receipt).status)
