"""Zeros in secret memory when a program goes to the background."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from hushvec._util.validate import kind
from hushvec.errors import SecureMemoryError

# Signals whose default is to stop the process: Ctrl-Z, and the terminal of another job.
STOPPING = tuple(getattr(signal, name) for name in ("SIGTSTP", "SIGTTIN", "SIGTTOU") if hasattr(signal, name))
_BY_DEFAULT = STOPPING[:1]


class BackgroundScrub:
    """Scrubs buffers and caches when the program is sent to the background.

    There are two ways in. `scrub()` is for frameworks that tell an app that it is paused: call it from their callback. As a context
    manager it handles Ctrl-Z (SIGTSTP): everything is scrubbed, and then the process stops as it would have without the handler.

        scrubber = BackgroundScrub(cache, key)
        app.on_pause(scrubber.scrub)
        with scrubber:                    # Ctrl-Z in a terminal
            chat(model, cache)

    Args:
        *secrets: SecureBuffers and SecureCaches. They are held weakly: what is dropped has been wiped already.
        signals: to handle, among those that stop a process: SIGTSTP, SIGTTIN, SIGTTOU.

    Raises:
        TypeError: a secret that is neither.
        ValueError: a signal that is not one of these.
        SecureMemoryError: entered outside of the main thread, which Python's handlers need, or twice.

    Guarantees:
        When the process stops, or `scrub` returns, the pages of all secrets are zeros. A cache that was not empty then refuses to be
        used, with SecureMemoryError, until its own `scrub`, `release` or `load`: a pass that was interrupted cannot go on from zeros.
        A buffer reads zeros.
        After SIGCONT the handler is in place again.

    Edge cases:
        Python runs handlers between two of its instructions: a product of matrices or another long call of C is finished first, and
        the process runs that much longer. SIGSTOP and SIGKILL cannot be handled, a suspended or hibernated machine sends no signal,
        and another handler for the same signal takes this one's place. A window that is hidden is not in the background: use the
        framework's callback. Call `scrub` from the thread that uses the secrets, or while none does.
        Only these pages are zeroed: docs/secure_memory.md says what else holds what you wrote.

    Reference:
        signal(7); docs/secure_memory.md, "In the background".

    Example:
        >>> from hushvec.secure_memory import BackgroundScrub, SecureBuffer
        >>> buffer = SecureBuffer(8)
        >>> buffer.numpy()[:] = 7
        >>> BackgroundScrub(buffer).scrub(), int(buffer.numpy().sum())
        (1, 0)
    """

    def __init__(self, *secrets: Any, signals: Sequence[signal.Signals] = _BY_DEFAULT) -> None:
        for one in signals:
            if one not in STOPPING:
                raise ValueError(f"signals must be among {', '.join(known.name for known in STOPPING)}, got {one!r}")
        self._signals = tuple(signals)
        self._secrets: weakref.WeakSet[Any] = weakref.WeakSet()
        self._before: dict[int, Any] = {}
        for secret in secrets:
            self.add(secret)

    def add(self, secret: Any) -> None:
        """Scrub this SecureBuffer or SecureCache too."""
        if not callable(getattr(secret, "interrupt", None)):
            raise TypeError(f"secrets must be SecureBuffers or SecureCaches, got {kind(secret)}")
        self._secrets.add(secret)

    def scrub(self) -> int:
        """Zeros in all secrets, now. Returns how many there were."""
        living = list(self._secrets)
        for secret in living:
            secret.interrupt()
        return len(living)

    def __enter__(self) -> BackgroundScrub:
        if self._before:
            raise SecureMemoryError("this BackgroundScrub handles its signals already")
        if threading.current_thread() is not threading.main_thread():
            raise SecureMemoryError("a BackgroundScrub must be entered in the main thread, where Python runs handlers of signals")
        for one in self._signals:
            self._before[one] = signal.signal(one, self._stop)
        return self

    def __exit__(self, *exception: object) -> None:
        for one, before in self._before.items():
            signal.signal(one, signal.SIG_DFL if before is None else before)
        self._before = {}

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Scrub, stop as the signal does by default, and handle the next one when the process goes on."""
        self.scrub()
        signal.signal(number, signal.SIG_DFL)
        try:
            os.kill(os.getpid(), number)  # the process stops here
        finally:
            with suppress(ValueError):
                signal.signal(number, self._stop)
