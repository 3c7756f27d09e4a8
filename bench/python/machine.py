"""What a figure depends on: the CPU, its caches, the system, and the versions of everything."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

FLAGS_OF_INTEREST = (
    "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vbmi2",
    "aes", "vaes", "vpclmulqdq", "asimd", "sve", "hypervisor",
)
PACKAGES = (
    "hushvec", "numpy", "scipy", "mkl", "torch", "randomgen", "cryptography", "opendp",
    "dp-accounting",
)
CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


def _cpuinfo() -> dict[str, str]:
    """The first processor of /proc/cpuinfo, where there is one."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text(encoding="utf-8").split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _sysctl(name: str) -> str:
    try:
        return subprocess.run(
            ["sysctl", "-n", name], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _caches() -> dict[str, str]:
    found = {}
    for index in sorted(CACHE_FOLDER.glob("index*")):
        kind = (index / "type").read_text(encoding="utf-8").strip()
        if kind != "Instruction":
            level = (index / "level").read_text(encoding="utf-8").strip()
            found[f"L{level}"] = (index / "size").read_text(encoding="utf-8").strip()
    return found


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def facts(backends: Any) -> dict[str, Any]:
    """Today's date, machine, software and `hushvec.backends()`; no name of a host or a user."""
    cpu = _cpuinfo()
    flags = (cpu.get("flags") or cpu.get("Features") or "").split()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": {
            "cpu": cpu.get("model name") or _sysctl("machdep.cpu.brand_string")
            or platform.processor(),
            "vendor": cpu.get("vendor_id", ""),
            "family_model_stepping": [
                cpu.get(key, "") for key in ("cpu family", "model", "stepping")
            ],
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "flags": [flag for flag in FLAGS_OF_INTEREST if flag in flags],
            "caches": _caches(),
            "system": platform.system(),
            "kernel": platform.release(),
            "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        },
        "software": {
            "python": platform.python_version(),
            "python_compiler": platform.python_compiler(),
            "numpy_simd": np.show_config(mode="dicts").get("SIMD Extensions", {}),
            "packages": _versions(),
            "hushvec_backends": backends,
        },
    }


def heading(record: dict[str, Any]) -> str:
    """Three lines for the top of the printed report."""
    machine, software = record["machine"], record["software"]
    caches = ", ".join(f"{level} {size}" for level, size in machine["caches"].items())
    packages = ", ".join(f"{name} {version}" for name, version in software["packages"].items())
    backends = software["hushvec_backends"]
    return "\n".join((
        f"{machine['cpu']}, {machine['cores']} cores, {caches or 'caches unknown'}, "
        f"flags: {' '.join(machine['flags'])}, load average {machine['load_average']}",
        f"{machine['system']} {machine['kernel']}, Python {software['python']}, {packages}",
        f"hushvec backends: {backends if backends is not None else 'not installed'}",
    ))
