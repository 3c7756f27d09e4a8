"""Builds the emulated device: nvcc's PTX, translated, compiled, and linked with the project's own objects.

    python tests/native/cuda/ptx/build.py [--arch compute_90] [--nvcc nvcc] [--work build/ptx] [-- arguments of test_launchers]

Needs `make dev native` (the host's side of device code and test_launchers are taken from build/dev), nvcc and an x86-64 processor. What did not
change since the last time is not made again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))

from native.cuda.ptx.translate import translate  # noqa: E402

# Not -march=native: a cached object may run on another machine. Registers hold bits, and contraction would change them.
COMPILE = ["-std=c++20", "-w", f"-I{HERE / 'emulator'}"]
GENERATED = ["g++", *COMPILE, "-O1", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing"]


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

    def is_fresh(self, made: Path, key: str) -> bool:
        return made.exists() and self._keys.get(made.name) == key

    def remember(self, made: Path, key: str) -> None:
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


def _device_flags(host: Path) -> list[str]:
    """Those of the build that decide what device code becomes."""
    commands = json.loads((host / "compile_commands.json").read_text())
    entry = next(entry for entry in commands if entry["file"].endswith("cuda/src/fill.cu"))
    words = shlex.split(entry["command"])
    return [word for word in words if word.startswith(("-D", "-O", "-std=", "-fmad", "--expt"))]


def _sources(settings: Settings) -> list[Path]:
    return sorted((settings.source / "cuda/src").glob("*.cu"))


def _headers(settings: Settings) -> list[Path]:
    folders = ("cuda/src", "cuda/include", "cpp/src", "cpp/include")
    return sorted(path for folder in folders for path in (settings.source / folder).rglob("*.[hc]*h*") if path.suffix in (".hpp", ".cuh"))


def make_ptx(settings: Settings, cache: Cache) -> list[Path]:
    folder = settings.folder
    version = subprocess.run([settings.nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    flags = [*_device_flags(settings.host), f"-arch={settings.arch}"]
    includes = [f"-I{settings.source / folder}" for folder in ("cuda/include", "cuda/src", "cpp/include", "cpp/src")]
    shared = _digest(version, " ".join(flags), *_headers(settings))

    def compile_one(source: Path) -> Path:
        made, key = folder / f"{source.stem}.ptx", _digest(shared, source)
        if not cache.is_fresh(made, key):
            _run([settings.nvcc, *flags, "-ptx", *includes, str(source), "-o", str(made)])
            cache.remember(made, key)
        return made

    return _at_once(compile_one, _sources(settings))


def make_objects(modules: list[Path], settings: Settings, cache: Cache) -> list[Path]:
    """An object for each module with kernels, and those of the emulator."""
    translation = _digest(*(HERE / name for name in ("syntax.py", "instructions.py", "translate.py")))
    emulator = _digest(" ".join(GENERATED), *sorted((HERE / "emulator").glob("*.hpp")))
    def of_module(ptx: Path) -> Path | None:
        generated, made = ptx.with_suffix(".cpp"), ptx.with_suffix(".o")
        key = _digest(translation, ptx)
        if not cache.is_fresh(generated, key):
            generated.write_text(translate(ptx.read_text(), ptx.stem))
            cache.remember(generated, key)
        if generated.stat().st_size == 0:
            return None
        key = _digest(emulator, generated)
        if not cache.is_fresh(made, key):
            _run([*GENERATED, "-c", str(generated), "-o", str(made)])
            cache.remember(made, key)
        return made

    def of_emulator(source: Path) -> Path:
        made, key = settings.folder / f"emulator_{source.stem}.o", _digest(emulator, source)
        if not cache.is_fresh(made, key):
            # nvcc for the sake of the runtime's headers, whose place it knows.
            _run([settings.nvcc, *COMPILE, "-x", "c++", "-O2", "-Xcompiler=-fPIC,-ffp-contract=off", "-c", str(source), "-o", str(made)])
            cache.remember(made, key)
        return made

    own = _at_once(of_emulator, sorted((HERE / "emulator").glob("*.cpp")))
    translated = _at_once(of_module, sorted(modules, key=lambda path: -path.stat().st_size))   # the largest first
    return [path for path in translated if path is not None] + own


def _at_once(make, items):
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(make, items))


def objects(settings: Settings) -> list[Path]:
    if shutil.which(settings.nvcc) is None:
        raise NotBuilt(f"device code cannot be run here: {settings.nvcc} was not found")
    if not (settings.host / "libhushvec_cuda.a").exists():
        raise NotBuilt(f"device code cannot be run here: {settings.host} has no libhushvec_cuda.a (make dev)")
    settings.folder.mkdir(parents=True, exist_ok=True)
    cache = Cache(settings.folder)
    return make_objects(make_ptx(settings, cache), settings, cache)


def _link(made: Path, inputs: list[Path | str], settings: Settings, *options: str) -> Path:
    libraries = [settings.host / "libhushvec_cuda.a", settings.host / "libhushvec.a"]
    _run(["g++", *options, "-o", str(made), *map(str, inputs), *map(str, libraries), "-lpthread", "-ldl", "-lrt"])
    return made


def program(settings: Settings, object_name: str = "tests/native/cuda/CMakeFiles/test_launchers.dir/test_launchers.cu.o") -> Path:
    """A program of the build, linked with the emulated device."""
    own = settings.host / object_name
    if not own.exists():
        raise NotBuilt(f"device code cannot be run here: {own} is missing (make native)")
    return _link(settings.folder / own.name.split(".")[0], [own, *objects(settings)], settings)


def python_module(settings: Settings) -> Path:
    """hushvec._native._cuda, linked with the emulated device."""
    own = sorted((settings.host / "CMakeFiles/_cuda.dir").rglob("*.o"))
    suffix = subprocess.run([sys.executable, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"], capture_output=True, text=True, check=True).stdout.strip()
    return _link(settings.folder / f"_cuda{suffix}", [*own, *objects(settings)], settings, "-shared", "-Wl,-Bsymbolic")


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
