"""Ledgers over fork. Connections are closed before a fork and opened again on both sides; a memory ledger stays behind.

A connection must not cross a fork. SQLite keeps in memory which locks its process holds, and a child that relies on its
parent's locks would let a third process delete the write-ahead log under it; two ends of one PostgreSQL socket mix their
bytes. Closing first costs a few milliseconds at a fork and leaves nothing to inherit.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    def before_fork(self) -> None:
        """Let calls of other threads finish, block new ones, close connections."""

    def after_fork_in_parent(self) -> None:
        """Let calls in again."""

    def after_fork_in_child(self) -> None:
        """Replace locks: the threads that held them do not exist here."""


_living: weakref.WeakSet[Forkable] = weakref.WeakSet()
_living_lock = threading.RLock()
_crossing: list[Forkable] = []  # strong references between the two halves of a fork


def watch(ledger: Forkable) -> None:
    """Call the ledger's methods around every fork of this process, for as long as it lives."""
    with _living_lock:
        _living.add(ledger)


def _before() -> None:
    _living_lock.acquire()
    _crossing.extend(_living)
    for ledger in _crossing:
        ledger.before_fork()


def _after_in_parent() -> None:
    for ledger in _crossing:
        ledger.after_fork_in_parent()
    _crossing.clear()
    _living_lock.release()


def _after_in_child() -> None:
    global _living_lock
    for ledger in _crossing:
        ledger.after_fork_in_child()
    _crossing.clear()
    _living_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
