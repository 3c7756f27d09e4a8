"""Everything that touches the compiled core: arrays in and out, the choice of device, torch operators. Private to hushvec.

Raises ImportError in a subinterpreter, where loading the core would hang: its bindings take the GIL by a call that finds this
thread's state in the main interpreter, and so would wait for the GIL that the thread itself holds. numpy has no support either.

What is named here is for all packages; the rest of a module is for those beside it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec._native._core import Generator
    from hushvec._native.arrays import (
        DEFAULT_DTYPE,
        NUMPY_DTYPES,
        TORCH_DTYPES,
        as_matrix,
        device_of,
        device_scope,
        dtype_name,
        in_order,
        is_contiguous,
        is_torch,
        library_of,
        new_array,
        on_cuda,
        require_array,
        require_form,
        require_same_kind,
        returned,
        shared,
    )
    from hushvec._native.kernels import backends, joined, require_generator, set_num_threads
    from hushvec._native.products import inner_products, product
    from hushvec._native.rowwise import as_array, require_finite, unit_rows

__all__ = [
    "DEFAULT_DTYPE", "NUMPY_DTYPES", "TORCH_DTYPES", "Generator", "as_array", "as_matrix", "backends", "device_of",
    "device_scope", "dtype_name", "in_order", "inner_products", "is_contiguous", "is_torch", "joined", "library_of", "new_array",
    "on_cuda", "product", "require_array", "require_finite", "require_form", "require_generator", "require_same_kind",
    "returned", "set_num_threads", "shared", "unit_rows",
]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "_core": "Generator",
        "arrays": (
            "DEFAULT_DTYPE NUMPY_DTYPES TORCH_DTYPES as_matrix device_of device_scope dtype_name in_order is_contiguous "
            "is_torch library_of new_array on_cuda require_array require_form require_same_kind returned shared"
        ),
        "kernels": "backends joined require_generator set_num_threads",
        "products": "inner_products product",
        "rowwise": "as_array require_finite unit_rows",
    },
    below=("_core", "arrays", "cuda", "rowwise"),
)


def _require_main_interpreter() -> None:
    for name in ("_interpreters", "_xxsubinterpreters"):  # Python's own, by its name since 3.13 or the one before
        try:
            interpreters = import_module(name)
        except ModuleNotFoundError:  # a build without it cannot make subinterpreters from Python
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(
                "hushvec must be imported in the main interpreter, got a subinterpreter (use threads or processes; under mod_wsgi, "
                "WSGIApplicationGroup %{GLOBAL})"
            )
        return


_require_main_interpreter()
