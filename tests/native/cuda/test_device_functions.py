"""Functions of the standard library in device code.

libstdc++ makes some of them of builtins that nvcc has for the host alone. In device code nvcc then compiles a call to a constant
and warns of nothing, since the call stands in a system header. So each function that device code uses is compiled here, and its
PTX must work on what it is given.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLACES = [ROOT / place for place in ("cuda/src", "cuda/include", "cpp/include", "cpp/src")]

DOUBLE, FLOAT, WORD, LONG = "double", "float", "std::uint32_t", "std::uint64_t"

# Name: calls of an x, by the type of x.
ON_DEVICE = {
    "__builtin_clz": {WORD: "__builtin_clz(x)"},
    "__builtin_clzll": {LONG: "__builtin_clzll(x)"},
    "std::abs": {DOUBLE: "std::abs(x)", FLOAT: "std::abs(x)", "std::int32_t": "std::abs(x)"},
    "std::bit_cast": {DOUBLE: "std::bit_cast<std::uint64_t>(x)", WORD: "std::bit_cast<float>(x)"},
    "std::clamp": {DOUBLE: "std::clamp(x, 1.0, 2.0)"},
    "std::cos": {DOUBLE: "std::cos(x)", FLOAT: "std::cos(x)"},
    "std::fabs": {DOUBLE: "std::fabs(x)", FLOAT: "std::fabs(x)"},
    "std::fma": {DOUBLE: "std::fma(x, x, x)", FLOAT: "std::fma(x, x, x)"},
    "std::fmax": {FLOAT: "std::fmax(x, 1.0f)"},
    "std::fmin": {FLOAT: "std::fmin(x, 1.0f)"},
    "std::frexp": {DOUBLE: "[&] { int exponent; std::frexp(x, &exponent); return exponent; }()"},
    "std::ilogb": {DOUBLE: "std::ilogb(x)"},
    "std::isfinite": {DOUBLE: "std::isfinite(x)", FLOAT: "std::isfinite(x)"},
    "std::isnan": {DOUBLE: "std::isnan(x)", FLOAT: "std::isnan(x)"},
    "std::ldexp": {DOUBLE: "std::ldexp(x, 3)", "int": "std::ldexp(1.5, x)"},
    "std::log": {DOUBLE: "std::log(x)"},
    "std::log2": {FLOAT: "std::log2(x)"},
    "std::max": {"std::size_t": "std::max(x, std::size_t{7})", "int": "std::max(x, 7)"},
    "std::min": {"std::size_t": "std::min(x, std::size_t{7})", "int": "std::min(x, 7)"},
    "std::nextafter": {DOUBLE: "std::nextafter(x, 0.0)"},
    "std::rint": {DOUBLE: "std::rint(x)"},
    "std::sin": {DOUBLE: "std::sin(x)", FLOAT: "std::sin(x)"},
    "std::sqrt": {DOUBLE: "std::sqrt(x)", FLOAT: "std::sqrt(x)"},
    "std::trunc": {DOUBLE: "std::trunc(x)", FLOAT: "std::trunc(x)"},
}  # fmt: skip

# In the same headers, but only the host's pass compiles the call.
ON_HOST = {
    "__builtin_bswap64": "blocks of AES, of which a device has none",
    "__builtin_prefetch": "kernels of the CPU's lanes",
    "std::abort": "behind a lane's pool that is full, beside __trap of a device",
    "std::any_of": "launchers",
    "std::atomic_ref": "the host's half of atomic_add",
    "std::countr_zero": "kernels of the CPU's lanes",
    "std::memcpy": "the host's half of copy_16_bytes",
    "std::span": "a type",
}

# What nvcc 13.0 gets wrong. If it no longer does, this says so, and the tests below may still catch the next.
BROKEN = {
    "std::bit_width": {LONG: "std::bit_width(x)"},
    "std::countl_zero": {LONG: "std::countl_zero(x)"},
    "std::countr_zero": {LONG: "std::countr_zero(x)"},
    "std::popcount": {LONG: "std::popcount(x)"},
}


def device_sources():
    """The .cu files and what they include of the project, without comments."""
    found, left = {}, sorted(PLACES[0].glob("*.cu"))
    while left:
        path = left.pop()
        if path in found:
            continue
        text = path.read_text()
        found[path] = re.sub(r"//.*", "", text)
        for name in re.findall(r'#include "([^"]+)"', text):
            left.append(next((place / name).resolve() for place in [path.parent, *PLACES] if (place / name).exists()))
    return found


def used_functions(text):
    """Names of calls such as std::fma(, std::bit_cast<float>( and __builtin_clz(. A pointer, std::size_t (*name)(...), is no call."""
    return set(re.findall(r"\b(std::[a-z0-9_]+|__builtin_[a-z0-9_]+)\s*(?:<[^<>;(){}]*>)?\s*\((?!\*\w+\)\()", text))


def kernels_of(table):
    """Each call as a kernel: (its name, its source)."""
    calls = [(name, type_, call) for name, types in table.items() for type_, call in types.items()]
    return {
        f"{name} of {type_}": f"__global__ void kernel_{i}(const {type_}* in, double* out) {{ const {type_} x = *in; *out = {call}; }}"
        for i, (name, type_, call) in enumerate(calls)
    }


def ptx_of(sources, folder):
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH: no device code can be compiled")
    headers = "".join(f"#include <{name}>\n" for name in ("algorithm", "bit", "cmath", "cstdint"))
    (folder / "functions.cu").write_text(headers + "\n".join(sources))
    options = ["-std=c++20", "-O3", "-arch=compute_90", "-fmad=false", "--expt-relaxed-constexpr", "-ptx", "-o", "functions.ptx"]
    subprocess.run(["nvcc", *options, "functions.cu"], cwd=folder, check=True, capture_output=True, text=True)
    return (folder / "functions.ptx").read_text()


def works_on_its_input(body):
    """Whether what a kernel stores comes from what it loads: by registers, or by a branch that they decide."""
    lines = [line.strip() for line in body.splitlines()]
    from_input = set()
    while True:
        before = len(from_input)
        for line in lines:
            registers = re.findall(r"%[a-z]+\d+", line)
            if line.startswith("st.global"):
                continue
            if line.startswith("ld.global") or from_input & set(registers[1:]):
                from_input |= set(registers[:1])
            elif re.match(r"@!?%p\d+\s+bra", line) and from_input & set(registers):
                return True
        if len(from_input) == before:
            break
    stores = [line for line in lines if line.startswith("st.global")]
    return bool(stores) and all(from_input & set(re.findall(r"%[a-z]+\d+", line)[1:]) for line in stores)


def verdicts(table, folder):
    """Whether each call works on a device."""
    sources = kernels_of(table)
    ptx = ptx_of(sources.values(), folder)
    assert ".extern" not in ptx, "a function that no device has"
    bodies = re.split(r"\.visible \.entry _Z\d+kernel_(\d+)", ptx)[1:]
    by_number = dict(zip(map(int, bodies[::2]), bodies[1::2], strict=True))
    assert len(by_number) == len(sources)
    return {name: works_on_its_input(by_number[i]) for i, name in enumerate(sources)}


def test_device_code_uses_no_function_that_is_not_listed_here():
    listed = ON_DEVICE.keys() | ON_HOST.keys()
    sources = device_sources()
    assert len(sources) > 80
    unknown = {str(path.relative_to(ROOT)): names for path, text in sources.items() if (names := used_functions(text) - listed)}
    assert not unknown, f"add these to the table, and see whether nvcc compiles them: {unknown}"
    used = set().union(*map(used_functions, sources.values()))
    assert listed <= used, f"no longer used: {listed - used}"


def test_listed_functions_work_on_a_device(tmp_path):
    found = verdicts(ON_DEVICE, tmp_path)
    assert all(found.values()), [name for name, works in found.items() if not works]


def test_a_function_that_does_not_is_noticed(tmp_path):
    found = verdicts(BROKEN, tmp_path)
    assert not any(found.values()), [name for name, works in found.items() if works]


def test_names_of_functions():
    text = "std::fma(a, b) + std::bit_cast<std::uint32_t>(x) + std::numeric_limits<double>::max() + __builtin_clz (y) + std::min(1, 2)"
    assert used_functions(text) == {"std::fma", "std::bit_cast", "__builtin_clz", "std::min"}
    assert used_functions("std::size_t (*find)(int); std::abs(*x); std::fabs((*f)(x))") == {"std::abs", "std::fabs"}
