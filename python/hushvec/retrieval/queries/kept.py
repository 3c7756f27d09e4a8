"""A memo of earlier questions: their releases and their answers.

Asking again would release again, and answers to the same question average the noise away; sending the same release again would show
the holder that two questions were equal. So a repeated question is answered from the memo, and nothing is sent.

The file has one JSON object per line: a header, then a line for each release and each answer. The last line of a question counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.publish import append_bytes, published_bytes, unfinished
from hushvec.receipts.labels import RowReceipt, row_receipt
from hushvec.retrieval.queries.question import Question

_FORMAT = 2
_WHOLE = 1  # the previous format, one object for the whole file; it is converted when read


@dataclass(frozen=True)
class Asked:
    """A question that has been released.

    Args:
        question: what left.
        receipt: of its release.
        ids, scores: of all candidates, ranked locally; None while there is no answer.
    """

    question: Question
    receipt: RowReceipt
    ids: NDArray[Any] | None = None
    scores: NDArray[np.float32] | None = None


class AskedQuestions:
    """A memo keyed by a digest of the clean question; in memory, and with a path also in a file that only its owner can read.

    Args:
        path: of the file; None for memory alone.
        asker: digest of what answers depend on: the codebook, epsilon and the number of documents fetched.

    Raises:
        ValueError: the file is no sound memo, or another asker's.
        OSError: it cannot be read or written.

    Edge cases:
        A process that is killed while it writes leaves an unfinished last line. It is dropped with a warning: its question did not
        leave, because a question leaves only after its line is on the disk.
    """

    def __init__(self, path: str | os.PathLike[str] | None, asker: str) -> None:
        self._path = None if path is None else Path(path)
        self._asker = asker
        self._asked: dict[str, Asked] = {}
        self._unsaved: dict[str, Asked] = {}
        self.lock = threading.RLock()
        if self._path is not None and self._path.exists():
            self._asked, is_whole = _contents(self._path, asker)
            if not is_whole:
                self._write_anew(self._path)

    def __len__(self) -> int:
        return len(self._asked)

    def get(self, query: NDArray[np.float32]) -> Asked | None:
        return self._asked.get(_name(query))

    def keep(self, query: NDArray[np.float32], asked: Asked) -> None:
        """In memory first: a release must be remembered even if the disk is full. The next call then writes it."""
        name = _name(query)
        self._asked[name] = asked
        if self._path is None:
            return
        self._unsaved[name] = asked
        if self._path.is_symlink():  # a link is replaced, and nothing is written behind it
            self._write_anew(self._path)
        elif self._path.exists() or not self._is_first_to_write(self._path):
            append_bytes(self._path, _lines(self._unsaved))
        self._unsaved.clear()

    def _is_first_to_write(self, path: Path) -> bool:
        """Whether this process made the file, or another one for the same asker was faster."""
        with unfinished(path) as beside:
            beside.file.write(self._whole())
            beside.complete()
            try:
                beside.take_free_place()
            except FileExistsError:
                _contents(path, self._asker)
                return False
            return True

    def _write_anew(self, path: Path) -> None:
        with published_bytes(path) as file:
            file.write(self._whole())

    def _whole(self) -> bytes:
        return _line({"hushvec_questions": _FORMAT, "asker": self._asker}) + _lines(self._asked)


def _name(query: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(query, "<f4").tobytes()).hexdigest()


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def _lines(questions: Mapping[str, Asked]) -> bytes:
    return b"".join(_line({"name": name, **_as_fields(asked)}) for name, asked in questions.items())


def _as_fields(asked: Asked) -> dict[str, Any]:
    return {
        "question": asked.question.to_json(),
        "receipt": asked.receipt.to_json(),
        "ids": None if asked.ids is None else asked.ids.tolist(),
        "scores": None if asked.scores is None else asked.scores.tolist(),
    }


def _contents(path: Path, asker: str) -> tuple[dict[str, Asked], bool]:
    """The questions of a memo, and whether its file can be appended to as it is."""
    fault = ValueError(f"memo must be a file of asked questions, version {_FORMAT}; {path} is damaged or of another kind")
    *whole, rest = path.read_bytes().split(b"\n")
    try:
        header = json.loads(whole[0] if whole else rest)
        version, theirs = header["hushvec_questions"], str(header["asker"])
        if version == _WHOLE:
            entries = [{"name": name, **one} for name, one in header["questions"].items()]
        elif version == _FORMAT and whole:
            entries = [json.loads(line) for line in whole[1:]]
        else:
            raise fault
        asked = {str(one["name"]): _from_fields(one) for one in entries}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise fault from None
    if theirs != asker:
        raise ValueError(f"memo must be of this codebook, epsilon and fetch: {path} is of others")
    if version == _FORMAT and rest:
        warnings.warn(f"{path} ends with an unfinished line, which is dropped: its question will be released anew", stacklevel=4)
    return asked, version == _FORMAT and not rest


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
