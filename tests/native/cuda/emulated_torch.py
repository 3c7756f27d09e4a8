"""torch.cuda on the emulated device, as far as the tests marked `gpu` use it.

A tensor on the device is a torch tensor of the CPU over its memory that says it lies on cuda:0. What torch itself does with it happens
at once, on the host, after a wait for all streams; only what hushvec launches runs on streams and is captured.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import torch
from native.cuda import emulated_backend as backend
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

CPU = torch.device("cpu")
DLPACK_CUDA = 2

# Tests that would show nothing here, and why.
NOT_ON_THE_EMULATED_DEVICE = {
    "test_the_current_stream_is_used": "asks the table of functions of torch for CUDA for its stream",
    "test_work_waits_for_what_the_stream_did_before": "the work of torch that it waits for does not run on streams here",
    "test_a_search_waits_for_what_the_stream_did_before": "the work of torch that it waits for does not run on streams here",
    "test_compiled_programs_draw_anew": "torch.compile makes code for a GPU",
}

_NO_ACCESS = {
    "__get__", "__len__", "data_ptr", "dim", "element_size", "is_contiguous", "is_floating_point", "is_neg", "new_empty", "numel",
    "requires_grad_", "size", "stride", "untyped_storage",
}   # fmt: skip
_WITHOUT_VALUES = {"empty", "empty_like", "new_empty"}
_TAKE_BOTH = {"copy_", "to", "__getitem__", "__setitem__", "tensor"}   # tensors of the host beside some of the device

_python = ctypes.PyDLL(None)
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class OnDevice(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl
    __dlpack_c_exchange_api__ = None   # torch's own says the CPU
    is_cuda = True

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", _device(self))

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_CUDA, _device(self)

    def __dlpack__(self, **_: Any) -> Any:
        capsule = torch._C._to_dlpack(self)
        place = ctypes.c_int32 * 2   # of a DLTensor: its address, then type and number of the device
        place.from_address(_python.PyCapsule_GetPointer(capsule, b"dltensor") + 8)[:] = self.__dlpack_device__()
        return capsule


def _device(tensor: torch.Tensor) -> int | None:
    with torch._C.DisableTorchFunction():
        return backend.device_at(tensor.untyped_storage().data_ptr())


def _moved(tensor: torch.Tensor, device: int, *, copy: bool = True) -> OnDevice:
    """A new tensor on the device, with the strides of this one where it has no gaps."""
    memory = torch.frombuffer(backend.allocate(tensor.nbytes, device), dtype=torch.uint8)[: tensor.nbytes]
    strides = torch.empty_like(tensor, device="meta").stride()
    made = memory.view(tensor.dtype).as_strided(tensor.shape, strides)
    return (made.copy_(tensor) if copy else made).as_subclass(OnDevice)


class EmulatedCuda(TorchFunctionMode):
    """Sends functions of torch to host memory or device memory."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        options = dict(kwargs or {})
        name = func.__name__
        tensors = [leaf for leaf in tree_leaves((args, options)) if isinstance(leaf, torch.Tensor)]
        on_device = [tensor for tensor in tensors if isinstance(tensor, OnDevice)]
        if isinstance(func, torch._ops.OpOverload) and func.namespace == "hushvec":
            with self:   # it runs functions of torch in turn
                return torch._library.custom_ops.OPDEFS[f"hushvec::{func._opname}"]._init_fn(*args, **options)
        if name in ("numpy", "__array__") and on_device:
            raise TypeError("can't convert a tensor on a CUDA device to numpy")
        if on_device and name not in _TAKE_BOTH and any(t.dim() and not isinstance(t, OnDevice) for t in tensors):
            raise RuntimeError(f"Expected all tensors to be on the same device: torch.{name}")
        if on_device and name not in _NO_ACCESS:
            backend.wait()
        target, args, options = _target(name, args, options)
        if target is None and on_device:
            target = on_device[0].device
        result = args[0] if name in ("cpu", "cuda") else func(*args, **options)
        if target is None:
            return result
        return tree_map_only(torch.Tensor, lambda tensor: _placed(tensor, target, copy=name not in _WITHOUT_VALUES), result)


def _target(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[torch.device | None, tuple[Any, ...], dict[str, Any]]:
    """The device that a call names, and its arguments with the CPU in that place."""
    named: list[Any] = [options["device"]] if options.get("device") is not None else []
    if name == "to":
        named += [argument for argument in args[1:] if isinstance(argument, (str, torch.device))]
    if not named:
        return {"cpu": CPU, "cuda": torch.device("cuda", current_device())}.get(name), args, options
    device = torch.device(named[0])
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", current_device())
    if "device" in options:
        options["device"] = CPU if device.type == "cuda" else device
    return device, tuple(CPU if argument is named[0] else argument for argument in args), options


def _placed(tensor: torch.Tensor, device: torch.device, *, copy: bool) -> torch.Tensor:
    """The result of a function, where it should be: itself, as a view, or a copy."""
    found = _device(tensor)
    if device.type != "cuda":
        return tensor if found is None else tensor.as_subclass(torch.Tensor).clone()
    if found != device.index:
        return _moved(tensor, device.index, copy=copy)
    return tensor if isinstance(tensor, OnDevice) else tensor.as_subclass(OnDevice)


def current_device() -> int:
    device = ctypes.c_int()
    backend.call("cudaGetDevice", ctypes.byref(device))
    return device.value


class _CurrentStream:
    @property
    def cuda_stream(self) -> int:
        return backend.current_handle()


class CUDAGraph(backend.Graph):
    pass


@contextlib.contextmanager
def graph(captured: CUDAGraph) -> Iterator[None]:
    with captured.capture():
        yield


def install() -> None:
    """For the life of the process, in this thread."""
    replaced = {
        "is_available": lambda: True, "device_count": lambda: 2, "current_device": current_device, "synchronize": backend.wait,
        "current_stream": lambda device=None: _CurrentStream(), "Stream": backend.Stream, "stream": backend.stream,
        "is_current_stream_capturing": backend.is_capturing, "CUDAGraph": CUDAGraph, "graph": graph,
    }   # fmt: skip
    for name, value in replaced.items():
        setattr(torch.cuda, name, value)
    EmulatedCuda().__enter__()
