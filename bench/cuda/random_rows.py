"""Random rows for checks and timings."""

from __future__ import annotations

import torch

PIECE = 1 << 24  # elements of float32 scratch at a time
SHORTEST = 1e-30  # among millions of rows of one element some are 0


def rows_of(rows: int, d: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Gaussian directions, norms from 0.2 to 5: some rows are clipped to 1, some are not."""
    x = torch.empty(rows, d, dtype=dtype, device=device)
    for piece in x.split(max(1, PIECE // d)):
        values = torch.randn(piece.shape, device=device)
        norm = torch.empty(len(piece), 1, device=device).uniform_(-1.6, 1.6).exp_()
        length = values.norm(dim=1, keepdim=True).clamp(min=SHORTEST)
        piece.copy_(values * (norm / length))
    return x
