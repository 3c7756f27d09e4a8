"""Questions that were asked before: what was released for them, and what was found.

Asking again would release again, and answers to the same question average the noise away; sending the same release again would show
the holder that two questions were equal. So a question that was answered is answered from here, and nothing is sent.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.publish import published_bytes
from hushvec.receipts.labels import RowReceipt, row_receipt
from hushvec.retrieval.queries.question import Question

_FORMAT = 1


@dataclass(frozen=True)
class Asked:
    """A question that has been released.

    Args:
        question: what left.
        receipt: of its release.
        ids, scores: of all candidates, ranked at home; None while there is no answer.
    """

    question: Question
    receipt: RowReceipt
    ids: NDArray[Any] | None = None
    scores: NDArray[np.float32] | None = None


class AskedQuestions:
    """By digest of the clean question; in memory, and in a file that only its owner can read where there is a path.

    Args:
        path: of the file; None for memory alone.
        asker: digest of what answers depend on: the codebook, epsilon and the number of documents fetched.

    Raises:
        ValueError: the file is no sound memo, or another asker's.
        OSError: it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str] | None, asker: str) -> None:
        self._path = None if path is None else Path(path)
        self._asker = asker
        self._asked: dict[str, Asked] = {}
        self.lock = threading.RLock()
        if self._path is not None and self._path.exists():
            self._asked = _contents(self._path, asker)

    def __len__(self) -> int:
        return len(self._asked)

    def get(self, query: NDArray[np.float32]) -> Asked | None:
        return self._asked.get(_name(query))

    def keep(self, query: NDArray[np.float32], asked: Asked) -> None:
        """In memory first: what is released must be known here even if the disk is full."""
        self._asked[_name(query)] = asked
        if self._path is not None:
            body = {name: _as_fields(one) for name, one in self._asked.items()}
            with published_bytes(self._path) as file:
                file.write(json.dumps({"hushvec_questions": _FORMAT, "asker": self._asker, "questions": body}).encode())


def _name(query: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(query, "<f4").tobytes()).hexdigest()


def _as_fields(asked: Asked) -> dict[str, Any]:
    return {
        "question": asked.question.to_json(),
        "receipt": asked.receipt.to_json(),
        "ids": None if asked.ids is None else asked.ids.tolist(),
        "scores": None if asked.scores is None else asked.scores.tolist(),
    }


def _contents(path: Path, asker: str) -> dict[str, Asked]:
    fault = ValueError(f"memo must be a file of asked questions, version {_FORMAT}; {path} is damaged or of another kind")
    try:
        fields = json.loads(path.read_bytes())
        if fields["hushvec_questions"] != _FORMAT:
            raise fault
        theirs = str(fields["asker"])
        asked = {str(name): _from_fields(one) for name, one in fields["questions"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise fault from None
    if theirs != asker:
        raise ValueError(f"memo must be of this codebook, epsilon and fetch: {path} is of others")
    return asked


def _from_fields(fields: Mapping[str, Any]) -> Asked:
    question, receipt = Question.from_json(fields["question"]), row_receipt(json.loads(fields["receipt"]))
    if fields["ids"] is None:
        return Asked(question, receipt)
    ids = fields["ids"]
    return Asked(
        question,
        receipt,
        np.array(ids, object if ids and isinstance(ids[0], str) else np.int64),
        np.array(fields["scores"], np.float32),
    )
