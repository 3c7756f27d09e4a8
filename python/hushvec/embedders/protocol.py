"""The protocol of an embedding model: `embed(texts, kind="document" | "query")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

Kind = Literal["document", "query"]
KINDS: tuple[Kind, ...] = ("document", "query")


@runtime_checkable
class EmbeddingModel(Protocol):
    """What a wrapped model is, and what it needs of the one it wraps.

    `embed` answers texts [n] with rows [n, d]: an array, or anything that hushvec.embedders.answers reads. It may leave `kind` out.
    Optional attributes: `model_id` (str), `dimension` (int), `norm_bound` (float: no row is longer, in L2; None if there is no such
    bound), `aembed` (the same as `embed`, a coroutine).
    """

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> Any:
        """Rows for texts."""
