"""Per-example gradient norms and weighted sums of a layer's parameters, without computing any gradient.

The gradient of example i is G_i = sum over its positions t of g_t a_t^T: the layer's input a_t times what the loss asks of its output,
g_t. Three kinds of parameters differ in what a_t is: a matrix (the input itself), a table of rows (which row), and a vector (one
number for each element). docs/proofs/ghost_clipping.md has the statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

# Rounding of float64, and what one chunk of examples may take of memory.
_UNIT = 2.0**-53
_CHUNK_BYTES = 1 << 24


class Norms(NamedTuple):
    """Of one parameter's gradients, float64 [B] each."""

    squared: Any  # at least the squared norm of each example's gradient
    spread: Any  # at least sum_t |a_t| |g_t| of each example, by which rounding is bounded


class Piece(Protocol):
    """One parameter's part of one batch."""

    @property
    def examples(self) -> int: ...
    def norms(self) -> Norms: ...
    def weighted_sum(self, weights: Any) -> Any:
        """sum_i weights_i G_i in the parameter's shape; weights [B] of the dtype that sums are made in."""
        ...


class MatrixPiece:
    """Of a weight matrix, G_i = sum_t g_t a_t^T: inputs [B, T, p], output_gradients [B, T, d]. Transposed: kept as [p, d]."""

    def __init__(self, inputs: Any, output_gradients: Any, transposed: bool = False) -> None:
        self._inputs, self._outputs, self._transposed = inputs, output_gradients, transposed
        self.examples = len(inputs)

    def norms(self) -> Norms:
        """Through Gram matrices of positions, or through the gradients of a few examples at a time: whichever is less work."""
        import torch

        positions, across, out = self._inputs.shape[1], self._inputs.shape[2], self._outputs.shape[2]
        grams_are_cheaper = positions * (across + out) < across * out or positions == 1
        held = 2 * positions**2 if grams_are_cheaper else across * out
        terms = across + out + positions**2 if grams_are_cheaper else across * out + positions
        squared, spread = [], []
        for rows in chunks(self.examples, 8 * (held + positions * (across + out))):
            inputs, outputs = self._inputs[rows].double(), self._outputs[rows].double()
            if grams_are_cheaper:
                some = (torch.bmm(inputs, inputs.mT) * torch.bmm(outputs, outputs.mT)).sum((1, 2))
            else:
                some = torch.bmm(outputs.mT, inputs).square_().sum((1, 2))
            squared.append(some)
            spread.append((inputs.norm(dim=2) * outputs.norm(dim=2)).sum(1))
        return _rounded_up(torch.cat(squared), torch.cat(spread), terms)

    def weighted_sum(self, weights: Any) -> Any:
        outputs = (self._outputs.to(weights.dtype) * weights[:, None, None]).flatten(0, 1)
        inputs = self._inputs.to(weights.dtype).flatten(0, 1)
        return inputs.mT @ outputs if self._transposed else outputs.mT @ inputs


class VectorPiece:
    """Of a vector, G_i = sum_t f_t * g_t element by element, both [B, T, d]; without factors (a bias) G_i = sum_t g_t."""

    def __init__(self, output_gradients: Any, factors: Any = None) -> None:
        self._outputs, self._factors = output_gradients, factors
        self.examples = len(output_gradients)

    def norms(self) -> Norms:
        import torch

        positions, size = self._outputs.shape[1:]
        squared, spread = [], []
        for rows in chunks(self.examples, 16 * positions * size):
            terms = self._terms(rows)
            squared.append(terms.sum(1).square().sum(1))
            spread.append(terms.norm(dim=2).sum(1))
        return _rounded_up(torch.cat(squared), torch.cat(spread), positions + size)

    def weighted_sum(self, weights: Any) -> Any:
        total = weights.new_zeros(self._outputs.shape[2]).double()
        for rows in chunks(self.examples, 16 * self._outputs[0].numel()):
            total += (self._terms(rows).sum(1) * weights[rows, None].double()).sum(0)
        return total.to(weights.dtype)

    def _terms(self, rows: slice) -> Any:
        outputs = self._outputs[rows].double()
        return outputs if self._factors is None else outputs * self._factors[rows].double()


class TablePiece:
    """Of an embedding table of `rows` rows, G_i = g_t [B, T, d] added to row id_t, int64 [B, T]; none for the id `padding`."""

    def __init__(self, ids: Any, output_gradients: Any, rows: int, padding: int | None = None) -> None:
        if padding is not None:
            output_gradients = output_gradients.masked_fill((ids == padding)[:, :, None], 0.0)
        self._ids, self._outputs, self._rows = ids, output_gradients, rows
        self.examples = len(ids)

    def norms(self) -> Norms:
        import torch

        positions, size = self._outputs.shape[1:]
        squared, spread = [], []
        for rows in chunks(self.examples, 8 * positions * (positions + size)):
            ids, outputs = self._ids[rows], self._outputs[rows].double()
            same = ids[:, :, None] == ids[:, None, :]
            squared.append(torch.bmm(outputs, outputs.mT).masked_fill_(~same, 0.0).sum((1, 2)))
            spread.append(outputs.norm(dim=2).sum(1))
        return _rounded_up(torch.cat(squared), torch.cat(spread), size + positions**2)

    def weighted_sum(self, weights: Any) -> Any:
        outputs = (self._outputs.to(weights.dtype) * weights[:, None, None]).flatten(0, 1)
        return weights.new_zeros(self._rows, outputs.shape[1]).index_add_(0, self._ids.flatten(), outputs)


def chunks(examples: int, bytes_each: int) -> Iterator[slice]:
    """Slices of the examples that stay within the memory of a chunk, one example at least."""
    step = max(1, _CHUNK_BYTES // max(1, bytes_each))
    return (slice(start, min(start + step, examples)) for start in range(0, examples, step))


def joined(parts: Sequence[Norms]) -> Norms:
    """Of gradients that stand side by side in one parameter: squares add up, and are enlarged by what their additions round."""
    import torch

    enlarged = 1 + 4 * (len(parts) + 8) * _UNIT
    squared = torch.stack([part.squared for part in parts]).sum(0)
    spread = torch.stack([part.spread for part in parts]).norm(dim=0)
    return Norms(squared * enlarged, spread * enlarged)


def _rounded_up(squared: Any, spread: Any, terms: int) -> Norms:
    """Computed sums made upper bounds: of at most `terms` rounded additions in a row, and of the square roots in the spread."""
    spread = spread * (1 + 4 * (terms + 8) * _UNIT)
    return Norms(squared.clamp(min=0.0) + 8 * (terms + 8) * _UNIT * spread.square(), spread)
