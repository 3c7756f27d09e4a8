"""Rows behind a public map, as rewriting releases them and training uses them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec._native import rowwise
from hushvec.mechanisms import PublicProjection
from hushvec.text.inverters.protocol import Inverter


def behind(projection: PublicProjection, rows: NDArray[np.float32], length: float) -> NDArray[np.float32]:
    """The rows [n, d] behind the map [n, m], brought to one length, so that no row is lost in the noise.

    The length is that of float32 arithmetic: a mechanism clips after it.
    """
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
