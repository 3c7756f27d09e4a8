"""A budget over embeddings: charged by each call, refused or warned about when it is spent."""

import warnings

import hushvec as hv
from hushvec.errors import PrivacyBudgetWarning
from hushvec.text import MiniLMEmbedder

base_model = MiniLMEmbedder()

budget = hv.PrivacyBudget(max_epsilon=10.0, on_exhausted="block")   # persist_key="medical-notes" keeps it on disk
private_model = hv.wrap_embedding_model(base_model, hv.dp_embedding_middleware(epsilon=1.0, budget=budget))

private_model.embed(["record 1"])
print("remaining", budget.remaining())
private_model.embed(["record 2"])
print("remaining", budget.remaining())

# A batch of texts about different people costs as much as one of them; about one person, per="release".
private_model.embed(["record 3", "record 4", "record 5"])
print("remaining", budget.remaining())

# Charged by hand, for a release made elsewhere.
budget.consume(1.0)
print("remaining", budget.remaining(), "consumed", budget.consumed(), "exhausted", budget.is_exhausted())

# At the end of a period. Earlier losses still count: periods add up.
budget.reset()
print("after reset", budget.remaining())

# "warn": the operation continues and is still counted.
warned = hv.PrivacyBudget(max_epsilon=5.0, on_exhausted="warn")
warned.consume(5.0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", PrivacyBudgetWarning)
    warned.consume(1.0)
print("warning:", caught[0].message)

# "block": exactly the rest may be spent; the next charge raises and changes nothing.
blocked = hv.PrivacyBudget(max_epsilon=5.0, on_exhausted="block")
blocked.consume(5.0)
try:
    blocked.consume(1.0)
except hv.PrivacyBudgetExhaustedError as error:
    print(error.code, error.max_epsilon, error.consumed_epsilon)
    print("hint:", error.hint)

# The middleware refuses before anything is released.
private_model = hv.wrap_embedding_model(base_model, hv.dp_embedding_middleware(epsilon=1.0, budget=blocked))
try:
    private_model.embed(["one record too many"])
except hv.PrivacyBudgetExhaustedError as error:
    print("refused:", error.code)
