"""Rows in which texts of several people are packed, taken apart: one row for each person, which is what is clipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


def unpack_people(batch: Any, people: torch.Tensor, drawn: Sequence[int], *, padding: Any = 0) -> Any:
    """A row of tokens for each person, from rows in which people's texts are packed: docs/training.md, "Packed rows".

    Args:
        batch: a tensor [B, T, ...], or a mapping of them (input_ids, labels, ...).
        people: int64 [B, T], a number >= 0 of the person whose token it is; -1 where it is nobody's.
        drawn: the people of the batch, each once, as the sampler drew them: also those without a token.
        padding: what fills rows at their ends: a number, or a mapping of numbers by name; 0 for names that it has not.

    Returns:
        As `batch`, [len(drawn), L, ...], L >= 1 the most tokens of one person. A person's tokens of all rows follow each other.

    Raises:
        ValueError: a token of somebody who was not drawn, somebody drawn twice, other shapes or dtypes.

    Example:
        >>> import torch
        >>> unpack_people(torch.tensor([[5, 6, 7, 8]]), torch.tensor([[3, 3, 9, -1]]), [9, 3])
        tensor([[7, 0],
                [5, 6]])
    """
    if people.dtype != torch.int64 or people.ndim != 2:
        raise ValueError(f"people must be int64 [rows, tokens], got {people.dtype} {list(people.shape)}")
    if len(set(drawn)) != len(drawn) or min(drawn, default=0) < 0:
        raise ValueError(f"drawn must have each person once, by numbers >= 0, got {list(drawn)}")
    if len(strange := people[(people != -1) & ~torch.isin(people, people.new_tensor(list(drawn)))]):
        raise ValueError(f"people must be among those drawn, or -1, got {int(strange[0])}")
    places = [(people.flatten() == person).nonzero()[:, 0] for person in drawn]

    def apart(part: Any, name: str, fill: Any) -> Any:
        if (shape := tuple(getattr(part, "shape", ())))[:2] != tuple(people.shape):
            raise ValueError(f"{name} must be a tensor {list(people.shape)} or with more axes, like people, got {list(shape)}")
        rows = part.new_full((len(drawn), max([1, *map(len, places)]), *shape[2:]), fill)
        for row, own in zip(rows, places):
            row[: len(own)] = part.flatten(0, 1)[own]
        return rows

    if not isinstance(batch, Mapping):
        return apart(batch, "batch", padding)
    return {name: apart(part, name, padding.get(name, 0) if isinstance(padding, Mapping) else padding) for name, part in batch.items()}
