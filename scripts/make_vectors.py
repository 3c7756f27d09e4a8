"""Write python/hushvec/data/minilm.npy: the shipped notes and sentences as all-MiniLM-L6-v2 vectors, so that the demo needs no model.

    python scripts/make_vectors.py      # needs '.[text]'

int8[400, 384]: 80 notes, then 320 sentences, each row divided by its largest element and multiplied by 127; what reads them makes
rows of unit length again. Processors add in different orders, so an element may differ by one; tests/data/test_vectors.py compares
the file with the model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hushvec.data import private_notes, public_sentences
from hushvec.text import MiniLMEmbedder

TARGET = Path(__file__).resolve().parents[1] / "python" / "hushvec" / "data" / "minilm.npy"


def main() -> None:
    vectors = MiniLMEmbedder().embed([*private_notes(), *public_sentences()])
    np.save(TARGET, np.rint(vectors * (127 / np.abs(vectors).max(axis=1, keepdims=True))).astype(np.int8))


if __name__ == "__main__":
    main()
