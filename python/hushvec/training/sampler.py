"""Poisson batches, for which amplification is proved: every example is in every batch with the same probability, independently. Cyclic
ones for correlated noise, which keep the batches of an example apart.

What is clipped is a row of a batch, so an example must be exactly one row.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.training.samples import Sample

# Examples that a collate function is tried on. Not 2, the length of a list [rows, labels].
_TRIED = 3

# What batches of joined sequences have beside their tokens: where each sequence begins, or which one a token is of.
_MARKS_OF_JOINED = ("seq_idx", "seq_lengths")


class SeparateExamples(list[Any]):
    """The examples of a batch, each collated by itself to a batch of one: what padding adds to one depends on no other."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By value: a process of a DataLoader would open a file for every tensor, and there are some for each example.
        return _separate, (pickle.dumps(list(self)),)


def _separate(pickled: bytes) -> SeparateExamples:
    return SeparateExamples(pickle.loads(pickled))


class OneRowEach:
    """A collate function, checked: one row for each example, else ValueError or TypeError. It makes the empty batch, too."""

    def __init__(self, collate: Callable[[list[Any]], Any], dataset: Any, *, separate: bool = False) -> None:
        self.collate, self.dataset, self.separate = collate, dataset, validate.flag("separate", separate)

    def first_examples(self) -> list[Any]:
        """Three: the first ones of the dataset, again where there are fewer."""
        places = [number % len(self.dataset) for number in range(_TRIED)]
        several = getattr(self.dataset, "__getitems__", None)  # what a DataLoader calls where there is one
        examples = several(places) if several else [self.dataset[place] for place in places]
        if len(examples) != _TRIED:
            raise ValueError(f"dataset must give one example for each index, got {len(examples)} for {_TRIED}")
        return list(examples)

    def try_out(self) -> None:
        """Make a batch of the first examples, so that a wrong collate function is refused before anything is charged."""
        self._together(self.first_examples())
        self([])

    def _together(self, examples: list[Any]) -> Any:
        batch = self.collate(examples)
        require_one_row_each(batch, examples)
        return batch

    def __call__(self, examples: list[Any]) -> Any:
        if self.separate:
            return SeparateExamples(self._together([one]) for one in examples)
        if examples:
            return self._together(examples)
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


_WORD = 2**64


class PoissonSampler:
    """Batches of indices for a DataLoader's `batch_sampler`; a batch may be empty.

    Args:
        size: number of examples, >= 1; public.
        sampling_probability: in [2^-64, 1]; rounded down to a multiple of 2^-64.
        steps: batches of one iteration, >= 1. None: 1 / sampling_probability, rounded, which is an epoch on average.
        generator: key stream; the process-wide one, keyed by the operating system, if None. With a seeded one the batches are
            public, and no claim of amplification holds.

    Guarantees:
        Each index is kept if its 64-bit word from the key stream is below a threshold: independent, of exactly the
        probability `true_probability`, which is at most the given one, so that accounting with the given one is valid.
        Every iteration draws anew.

    Edge cases:
        sampling_probability = 1 gives every index in every batch and draws nothing. A batch names each index once at most, in
        increasing order. `collate` functions fail on empty batches: `poisson_loader` has one that does not. A batch is a `list`
        that notices when its indices are read: docs/training.md, "One batch, one release".

    Reference:
        Mironov, Talwar, Zhang (2019); docs/proofs/dp_sgd.md.

    Example:
        >>> from hushvec.training import PoissonSampler
        >>> sampler = PoissonSampler(1000, 0.01, steps=3)
        >>> len(sampler), len(list(sampler)), all(index < 1000 for batch in sampler for index in batch)
        (3, 3, True)
    """

    def __init__(
        self, size: int, sampling_probability: float, *, steps: int | None = None, generator: _core.Generator | None = None
    ) -> None:
        self.size = validate.whole_number("size", size, at_least=1)
        self.sampling_probability = validate.sampling_probability(sampling_probability)
        self._threshold = int(Fraction(self.sampling_probability) * _WORD)
        epoch = max(1, round(1 / self.sampling_probability))
        self.steps = epoch if steps is None else validate.whole_number("steps", steps, at_least=1)
        self._generator = require_generator(generator)

    @property
    def true_probability(self) -> Fraction:
        """The probability as sampled, exactly."""
        return Fraction(self._threshold, _WORD)

    @property
    def seeded(self) -> bool:
        """Whether the batches can be computed by anyone who knows the seed."""
        return self._generator.seeded

    def sample(self) -> list[int]:
        """One batch."""
        if self._threshold == _WORD:
            return list(range(self.size))
        kept = _core.poisson_sample(self.size, self._threshold, self._generator).tolist()
        return Sample(kept, size=self.size, probability=self.sampling_probability, seeded=self.seeded)

    def __iter__(self) -> Iterator[list[int]]:
        return (self.sample() for _ in range(self.steps))

    def __len__(self) -> int:
        return self.steps


def is_round(size: int) -> bool:
    """Whether a number of examples can pass for a public one: two digits and zeros."""
    return float(f"{size:.1e}") == size


def public_size_of(given: int | None, exact: int) -> int:
    """The public number of examples: the given one, or the exact one if it is round."""
    if given is not None:
        return validate.whole_number("public_size", given, at_least=1)
    if is_round(exact):
        return exact
    raise ValueError(
        f"public_size must be given for {exact} examples, got None: what is made of their exact number (probability, divisor, steps) "
        f"tells whether one is there; take a public, rounded one, such as {float(f'{exact:.1e}'):.0f}"
    )


def require_public_size(probability: float, expected_batch_size: float, exact: int) -> None:
    """Refuse a probability or an expected batch size that was made of the exact number of examples."""
    if not is_round(exact) and abs(probability * exact - expected_batch_size) <= 1e-9 * expected_batch_size:
        raise ValueError(
            "sampling_probability must be of a public, rounded number of examples under add-remove, got expected_batch_size / "
            f"{exact}, the exact one, which the receipt would tell"
        )


def poisson_loader(
    dataset: Any, sampling_probability: float, *, steps: int | None = None, collate_fn: Callable[[list[Any]], Any] | None = None,
    separate: bool = False, generator: _core.Generator | None = None, **arguments: Any,
) -> Any:
    """A torch DataLoader of Poisson batches, which also delivers the empty ones.

    Args:
        dataset: with `__len__` and `__getitem__`; at least one example.
        sampling_probability, steps, generator: as in `PoissonSampler`.
        collate_fn: makes a batch of examples, with one row for each; torch's `default_collate` if None. It is tried on the first
            three examples, and every batch is checked (docs/training.md, "What an example is").
        separate: whether each example is collated by itself, for `per_example_gradients(model, loss, examples)`: where a collate
            function pads to the longest of its batch, an example of another length would change the rows of all others.
        **arguments: further ones of torch.utils.data.DataLoader; none that chooses batches.

    Returns:
        torch.utils.data.DataLoader. An empty batch is that of the first example with every tensor cut to length 0 in its first
        dimension, and every list, outside of a tuple or a mapping, emptied. With `separate` a batch is a list of batches of one.

    Raises:
        TypeError: a batch holds something that cannot be cut to length 0.
        ValueError: an argument chooses batches; a batch has more or fewer rows than examples, or rows of joined sequences. Both
            are raised while the loader runs, too.

    Example:
        >>> import torch
        >>> from hushvec.training import poisson_loader
        >>> data = torch.utils.data.TensorDataset(torch.ones(100, 3), torch.zeros(100))
        >>> [rows.shape[1:] for rows, labels in poisson_loader(data, 0.001, steps=2)]
        [torch.Size([3]), torch.Size([3])]
    """
    return _loader(
        dataset,
        lambda size: PoissonSampler(size, sampling_probability, steps=steps, generator=generator),
        collate_fn,
        separate,
        arguments,
    )


class CyclicSampler:
    """Batches of indices for a DataLoader's `batch_sampler`, for `CorrelatedNoise`: the data in b parts, which take turns.

    Args:
        size: number of examples, >= min_separation; public, as is each example's place among them.
        min_separation: b, the number of parts: a batch of size / b examples, every example once in b steps.
        steps: batches in all, >= 1.
        seed: of the order in which examples are dealt out to parts; public, and the same when a run is resumed.
        first_step: where a run that is resumed goes on: `optimizer.steps_taken`.

    Guarantees:
        Every example is in `max_participations` = ceil(steps / b) batches at most, b steps apart. Nothing about the batches is secret:
        there is no amplification. Of two data sets that differ in one example, the place stays, and its gradient is 0 in one of them.

    Edge cases:
        It iterates once over what is left: steps - first_step batches.

    Example:
        >>> from hushvec.training import CyclicSampler
        >>> batches = list(CyclicSampler(100, 10, steps=20))
        >>> len(batches[0]), batches[0] == batches[10], sorted(sum(batches[:10], [])) == list(range(100))
        (10, True, True)
    """

    def __init__(self, size: int, min_separation: int, *, steps: int, seed: int = 0, first_step: int = 0) -> None:
        self.size = validate.whole_number("size", size, at_least=1)
        self.min_separation = validate.whole_number("min_separation", min_separation, at_least=1, at_most=self.size)
        self.steps = validate.whole_number("steps", steps, at_least=1)
        self.first_step = validate.whole_number("first_step", first_step, at_least=0, at_most=self.steps)
        order = np.random.default_rng(validate.whole_number("seed", seed, at_least=0)).permutation(self.size)
        self._parts = [sorted(order[part :: self.min_separation].tolist()) for part in range(self.min_separation)]

    @property
    def max_participations(self) -> int:
        """The most batches that one example is in."""
        return -(-self.steps // self.min_separation)

    def __iter__(self) -> Iterator[list[int]]:
        return (list(self._parts[step % self.min_separation]) for step in range(self.first_step, self.steps))

    def __len__(self) -> int:
        return self.steps - self.first_step


def cyclic_loader(
    dataset: Any, min_separation: int, *, steps: int, seed: int = 0, first_step: int = 0,
    collate_fn: Callable[[list[Any]], Any] | None = None, separate: bool = False, **arguments: Any,
) -> Any:
    """`poisson_loader` with the batches of a `CyclicSampler`, whose arguments it takes, for `DPOptimizer(noise=CorrelatedNoise)`."""
    return _loader(
        dataset,
        lambda size: CyclicSampler(size, min_separation, steps=steps, seed=seed, first_step=first_step),
        collate_fn,
        separate,
        arguments,
    )


def _loader(
    dataset: Any, sampler_of: Callable[[int], Any], collate_fn: Callable[[list[Any]], Any] | None, separate: bool,
    arguments: dict[str, Any],
) -> Any:
    with needs_extra("a loader of batches", "training"):
        from torch.utils.data import default_collate

        from hushvec.training.global_generators import undisturbed
        from hushvec.training.sample_loader import SampleLoader
    for name in ("batch_size", "batch_sampler", "sampler", "shuffle", "drop_last", "in_order"):
        if name in arguments:
            raise ValueError(f"{name} must be left out: batches are those of the sampler")
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"dataset must have a length, got {validate.kind(dataset)}")
    sampler = sampler_of(len(dataset))
    collate = OneRowEach(default_collate if collate_fn is None else collate_fn, dataset, separate=separate)
    with undisturbed():
        collate.try_out()
    return SampleLoader(dataset, batch_sampler=sampler, collate_fn=collate, **arguments)
