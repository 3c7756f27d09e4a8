"""A private question to a public index, on two machines: what is sent, what comes back, and how the asker ranks it."""

import numpy as np

import hushvec as hv
from hushvec.retrieval import Candidates, PrivateIndex, PrivateQuery, Question

rng = np.random.default_rng(7)
topics = rng.standard_normal((60, 64))
documents = (topics[rng.integers(60, size=3000)] + 0.7 * rng.standard_normal((3000, 64))).astype(np.float32)
questions = (documents[:40] + 0.4 * rng.standard_normal((40, 64))).astype(np.float32)

# The holder: public documents in an index without noise (any other vector store works).
index = PrivateIndex(64, store="numpy")
index.add(documents)

# The asker: a codebook of public rows, and a budget for one person's questions.
budget = hv.PrivacyBudget(max_epsilon=400.0)
asker = PrivateQuery(documents, epsilon=8.0, fetch=100, budget=budget)
print("\n".join(asker.describe()))

found = 0
for number, question in enumerate(questions):
    sent = asker.ask(question).to_json()  # to the holder
    returned = PrivateQuery.answer_for(Question.from_json(sent), index).to_json()  # back to the asker
    answer = asker.rank(question, Candidates.from_json(returned), k=10)
    found += number in answer.ids
print(f"{found} of {len(questions)} questions find their document among the first ten; spent {budget.consumed():g}")

again = asker.search(questions[0], index)  # answered from the asker's own copy: nothing is sent or charged
print(f"asking the first one again: {budget.consumed():g}, ids {again.ids[:3]}")
