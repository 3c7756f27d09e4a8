"""Embeddings as a mechanism would release them: the input of a decoder that reads released rows.

The texts are public, and so is this noise: its key follows from the seed of the run and the number of the step, which makes a run
repeatable. It protects nothing; nothing is released here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native._core import Generator
from hushvec._util import validate
from hushvec.mechanisms import MECHANISMS, EmpiricalGaussian, Mechanism, PublicProjection
from hushvec.text.inverters.mapped import behind


@dataclass(frozen=True)
class ReleaseLaw:
    """A mechanism, behind a public map or not."""

    mechanism: Mechanism
    projection: PublicProjection | None = None

    def released(self, rows: NDArray[np.float32], generator: Generator) -> NDArray[np.float32]:
        """Noisy rows in the embedder's space: through the map and to length clip_norm, through the mechanism, and lifted back."""
        inside = rows if self.projection is None else behind(self.projection, rows, self.mechanism.clip_norm)
        noisy = np.empty_like(inside)
        self.mechanism.apply(np.ascontiguousarray(inside), noisy, generator, out_is_fresh=True)
        return noisy if self.projection is None else np.asarray(self.projection.lift(noisy), np.float32)


def mechanism_as_json(mechanism: Mechanism) -> dict[str, Any]:
    """A mechanism's name and arguments."""
    return {"name": mechanism.name, **{field.name: getattr(mechanism, field.name) for field in fields(mechanism)}}


def mechanism_of(name: str, dimension: int, *, epsilon: Any, delta: Any, clip_norm: Any, sigma: Any) -> Mechanism:
    """A mechanism by its name in `hushvec.privatize`."""
    kind = MECHANISMS[validate.choice("mechanism", name, MECHANISMS)]
    arguments: dict[str, Any] = {"dimension": dimension, "clip_norm": clip_norm}
    wanted = "sigma" if kind is EmpiricalGaussian else "epsilon"
    value = sigma if kind is EmpiricalGaussian else epsilon
    unwanted = epsilon if kind is EmpiricalGaussian else sigma
    if value is None:
        raise TypeError(f"{wanted} must be given for mechanism {name!r}")
    if unwanted is not None:
        raise ValueError(f"{'epsilon' if wanted == 'sigma' else 'sigma'} must be left out for mechanism {name!r}, got {unwanted!r}")
    arguments["chosen_sigma" if kind is EmpiricalGaussian else "epsilon"] = value
    if "delta" in {field.name for field in fields(kind)}:
        arguments["delta"] = delta
    return kind(**arguments)


def public_generator(seed: int, purpose: str, number: int) -> Generator:
    """The key stream of one step of a run: the same every time, and different for every step."""
    key = hashlib.blake2b(f"hushvec training noise {purpose} {seed} {number}".encode(), digest_size=32).digest()
    return Generator.unsafe_seeded(int.from_bytes(key, "little"))
