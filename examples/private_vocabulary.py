"""New words from many devices, privately: a vocabulary, and a Bloom filter for words in no list."""

import tempfile
from pathlib import Path

import numpy as np

from hushvec.collect import BloomFilter, Memo, Sketch, Vocabulary

candidates = ["metformin", "insulin", "statin", "ibuprofen", "warfarin", *(f"term{i}" for i in range(195))]
vocabulary = Vocabulary(candidates, epsilon=2.0, unknown="other")
print(*vocabulary.describe(), sep="\n")

# One device. The memo keeps its secret: the same word gives the same report, however often it is sent.
with tempfile.TemporaryDirectory() as folder:
    memo = Memo.open(Path(folder) / "memo")
    release = vocabulary.release("insulin", per="release", memo=memo)
    again = vocabulary.report("insulin", per="release", memo=memo)
    print("repeated report is the same:", bool((release.reports == again).all()), "- epsilon", release.receipt.epsilon)

# 50,000 devices, two collectors, one result.
people = np.random.default_rng(0).choice(candidates[:5], size=50_000, p=[0.4, 0.3, 0.2, 0.07, 0.03])
first, second = vocabulary.sketch(), vocabulary.sketch()
first.add(vocabulary.report(people[:20_000]))
second.add(vocabulary.report(people[20_000:]))
first.merge(Sketch.from_bytes(second.to_bytes(), vocabulary))
estimate = first.estimate()
for word, share, error in estimate.top(4):
    print(f"{word:10} {share:6.1%} +- {error:.1%}   (true {np.mean(people == word):.1%})")
print("surely there:", ", ".join(estimate.present(alpha=0.01)))

# Words that are in no dictionary are reported through a Bloom filter; candidates are tested later.
filter_ = BloomFilter(64, 2, epsilon=6.0, p=0.25, q=0.75, cohorts=16)
print(*filter_.describe(), sep="\n")
sketch = filter_.sketch()
sketch.add(filter_.report(np.where(people == "statin", "semaglutide", people)))
decoded = sketch.decode(["metformin", "insulin", "semaglutide", "placebo"])
print("guessed and found:", ", ".join(decoded.present()), f"- other words {decoded.unknown:.0%}")
