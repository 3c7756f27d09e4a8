"""What many people write about, what grew, and texts that stand for theirs: at epsilon 1 and 2, by 320 public sentences."""

import numpy as np

import hushvec as hv
from hushvec.aggregates import PublicTopics, TopicPeriods, private_snapshot, private_topics
from hushvec.data import private_note_vectors, public_sentence_vectors, public_sentences

# 4,000 people a week, each with one of 80 notes; in the second week twice as many have one of the first eight.
rng, notes = np.random.default_rng(0), private_note_vectors()
often = np.ones(80) / 80
monday = notes[rng.choice(80, 4000, p=often)]
often[:8] *= 2
friday_notes = rng.choice(80, 4000, p=often / often.sum())
friday = notes[friday_notes]

# Topics are made of public sentences; each person's note votes for the nearest.
pool = PublicTopics.fit(public_sentence_vectors(), texts=public_sentences(), topics=16)
before = private_topics(monday, pool=pool, epsilon=1.0, delta=1e-5)
after = private_topics(friday, pool=pool, epsilon=1.0, delta=1e-5)
print(after.growth(before))

# One release of all that may be handed out: topics, principal components, a classifier, and public sentences in place of the notes.
kinds = np.where(friday_notes < 20, "clinic", "elsewhere")
public = {"pool": public_sentence_vectors(), "texts": public_sentences(), "topics": 16}
made = private_snapshot(friday, kinds, labels=["clinic", "elsewhere"], epsilon=2.0, delta=1e-5, **public)
for text, label, weight in zip(made.stand_ins.texts[:5], made.stand_ins.labels, made.stand_ins.weights):
    print(f"{weight:6.1%}  {label:9}  {text}")
print("the classifier is right for", f"{made.classifier.score(friday, kinds):.0%}", "of the notes")
print(*hv.verify_receipt(made.receipt).reasons)

# A year of weekly reports under one epsilon: totals have a third of the noise of 52 reports with a part of it each.
weeks = TopicPeriods(pool, 52, epsilon=1.0, delta=1e-5)
for _ in range(52):
    weeks.report(notes[rng.choice(80, 100)])
print(f"noise of a count: one week {weeks.between(52, 52).sigma:.1f}, the year {weeks.between(1, 52).sigma:.1f}")
