"""What linear models of many people's rows have in common: the columns that they take, and the file that keeps them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native.arrays import as_matrix
from hushvec._native.rowwise import given_rows
from hushvec._util.publish import SHARED, published_bytes
from hushvec.receipts import AggregateReceipt

_Model = TypeVar("_Model", bound="LinearModel")

FORMAT = 1
_ABOUT = ("about", "format", "kind", "receipt")


class LinearModel:
    """A model with coefficients for each column of rows, and the receipt of the release that made it."""

    coef_: NDArray[Any]
    receipt: AggregateReceipt

    def __init__(self, *parts: Any, **named: Any) -> None:
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one file, atomically; `load` reads it. TypeError for labels of a classifier that are neither str nor int."""
        facts, arrays = self._parts()
        about = {"format": FORMAT, "kind": type(self).__name__, **facts, "receipt": self.receipt.to_dict()}
        with published_bytes(Path(path), mode=SHARED) as file:
            np.savez(file, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)

    @classmethod
    def load(cls: type[_Model], path: str | os.PathLike[str]) -> _Model:
        """Return what `save` wrote; ValueError for another file, or a model of another kind.

        Nothing is unpickled; the receipt is read, and whether it holds is for `hushvec.verify_receipt`.
        """
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                about = json.loads(archive["about"].tobytes())
                if about["format"] != FORMAT or about["kind"] != cls.__name__:
                    found = f"{about['kind']} of format {about['format']}"
                    raise ValueError(f"it must be a {cls.__name__} of format {FORMAT}, got {found}")
                receipt = AggregateReceipt.from_dict(about["receipt"])
                parts = {name: value for name, value in {**about, **archive}.items() if name not in _ABOUT}
                return cls(**parts, receipt=receipt)
        # whatever the readers raise for a damaged archive: zip, zlib, numpy and json each have their own errors
        except Exception as mistake:
            raise ValueError(f"{os.fspath(path)} is not a saved {cls.__name__}: {mistake}") from None

    def _given(self, rows: Any) -> Any:
        """Rows [n, d] of as many columns as there are coefficients, all finite."""
        given = given_rows("rows", rows, finite=True)
        columns = self.coef_.shape[-1]
        if given.dimension != columns:
            raise ValueError(f"rows must have {columns} columns, got {given.dimension}")
        return as_matrix(given.values)

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What it is made of beside the receipt, by the names of its arguments: as JSON, and as arrays."""
        raise NotImplementedError
