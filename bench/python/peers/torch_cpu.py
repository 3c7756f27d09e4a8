"""torch on the CPU: in place into reused buffers, and eager as one writes it first."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from contestant import Contestant

if TYPE_CHECKING:
    from torch import Tensor

# 100 rows of 768 float32 are 300 KB: x, out and the temporaries stay in a 1 MB L2.
BLOCK_ROWS = 100


def clip_and_noise_rows(
    torch: ModuleType, x: Tensor, clip_norm: float, sigma: float, out: Tensor
) -> None:
    """normal_ into `out`, then out += x * scale, with no array of x's size allocated."""
    # One addcmul_ saves the pass that a mul into a buffer and an add_ need (10 %).
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    scale = norm.div_(clip_norm).clamp_(min=1.0).reciprocal_()
    out.normal_(0.0, sigma).addcmul_(x, scale)


class TorchPeer(Contestant):
    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        if threads > 1:
            self.name = f"{self.name}, {threads} threads"

    def open(self) -> None:
        import torch

        self._torch = torch

    def enter_turn(self) -> None:
        self._torch.set_num_threads(self._threads)


class TorchInPlace(TorchPeer):
    name = "torch in place"

    def gaussian(self, out: np.ndarray, sigma: float) -> np.ndarray:
        self._torch.from_numpy(out).normal_(0.0, sigma)
        return out

    def laplace(self, out: np.ndarray, scale: float) -> np.ndarray:
        # The inverse CDF of torch.distributions.Laplace with fewer temporaries;
        # exponential_() alone, before any sign, takes 17 ns a sample.
        torch = self._torch
        result = torch.from_numpy(out)
        result.uniform_(torch.finfo(result.dtype).eps - 1.0, 1.0)
        magnitude = result.abs().neg_().log1p_().mul_(-scale)
        torch.copysign(magnitude, result, out=result)
        return out

    def clip_and_noise(
        self, x: np.ndarray, clip_norm: float, sigma: float, out: np.ndarray
    ) -> np.ndarray:
        torch = self._torch
        clip_and_noise_rows(torch, torch.from_numpy(x), clip_norm, sigma, torch.from_numpy(out))
        return out


class TorchInPlaceBlocks(TorchPeer):
    """The same over blocks of rows.  A fill is one pass anyway, so only this offers it."""

    name = "torch in place, row blocks"

    def clip_and_noise(
        self, x: np.ndarray, clip_norm: float, sigma: float, out: np.ndarray
    ) -> np.ndarray:
        rows, results = self._torch.from_numpy(x), self._torch.from_numpy(out)
        for start in range(0, len(x), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            clip_and_noise_rows(self._torch, rows[block], clip_norm, sigma, results[block])
        return out


class TorchEager(TorchPeer):
    name = "torch eager"

    def gaussian(self, out: np.ndarray, sigma: float) -> np.ndarray:
        return (sigma * self._torch.randn(out.shape)).numpy()

    def laplace(self, out: np.ndarray, scale: float) -> np.ndarray:
        return self._torch.distributions.Laplace(0.0, scale).sample(out.shape).numpy()

    def clip_and_noise(
        self, x: np.ndarray, clip_norm: float, sigma: float, out: np.ndarray
    ) -> np.ndarray:
        torch = self._torch
        rows = torch.from_numpy(x)
        scale = (clip_norm / rows.norm(dim=1, keepdim=True)).clamp(max=1.0)
        return (rows * scale + sigma * torch.randn_like(rows)).numpy()
