"""hushvec's rewriting as the studies run it: one setting, many texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushvec import Generator
from hushvec.text import Chunking, Rewriter
from hushvec.text.corpus import PublicCorpus
from hushvec.text.inverters.public import PublicInverter
from hushvec.text.rewriting.chunks import TokenPieces

DELTA = 1e-3
CLIP_NORM = 1.0  # of MiniLM's unit vectors
TOKENS = 32


@dataclass(frozen=True)
class Setting:
    """What is asked of `Rewriter`."""

    mechanism: str
    level: str
    epsilon: float
    composition: str = "joint"
    clip_norm: float = CLIP_NORM

    @property
    def label(self):
        """The Gaussian mechanism with its composition where there is more than one chunk."""
        return (
            f"{self.mechanism}, {self.composition}" if self.mechanism == "gaussian" and self.level == "chunk" else self.mechanism
        )

    @property
    def delta(self):
        return DELTA if self.mechanism == "gaussian" and math.isfinite(self.epsilon) else 0.0

    def rewriter(self, embedder, inverter, seed):
        return Rewriter(
            epsilon=self.epsilon,
            delta=DELTA,
            clip_norm=self.clip_norm,
            chunking=Chunking(level=self.level, max_length=TOKENS, composition=self.composition),
            generator=Generator.unsafe_seeded(seed),
            embedder=embedder,
            inverter=inverter,
            mechanism=self.mechanism,
        )


def rewritten(
    texts: Sequence[str], setting: Setting, embedder: Any, inverter: PublicInverter, seed: int
) -> tuple[list[str], float]:
    """(outputs, mean number of chunks)."""
    results = list(setting.rewriter(embedder, inverter, seed).rewrite_all(texts))
    return [one.output for one in results], float(np.mean([one.n_chunks for one in results]))


def shipped(model):
    return PublicInverter(PublicCorpus.shipped(model))


def whole(texts: Sequence[str], model: Any) -> PublicInverter:
    return PublicInverter(PublicCorpus.from_texts(texts, model))


def pieces(texts, model):
    """Decoding to pieces of public texts, cut as private ones are: for chunks."""
    cut = TokenPieces(TOKENS, model.tokenizer)
    return PublicInverter(PublicCorpus.from_texts([piece for text in texts for piece in cut(text)], model))
