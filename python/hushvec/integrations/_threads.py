"""Coroutines of methods, for hosts that ask for both."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def in_thread(method: Callable[Arguments, Answer]) -> Callable[Arguments, Coroutine[Any, Any, Answer]]:
    """A method as a coroutine, which runs it in a thread: the method of that name that the object has, which may be a subclass's."""

    @functools.wraps(method)
    async def coroutine(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        own: Callable[..., Answer] = getattr(args[0], method.__name__)
        return await asyncio.to_thread(own, *args[1:], **kwargs)

    coroutine.__doc__ = f"`{method.__name__}` as a coroutine, in a thread."
    return coroutine
