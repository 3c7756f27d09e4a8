"""Private collection: each person randomizes the words to report, and the collector estimates how common they are.

    from hushvec.collect import Vocabulary
    vocabulary = Vocabulary(words, epsilon=2.0)
    sketch = vocabulary.sketch()
    sketch.add(vocabulary.report("insulin"))       # on a device; the collector adds what arrives
    sketch.estimate().present(alpha=0.05)

`Vocabulary` is for a public dictionary, `BloomFilter` (RAPPOR) for words that are only guessed later. docs/collect.md shows which
mechanism does what; docs/proofs/frequency_oracles.md and docs/proofs/rappor.md prove the stated epsilon.
"""

from hushvec._util.statistics import CORRECTIONS
from hushvec.collect.bloom import BloomFilter, BloomReports, BloomSketch
from hushvec.collect.estimate import WordFrequencies
from hushvec.collect.memo import Memo, MemoError
from hushvec.collect.oracles import MECHANISMS
from hushvec.collect.release import ReportRelease
from hushvec.collect.sketch_bytes import SketchError
from hushvec.collect.vocabulary import OTHER, Sketch, Vocabulary

__all__ = [
    "CORRECTIONS", "MECHANISMS", "OTHER", "BloomFilter", "BloomReports", "BloomSketch", "Memo", "MemoError", "ReportRelease",
    "Sketch", "SketchError", "Vocabulary", "WordFrequencies",
]
