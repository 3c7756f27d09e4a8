"""Coroutines of methods, for hosts that ask for both."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def in_thread(method: Callable[Arguments, Answer]) -> Callable[Arguments, Coroutine[Any, Any, Answer]]:
    """A method as a coroutine, which runs it in a thread."""

    @functools.wraps(method)
    async def coroutine(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        return await asyncio.to_thread(method, *args, **kwargs)

    coroutine.__doc__ = f"`{method.__name__}` as a coroutine, in a thread."
    return coroutine
