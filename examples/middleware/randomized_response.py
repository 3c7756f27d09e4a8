"""Labels instead of vectors: randomized response, by hand and around a classifier."""

import hushvec as hv

LABELS = ["positive", "negative", "neutral"]

# High epsilon: almost always the truth. Low epsilon: any of the three.
print("epsilon 10: ", hv.randomized_response("positive", LABELS, 10.0))
print("epsilon 0.5:", hv.randomized_response("positive", LABELS, 0.5))


def sentiment(texts):
    """A toy classifier: (label, score) for each text."""
    return [("positive", 0.9) if "glad" in text else ("negative", 0.8) for text in texts]


private = hv.wrap_classification_model(sentiment, hv.dp_classification_middleware(epsilon=2.0, labels=LABELS))
answers = private.classify(["I am so glad you came.", "The train was late again."])
for answer in answers:
    # The score is the same for kept and for flipped answers: the model's score would reveal which of the two it was.
    print(f"{answer.label}: {answer.score:.3f}, all scores {answer.all_scores}")
print("receipt:", answers.receipt.mechanism, answers.receipt.epsilon)
