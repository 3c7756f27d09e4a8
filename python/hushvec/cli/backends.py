"""`hushvec backends`: which instruction sets this build has, this machine runs, and are in use, and how keys in memory are
protected."""

from __future__ import annotations

from typing import Any

from hushvec._native import _core
from hushvec._native.kernels import backends
from hushvec.cli._output import answered, facts
from hushvec.cli._parser import Command
from hushvec.secure_memory import status


class Backends(
    Command,
    name="backends",
    examples=(("what this machine runs", "hushvec backends"), ("the same without AVX-512", "HUSHVEC_BACKEND=avx2 hushvec backends")),
):
    """Show the instruction sets and the AES implementations of this build, and how this system protects keys in memory.
    HUSHVEC_BACKEND and HUSHVEC_AES force one, HUSHVEC_NUM_THREADS sets the threads."""

    def run(self) -> int:
        report = {
            **backends(),
            "threads": _core.get_num_threads(),
            "version": _core.__version__,
            "format_versions": _core.format_versions,
            "memory": status()["protections"],
        }
        flat = {**report, **{f"{name} {one}": of for name in ("aes", "memory") for one, of in report[name].items()}}
        return answered(self, report, facts([(name, _text(value)) for name, value in flat.items() if name not in ("aes", "memory")]))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
