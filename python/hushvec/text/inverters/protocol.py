"""The protocols of inverters, texts from embedding rows, including noisy ones; and rows behind a public map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hushvec._native import rowwise
from hushvec.mechanisms import Mechanism, PublicProjection

if TYPE_CHECKING:
    from hushvec.text.public_choice import PublicChoice


@runtime_checkable
class Inverter(Protocol):
    """Turns embeddings back into text.

    It is post-processing: it sees the released rows and public data, never the private text or its clean vector.
    """

    def invert(self, embeddings: NDArray[np.float32]) -> list[str]:
        """One text for each row of [n, d]; n = 0 gives an empty list."""


@runtime_checkable
class LawInverter(Inverter, Protocol):
    """An inverter that knows what noise was added and can use it."""

    def for_release(self, mechanism: Mechanism, projection: PublicProjection | None) -> Inverter:
        """The inverter for rows that this mechanism released.

        Args:
            mechanism: with the numbers of its law: Gaussian, Laplacian, L2Laplace, PrivUnit or EmpiricalGaussian.
            projection: the public map that the rows were released behind, or None.

        Returns:
            An inverter of the released rows as they are: in the projection's space if there is one. An inverter that is not a
            LawInverter gets rows that were lifted back to the embedder's space.
        """

    def projection_for(self, mechanism: str, epsilon: float) -> PublicProjection | None:
        """The public map that suits this inverter best at this epsilon per row, fitted on public data only; None: no map."""


@runtime_checkable
class ChoosingInverter(Inverter, Protocol):
    """An inverter whose answers are texts of a public list."""

    def choice_for(self, epsilon: float) -> PublicChoice:
        """The possible answers at this epsilon per row, chosen from public data only."""


def behind(projection: PublicProjection, rows: NDArray[np.float32], length: float) -> NDArray[np.float32]:
    """The rows [n, d] behind the map [n, m], brought to one length (of float32: a mechanism clips after it)."""
    mapped = np.ascontiguousarray(projection.transform(rows), np.float32)
    rowwise.unit_rows(mapped, mapped)
    return mapped * np.float32(length)


@dataclass(frozen=True)
class Lifted:
    """An inverter of the embedder's space, for rows released behind a public map."""

    inverter: Inverter
    projection: PublicProjection

    def invert(self, embeddings: NDArray[np.float32]) -> list[str]:
        """One text for each row of [n, m]."""
        return self.inverter.invert(np.asarray(self.projection.lift(embeddings), np.float32))
