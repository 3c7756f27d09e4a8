"""A file that remembers over restarts what has been released and who has paid."""

from __future__ import annotations

import json
import os
import secrets
import weakref
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import os_files
from hushvec._util.publish import private_opener, published_bytes
from hushvec.aggregates.spending import Spending
from hushvec.budget import PrivacyBudget
from hushvec.extend import Budget
from hushvec.receipts import LedgerEntry


class Journal:
    """Written before every answer, locked while it is in use, and refused as a copy, in which answers may be missing.

    Args:
        path: of the file; None keeps nothing.
        kind, same: in errors, the class that it belongs to, and what must be as it was.
        digest: of what must be as it was.
    """

    def __init__(self, path: str | os.PathLike[str] | None, kind: str, same: str, digest: str) -> None:
        self._path, self._kind, self._same, self._digest = None if path is None else Path(path), kind, same, digest
        self._paid: dict[str, Any] = {"id": secrets.token_hex(16), "charged": False, "charge": None}
        if self._path is not None:
            self._unlock = weakref.finalize(self, os.close, _locked(self._path, kind))

    @property
    def id(self) -> str:
        """Of what it belongs to, over restarts."""
        return str(self._paid["id"])

    def read(self, *names: str) -> list[NDArray[Any]] | None:
        """The arrays of these names to go on from, or None where nothing was written yet."""
        if self._path is None or not self._path.exists():
            return None
        try:
            with np.load(self._path, allow_pickle=False) as stored:
                found, same, paid = [stored[name] for name in names], str(stored["digest"]), json.loads(str(stored["paid"]))
                made_as = paid.pop("file")
        except Exception as mistake:  # whatever the readers raise for a damaged archive
            raise ValueError(f"journal must be a file of {self._kind}, got {self._path}: {mistake}") from None
        if same != self._digest:
            raise ValueError(f"journal must be of {self._same}, got another one: {self._path}")
        if made_as != self._path.stat().st_ino:
            raise ValueError(f"journal must be the file that was written, got a copy, in which answers may be missing: {self._path}")
        self._paid = paid
        return found

    def charge(self, spending: Spending, budget: Budget | None, name: str) -> None:
        """Charge for everything once. A PrivacyBudget is asked again after a restart, and knows the id; another one is not."""
        if budget is not None and (isinstance(budget, PrivacyBudget) or not self._paid["charged"]):
            spending.charge(f"{name}-{self._paid['id']}")
            self._paid |= {"charged": True, "charge": None if spending.entry is None else asdict(spending.entry)}
        elif self._paid["charge"] is not None:
            spending.entry = LedgerEntry(**self._paid["charge"])

    def write(self, **arrays: Any) -> None:
        """Keep these, atomically."""
        if self._path is not None:
            with published_bytes(self._path) as file:
                paid = {**self._paid, "file": os.fstat(file.fileno()).st_ino}  # a copy has another number
                np.savez(file, digest=self._digest, paid=json.dumps(paid), **arrays)


def _locked(path: Path, kind: str) -> int:
    """A lock beside the journal, for as long as this descriptor is open."""
    descriptor = private_opener(f"{path}.lock", os.O_WRONLY)
    try:
        os_files.lock(descriptor, wait=False)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError(f"journal must be in use by one {kind}, got one that is in use already: {path}") from None
    return descriptor
