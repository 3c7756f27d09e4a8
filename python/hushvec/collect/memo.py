"""A client's memo: the secret that gives the same word the same report every time, and which words were reported.

BLAKE2b(secret, collection, word) is the key of the stream that a report is drawn from. Keyed tags of the words, written before a
report leaves, enforce the limit of words per person.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hushvec._native import _core
from hushvec._util import os_files
from hushvec._util.publish import private_opener, published_bytes
from hushvec.errors import HushvecError
from hushvec.extend import NotCopied
from hushvec.receipts import ROUNDS

# What permanent reports are drawn from, on every machine: a report from another stream would be a second report of its word.
MEMO_CIPHER = "chacha20"

_VERSION = 1
_SECRET_BYTES = 32
_TAG_BYTES = 16
_Admitted = TypeVar("_Admitted")
_REPORT, _TAG, _COHORT = b"hushvec report", b"hushvec memo tag", b"hushvec cohort"


class MemoError(HushvecError, ValueError):
    """A memo file that cannot be read: not a memo, cut short or damaged. Nothing was reported."""


class Memo(NotCopied):
    """One client's secret and the words it has reported, in memory. `Memo.open` keeps them in a file.

    Guarantees:
        All reports of one word over one collection are the same permanent report, so that a million of them tell what one tells.
        Of each collection at most words_per_person different words are ever reported; one more raises
        PrivacyBudgetExhaustedError, and nothing is charged, stored or reported.

    Edge cases:
        The memo is as secret as the words in it. If it is lost, everything that is reported with a new one costs again. A memo in
        memory is not used in a forked child, which would count anew, and none is copied or pickled: one in a file is shared.

    Example:
        >>> from hushvec.collect import Memo, Vocabulary
        >>> vocabulary, memo = Vocabulary([f"word{i}" for i in range(100)], epsilon=1.0), Memo()
        >>> first = vocabulary.report("word7", per="release", memo=memo)
        >>> all((vocabulary.report("word7", per="release", memo=memo) == first).all() for _ in range(20))
        True
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._tags: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Memo:
        """The memo of a file, made with a new secret where there is none. Only its owner can read it.

        MemoError where the file is there and is no sound memo: a new secret would report every word anew.
        """
        memo = cls()
        memo._path = Path(path)
        with memo._alone():
            if not memo._path.exists():
                memo._write()
        return memo

    def words_reported(self, collection: str) -> int:
        """How many different words were reported over the collection of this digest."""
        with self._alone():
            return len(self._tags.get(collection, ()))

    def remember(self, collection: str, words: Sequence[str], admit: Callable[[int, int], _Admitted]) -> _Admitted:
        """Note words that are about to be reported.

        Args:
            collection: digest of the vocabulary or filter.
            words: as they will be reported.
            admit: called with the number of words noted before and of those that are new; what it raises stops everything.
        """
        with self._alone():
            known = self._tags.get(collection, [])
            new = [tag for tag in dict.fromkeys(self._tag(collection, word) for word in words) if tag not in known]
            admitted = admit(len(known), len(new))
            if new:
                before, self._tags = self._tags, {**self._tags, collection: [*known, *new]}
                try:
                    self._write()
                except BaseException:
                    self._tags = before
                    raise
            return admitted

    def source(self, collection: str, word: str) -> Any:
        """The stream of this word's permanent report: the same every time."""
        key = self._derived(_REPORT, bytes.fromhex(collection) + word.encode(), 32)
        state = np.zeros(6, np.int64)
        state[:4] = np.frombuffer(key, "<i8")
        state[5] = ROUNDS[MEMO_CIPHER]
        return _core._take_from_state(state)

    def cohort(self, collection: str, cohorts: int) -> int:
        """The cohort of this client, uniform over clients."""
        return int.from_bytes(self._derived(_COHORT, bytes.fromhex(collection), 8), "little") * cohorts >> 64

    def _tag(self, collection: str, word: str) -> str:
        return self._derived(_TAG, bytes.fromhex(collection) + word.encode(), _TAG_BYTES).hex()

    def _derived(self, purpose: bytes, data: bytes, size: int) -> bytes:
        return hashlib.blake2b(data, digest_size=size, key=self._secret, person=purpose).digest()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else reads or writes the memo meanwhile; what others wrote before is read first."""
        with self._lock:
            if self._path is None:
                self.require_own_process()
                yield
                return
            with open(f"{self._path}.lock", "a", opener=private_opener) as lock:
                os_files.lock(lock.fileno())
                if self._path.exists():
                    self._secret, self._tags = _contents(self._path)
                yield

    def _write(self) -> None:
        if self._path is None:
            return
        body = {"hushvec_memo": _VERSION, "secret": self._secret.hex(), "words": self._tags}
        with published_bytes(self._path) as file:
            file.write(json.dumps({**body, "checksum": _checksum(body)}).encode())


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()


def _contents(path: Path) -> tuple[bytes, dict[str, list[str]]]:
    fault = MemoError(f"{path}: must be a sound memo of version {_VERSION}; it was cut short, damaged or written by something else")
    try:
        fields = json.loads(path.read_bytes())
        body = {name: fields[name] for name in ("hushvec_memo", "secret", "words")}
        if len(fields) != 4 or fields["checksum"] != _checksum(body) or body["hushvec_memo"] != _VERSION:
            raise fault
        secret = bytes.fromhex(body["secret"])
        words: dict[str, list[str]] = body["words"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise fault from None
    if len(secret) != _SECRET_BYTES:
        raise fault
    return secret, words
