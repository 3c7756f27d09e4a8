"""Builds the emulated device: nvcc's PTX, translated, compiled, and linked with the project's own objects.

    python tests/native/cuda/ptx/build.py [--arch compute_90] [--nvcc nvcc] [--work build/ptx] [-- arguments of test_launchers]

Needs `make dev native CUDA=ON` (the host's side of device code and test_launchers are taken from build/dev), nvcc and an x86-64 processor.
What did not change since the last time is not made again.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TypeVar

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))

from native.cuda.ptx.translate import translate  # noqa: E402

# Not -march=native: a cached object may run on another machine. Registers hold bits, and contraction would change them.
COMPILE = ["-std=c++20", "-w", f"-I{HERE / 'emulator'}"]
GENERATED = ["g++", *COMPILE, "-O1", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing"]


LAUNCHERS = "tests/native/cuda/test_launchers"

Item, Made = TypeVar("Item"), TypeVar("Made")


class NotBuilt(Exception):
    """Something that the emulated device needs is missing; the text says what."""


@dataclass(frozen=True)
class Settings:
    arch: str = "compute_90"
    nvcc: str = "nvcc"
    host: Path = ROOT / "build/dev"    # objects of the host
    source: Path = ROOT                # the tree whose device code is compiled
    work: Path = ROOT / "build/ptx"

    @property
    def folder(self) -> Path:
        return self.work / self.arch


class Cache:
    """Which inputs a file was made from: by their contents, as a checkout changes times."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "made_from.json"
        self._keys: dict[str, str] = json.loads(self._path.read_text()) if self._path.exists() else {}
        self._lock = Lock()   # several files are made at once

    def is_fresh(self, made: Path, key: str) -> bool:
        return made.exists() and self._keys.get(made.name) == key

    def remember(self, made: Path, key: str) -> None:
        with self._lock:
            self._keys[made.name] = key
            beside = self._path.with_suffix(f".{os.getpid()}")
            beside.write_text(json.dumps(self._keys, indent=1))
            beside.replace(self._path)


def _digest(*parts: str | bytes | Path) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}\n{(done.stderr or done.stdout)[-3000:]}")


def _device_flags(host: Path, source: str) -> list[str]:
    """Those of the build that decide what the device code of a file becomes."""
    commands = json.loads((host / "compile_commands.json").read_text())
    words = shlex.split(next(entry["command"] for entry in commands if entry["file"].endswith(source)))
    system = [f"-I{words[i + 1]}" for i, word in enumerate(words) if word == "-isystem"]
    return [word for word in words if word.startswith(("-D", "-O", "-std=", "-fmad", "--expt"))] + system


def device_sources(settings: Settings) -> list[str]:
    return sorted(str(path.relative_to(settings.source)) for path in (settings.source / "cuda/src").glob("*.cu"))


def _headers(settings: Settings) -> list[Path]:
    folders = ("cuda/src", "cuda/include", "cpp/src", "cpp/include")
    return sorted(path for folder in folders for ending in ("hpp", "cuh") for path in (settings.source / folder).rglob(f"*.{ending}"))


def make_ptx(settings: Settings, cache: Cache, sources: Sequence[str]) -> list[Path]:
    version = subprocess.run([settings.nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    includes = [f"-I{settings.source / folder}" for folder in ("cuda/include", "cuda/src", "cpp/include", "cpp/src")]
    headers = _digest(version, *_headers(settings))

    def compile_one(name: str) -> Path:
        flags, source = [*_device_flags(settings.host, name), f"-arch={settings.arch}"], settings.source / name
        made, key = settings.folder / f"{source.stem}.ptx", _digest(headers, " ".join(flags), source)
        if not cache.is_fresh(made, key):
            _run([settings.nvcc, *flags, "-ptx", *includes, str(source), "-o", str(made)])
            cache.remember(made, key)
        return made

    return _at_once(compile_one, sources)


def make_modules(modules: list[Path], cache: Cache) -> list[Path]:
    """An object for each module with kernels."""
    translation = _digest(*(HERE / name for name in ("syntax.py", "instructions.py", "translate.py")))
    included = _digest(" ".join(GENERATED), *(HERE / "emulator" / name for name in ("arithmetic.hpp", "thread.hpp")))

    def compile_one(ptx: Path) -> Path | None:
        generated, made = ptx.with_suffix(".cpp"), ptx.with_suffix(".o")
        key = _digest(translation, ptx)
        if not cache.is_fresh(generated, key):
            generated.write_text(translate(ptx.read_text(), ptx.stem))
            cache.remember(generated, key)
        if generated.stat().st_size == 0:
            return None
        key = _digest(included, generated)
        if not cache.is_fresh(made, key):
            _run([*GENERATED, "-c", str(generated), "-o", str(made)])
            cache.remember(made, key)
        return made

    made = _at_once(compile_one, sorted(modules, key=lambda path: -path.stat().st_size))   # the largest first
    return [path for path in made if path is not None]


def make_emulator(settings: Settings, cache: Cache) -> list[Path]:
    # nvcc for the sake of the runtime's headers, whose place it knows.
    command = [settings.nvcc, *COMPILE, "-x", "c++", "-O2", "-Xcompiler=-fPIC,-ffp-contract=off"]
    headers = _digest(" ".join(command), *sorted((HERE / "emulator").glob("*.hpp")))

    def compile_one(source: Path) -> Path:
        made, key = settings.folder / f"emulator_{source.stem}.o", _digest(headers, source)
        if not cache.is_fresh(made, key):
            _run([*command, "-c", str(source), "-o", str(made)])
            cache.remember(made, key)
        return made

    return _at_once(compile_one, sorted((HERE / "emulator").glob("*.cpp")))


def _at_once(make: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(make, items))


def objects(settings: Settings, sources: Sequence[str]) -> list[Path]:
    """Those of these sources with device code, and of the emulator."""
    if platform.machine() != "x86_64":
        raise NotBuilt(f"device code cannot be run here: the processor is {platform.machine()}, not x86_64")
    if shutil.which(settings.nvcc) is None:
        raise NotBuilt(f"device code cannot be run here: {settings.nvcc} was not found")
    if not (settings.host / "libhushvec_cuda.a").exists():
        raise NotBuilt(f"device code cannot be run here: {settings.host} has no libhushvec_cuda.a (make dev CUDA=ON)")
    settings.folder.mkdir(parents=True, exist_ok=True)
    with (settings.folder / "lock").open("w") as lock:   # tests run at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        cache = Cache(settings.folder)
        return make_emulator(settings, cache) + make_modules(make_ptx(settings, cache, sources), cache)


def _link(made: Path, inputs: list[Path], settings: Settings, *options: str) -> Path:
    libraries = [settings.host / "libhushvec_cuda.a", settings.host / "libhushvec.a"]
    beside = made.with_name(f"{made.name}.{os.getpid()}")
    _run(["g++", *options, "-o", str(beside), *map(str, inputs), *map(str, libraries), "-lpthread", "-ldl", "-lrt"])
    return beside.replace(made)


def _object_of(settings: Settings, place: str) -> Path:
    folder, name = place.rsplit("/", 1)
    made = settings.host / folder / f"CMakeFiles/{name}.dir/{name}.cu.o"
    if not made.exists():
        raise NotBuilt(f"device code cannot be run here: {made} is missing (make native)")
    return made


def program(settings: Settings, place: str = LAUNCHERS, *, has_kernels: bool = False) -> Path:
    """A program of the build, linked with the emulated device. `has_kernels`: in its own file too."""
    own = _object_of(settings, place)
    sources = [*device_sources(settings), *([f"{place}.cu"] if has_kernels else [])]
    return _link(settings.folder / place.rsplit("/", 1)[1], [own, *objects(settings, sources)], settings)


def mutant(settings: Settings, folder: Path, module: str, header: str, old: str, new: str) -> Path:
    """test_launchers with one text of the device code replaced by another, as one module, `module`, is compiled."""
    for name in ("cuda", "cpp"):
        shutil.copytree(settings.source / name, folder / "source" / name)
    path = folder / "source" / header
    if path.read_text().count(old) != 1:
        raise ValueError(f"{header} must hold the text once: {old}")
    path.write_text(path.read_text().replace(old, new))
    source = f"cuda/src/{module}.cu"
    others = [made for made in objects(settings, device_sources(settings)) if made.name != f"{module}.o"]
    changed = objects(replace(settings, source=folder / "source", work=folder), [source])
    own = [made for made in changed if made.name == f"{module}.o"]
    return _link(folder / "test_launchers", [_object_of(settings, LAUNCHERS), *others, *own], settings)


def python_module(settings: Settings) -> Path:
    """hushvec._native._cuda, linked with the emulated device."""
    own = sorted((settings.host / "CMakeFiles/_cuda.dir").rglob("*.o"))
    made = settings.folder / f"_cuda{sysconfig.get_config_var('EXT_SUFFIX')}"
    return _link(made, [*own, *objects(settings, device_sources(settings))], settings, "-shared", "-Wl,-Bsymbolic")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="compute_90")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--work", type=Path, default=ROOT / "build/ptx")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        built = program(Settings(arch=options.arch, nvcc=options.nvcc, work=options.work))
    except NotBuilt as reason:
        print(reason)
        return 77
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    code = subprocess.run([built, *options.arguments]).returncode
    print(f"ran in {time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
