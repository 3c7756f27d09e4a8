"""Methods as coroutines."""

import inspect
import threading

from hushvec.integrations._source import in_thread


class Store:
    def add(self, row, *, twice=False):
        return [row, row] if twice else [row]

    async_add = in_thread(add)


class Strict(Store):
    def add(self, row, *, twice=False):
        return ["checked", threading.current_thread() is threading.main_thread(), *super().add(row, twice=twice)]


async def test_it_is_the_method():
    assert await Store().async_add("a", twice=True) == ["a", "a"]
    assert inspect.iscoroutinefunction(Store.async_add)
    assert inspect.signature(Store.async_add) == inspect.signature(Store.add)


async def test_a_method_of_a_subclass_runs_in_the_thread_too():
    assert await Strict().async_add("a") == ["checked", False, "a"]
