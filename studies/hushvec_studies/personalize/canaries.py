"""Canaries for the audit of an adapter: crafted examples, each of which pushes one number of the adapter as hard as it is let.

Invented notes make weak canaries: what a small adapter learns from one of them drowns in what it learns from the others. DP promises
something about every example that could be there, whatever its gradient. So a canary is given its gradient: at one entry of a layer's
first LoRA matrix, of a norm far above any clip norm. It goes through that layer, its hooks and its clipping like any other example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.training.lora import lora_layers

# Norm of a canary's gradient before it is clipped.
SIZE = 20.0


@dataclass(frozen=True)
class Canaries:
    """Crafted examples of an adapter.

    Args:
        count: how many.
        seed: of the entries that they push, all different.
    """

    count: int
    seed: int

    def losses(self, model: Any, which: NDArray[np.int64]) -> Any:
        """The loss of each of the named canaries, tensor [k]: SIZE times its entry of the matrix."""
        import torch

        matrix = _matrix(model)
        rows, columns = self._entries(model)
        inputs = torch.nn.functional.one_hot(torch.from_numpy(columns[which]), matrix.in_features).to(matrix.weight.dtype)
        return SIZE * matrix(inputs)[torch.arange(len(which)), torch.from_numpy(rows[which])]

    def values(self, model: Any) -> NDArray[np.float64]:
        """The entry of every canary, float64 [count]. Training on a canary lowers its entry."""
        rows, columns = self._entries(model)
        found: NDArray[np.float64] = _matrix(model).weight.detach().double().numpy()[rows, columns]
        return found

    def _entries(self, model: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        shape = tuple(_matrix(model).weight.shape)
        entries = shape[0] * shape[1]
        if entries < self.count:
            raise ValueError(f"canaries must be at most {entries}, the entries of a matrix of this adapter, got {self.count}")
        chosen = np.random.default_rng([self.seed, 1]).permutation(entries)[: self.count]
        return np.divmod(chosen, shape[1])


def _matrix(model: Any) -> Any:
    """The first LoRA matrix with the most entries, as the Linear layer that it is."""
    matrices = [layer.lora_A["default"] for layer in lora_layers(model).values()]
    return max(matrices, key=lambda matrix: matrix.weight.numel())
