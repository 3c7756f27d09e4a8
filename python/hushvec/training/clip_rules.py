"""Rows scaled before the exact sum clips them, each by public numbers and its own norms alone (docs/proofs/dp_sgd.md).

Parts of a row with norms of their own, automatic clipping, and a clip norm that adapts. What is proved of a sum rests on its exact
clip to the norm of whole rows; nothing here has to be right for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from hushvec._native.rowwise import require_finite
from hushvec.training.adaptive_clip import RowNorm
from hushvec.training.schedule import Settings, require_norm_for_each

# So that rounding does not bring a scaled row above its norm, for the exact clip to scale it again. As in clipped_sum.md.
_ROOM = 1 - 2.0**-20
# Elements that are scaled at a time, in memory that stays: new memory for each block would take longer than the scaling.
_BLOCK = 2**22


def scaled_rows(
    parts: Sequence[torch.Tensor], names: Sequence[str], settings: Settings, norm: RowNorm
) -> Iterator[list[torch.Tensor]]:
    """Blocks of the rows, [b, *shape] for each part, in float32 or float64; beside a clip norm that adapts, the coordinate [b, 1].

    A block is overwritten by the next.
    """
    scale = settings.loss_scale
    require_norm_for_each(settings.clip_norms, parts)   # parameters may have been frozen
    norms = torch.stack([torch.linalg.vector_norm(_flat(part), dim=1, dtype=_wide(part)).double() for part in parts])
    if not bool(norms.isfinite().all()):
        for name, part in zip(names, parts):
            require_finite(name, _flat(part))
    limits = norms.new_tensor(settings.clip_norms or (norm.clip_norm,))[:, None] * scale
    if settings.clip_norms is None:
        norms = norms.square().sum(0, keepdim=True).sqrt()
    if settings.normalize is None:
        factors = torch.where(norms <= limits, 1.0, _ROOM * limits / norms)
    else:
        factors = _ROOM * limits / (norms + settings.normalize * scale)
    beside = torch.where(norms[0] <= limits[0], 1.0, -1.0) * (norm.beside * scale)
    step = max(1, _BLOCK // max(1, sum(part[0].numel() for part in parts)))
    memory = [torch.empty_like(part[:step], dtype=_wide(part)) for part in parts]
    for first in range(0, len(parts[0]), step):
        rows = slice(first, first + step)
        block = [place[: len(beside[rows])] for place in memory]
        for part, place, factor in zip(parts, block, factors.expand(len(parts), -1)):
            torch.mul(part[rows], factor[rows].to(place.dtype).view(-1, *[1] * (part.ndim - 1)), out=place)
        yield [*block, beside[rows, None].to(block[0].dtype)] if norm.adapts else block


def _flat(part: torch.Tensor) -> torch.Tensor:
    return part.flatten(1) if part.ndim > 1 else part[:, None]


def _wide(part: torch.Tensor) -> torch.dtype:
    return torch.float64 if part.dtype == torch.float64 else torch.float32
