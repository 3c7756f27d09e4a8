"""From examples to a batch with one row for each: what is clipped is a row, so an example must be exactly one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from hushvec._util import validate

# Examples that a collate function is tried on. Not 2, the length of a list [rows, labels].
_TRIED = 3

# What batches of joined sequences have beside their tokens: where each sequence begins, or which one a token is of.
_MARKS_OF_JOINED = ("seq_idx", "seq_lengths")


class OneRowEach:
    """A collate function, checked: one row for each example. It also makes the batch of no examples, after the first example.

    Args:
        collate: from a list of examples to a batch.
        dataset: with `__len__` and `__getitem__`; an example is one of its items.

    Raises:
        ValueError: from each call: a tensor, an array or a list of values of the batch that has more or fewer rows than there are
            examples, or a row in which sequences are joined.
        TypeError: a batch without rows that could be counted, or that has no empty form.
    """

    def __init__(self, collate: Callable[[list[Any]], Any], dataset: Any) -> None:
        self.collate, self.dataset = collate, dataset

    def try_out(self) -> None:
        """Make a batch of the first examples, so that a wrong collate function is refused before anything is charged."""
        places = [number % len(self.dataset) for number in range(_TRIED)]
        several = getattr(self.dataset, "__getitems__", None)  # what a DataLoader calls where there is one
        examples = several(places) if several else [self.dataset[place] for place in places]
        if len(examples) != _TRIED:
            raise ValueError(f"dataset must give one example for each index, got {len(examples)} for {_TRIED}")
        self(examples)
        self([])

    def __call__(self, examples: list[Any]) -> Any:
        if not examples:
            return self._of_none()
        batch = self.collate(examples)
        require_one_row_each(batch, examples)
        return batch

    def _of_none(self) -> Any:
        one = [self.dataset[0]]
        batch = self.collate(one)
        return type(batch)() if _are_the_examples(batch, one) else emptied(batch)


def require_one_row_each(batch: Any, examples: list[Any]) -> None:
    """Raises what `OneRowEach` does."""
    if _are_the_examples(batch, examples):
        return
    counted = list(_rows(batch, "the batch"))
    if not counted:
        raise TypeError(f"a batch must have tensors, arrays or lists with a row for each example, got {validate.kind(batch)}")
    for name, count in counted:
        if count != len(examples):
            raise ValueError(
                f"the collate function must make one row of each example, got {count} rows in {name} for {len(examples)} examples: "
                "each row is clipped, so an example that is repeated, or packed into a row with others, moves the sum by more than "
                'the clip norm says (docs/training.md, "What an example is")'
            )
    for name in batch if hasattr(batch, "items") else ():
        if name in _MARKS_OF_JOINED or str(name).startswith("cu_seq") or (name == "position_ids" and _begins_anew(batch[name])):
            raise ValueError(
                f"a row must be one sequence, got rows of joined sequences ({name}): each text of a packed row is protected only as a "
                'part of it, and one that is cut over two rows counts twice (docs/training.md, "What an example is")'
            )


def _are_the_examples(batch: Any, examples: list[Any]) -> bool:
    """Whether nothing was collated: the batch is the list of examples."""
    return isinstance(batch, (list, tuple)) and len(batch) == len(examples) and all(map(operator.is_, batch, examples))


def _rows(part: Any, name: str) -> Iterator[tuple[str, int]]:
    """(name, number of rows) of everything in a batch that has rows."""
    if hasattr(part, "shape"):
        if len(part.shape):
            yield name, int(part.shape[0])
    elif hasattr(part, "items"):
        for key, inner in part.items():
            yield from _rows(inner, repr(key))
    elif isinstance(part, (list, tuple)):
        if all(isinstance(one, (str, bytes, int, float)) for one in part):
            yield name, len(part)
        else:
            for place, inner in enumerate(part):
                yield from _rows(inner, f"part {place} of {name}")


def _begins_anew(positions: Any) -> bool:
    """Whether a row counts from 0 more than once; padding does not count."""
    if len(getattr(positions, "shape", ())) < 2:
        return False
    starts = (positions[..., :-1] == 0) & (positions[..., 1:] == 1)
    return bool((starts.sum(-1) > 1).any())


def emptied(batch: Any) -> Any:
    """A batch without its examples: every tensor, array and list has length 0, and single values stay."""
    if hasattr(batch, "shape"):
        return batch[:0] if len(batch.shape) else batch
    if hasattr(batch, "items"):
        return type(batch)({name: emptied(part) for name, part in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(emptied(part) for part in batch))
    if isinstance(batch, (list, tuple)):
        if all(isinstance(part, (str, bytes, int, float)) for part in batch):
            return type(batch)()
        return type(batch)(emptied(part) for part in batch)
    if batch is None or isinstance(batch, (str, bytes, int, float)):
        return batch
    raise TypeError(f"a batch must be of tensors, lists, tuples and mappings to have an empty form, got {validate.kind(batch)}")
