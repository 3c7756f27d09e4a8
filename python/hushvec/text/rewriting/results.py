"""The result of rewriting: the text, its parts, and the guarantee."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from hushvec.receipts import LabelReceipt, Receipt


@dataclass(frozen=True)
class RewrittenSpan:
    """One part of the original text with its output. Together the texts of all spans are the original.

    Args:
        text: of the original; private. Empty for a chunk that only fills up to max_chunks.
        is_pii: a find of the redactor.
        category: of the find, else None.
        placeholder: that stands for the find in the output, else None.
        rewritten: what the noisy vector of the chunk was inverted to; None for finds, for parts without a letter or digit, and for all
            but the first of joined chunks.
        chunk_idx: number of the chunk, from 0; None for finds and for parts without a letter or digit, which are dropped.
    """

    text: str = field(repr=False)
    is_pii: bool
    category: str | None
    placeholder: str | None
    rewritten: str | None
    chunk_idx: int | None


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """A rewritten text with its receipt. `output`, `dp_line` and `receipt` may be published; `original` and `spans` are private
    and not in `repr`.

    Args:
        original: the text that went in.
        output: placeholders and rewritten chunks in the order of the text, with max_chunks all chunks before all placeholders; for
            level "document" one rewritten text.
        spans: the parts of the original, and chunks that fill up to max_chunks.
        epsilon_total, delta_total: for all chunks of the document together; infinity without noise, 0 without chunks.
        epsilon_per_chunk, delta_per_chunk: what the release of one chunk alone guarantees. They add up to the total for
            composition "basic" and for pure mechanisms; a joint Gaussian release is better than the sum of its parts.
        noise_sigma: of Gaussian noise as calibrated (privunit: across the direction), 0.0 without noise, None for other mechanisms.
            The noise as used has this number rounded up to a float32, `receipt.sigma`.
        scale: of Laplace noise as used, else None.
        n_chunks: K, rows that were released; max_chunks if that was given.
        clip_norm: C.
        mechanism, composition, level: as asked for.
        receipt: of the release; None without noise or without chunks, when there is no guarantee or no release.
    """

    original: str = field(repr=False)
    output: str
    spans: tuple[RewrittenSpan, ...] = field(repr=False)
    epsilon_total: float
    delta_total: float
    epsilon_per_chunk: float
    delta_per_chunk: float
    noise_sigma: float | None
    scale: float | None
    n_chunks: int
    clip_norm: float
    mechanism: str
    composition: str
    level: str
    receipt: Receipt | LabelReceipt | None

    @property
    def sigma(self) -> float:
        """`noise_sigma` for printing: nan where the mechanism adds no Gaussian noise, as randomized response and Laplace noise do."""
        return math.nan if self.noise_sigma is None else self.noise_sigma

    @property
    def dp_line(self) -> str:
        """One line of parameters to publish with the output."""
        line = (
            f"[DP] eps_total={self.epsilon_total} delta_total={self.delta_total} K={self.n_chunks} "
            f"eps/chunk={self.epsilon_per_chunk:.4f} {self._noise} clip={self.clip_norm}"
        )
        if self.mechanism != "gaussian":
            line += f" mechanism={self.mechanism}"
        if math.isinf(self.epsilon_total):
            line += " (no noise: nothing is guaranteed)"
        elif self.receipt is not None and not self.receipt.is_dp_claim:
            line += f" (not a DP claim: {'float grade' if self.receipt.grade == 'float' else 'seeded key'})"
        return line

    @property
    def _noise(self) -> str:
        if isinstance(self.receipt, LabelReceipt):
            return f"texts={self.receipt.label_count}"
        return f"sigma={self.noise_sigma or 0.0:.4f}" if self.scale is None else f"scale={self.scale:.4f}"

    def to_dict(self, *, private: bool = True) -> dict[str, Any]:
        """Ready for JSON; an infinite epsilon is the string "inf". `private` includes the original text and the spans."""
        account = {_WRITTEN.get(name, name): getattr(self, name) for name in _ACCOUNT}
        account |= {name: "inf" for name in ("epsilon_total", "epsilon_per_chunk") if math.isinf(account[name])}
        account["receipt"] = None if self.receipt is None else self.receipt.to_dict()
        if not private:
            return {"output": self.output, **account}
        return {"original": self.original, "output": self.output, "spans": [asdict(span) for span in self.spans], **account}


_ACCOUNT = (
    *("epsilon_total", "delta_total", "epsilon_per_chunk", "delta_per_chunk", "noise_sigma", "scale", "clip_norm", "n_chunks"),
    *("mechanism", "composition", "level", "dp_line"),
)
_WRITTEN = {"noise_sigma": "sigma", "clip_norm": "clip_radius"}  # where the name in JSON is another
