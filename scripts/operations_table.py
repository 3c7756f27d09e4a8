"""The table of docs/cpp.md: which operation runs on which instruction set, and on which dtypes.

    python scripts/operations_table.py            # writes it
    python scripts/operations_table.py --check    # writes nothing; exit code 1 if the page differs from the sources

Read are the table of kernels (cpp/src/tables/kernel_table.hpp), the lane types that it is filled for, and the launchers of the CUDA
backend (cuda/include). A kernel or launcher that no row below names is an error.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cpp.md"
TABLES = ROOT / "cpp" / "src" / "tables"
LANES = ROOT / "cpp" / "src" / "lanes"
LAUNCHERS = ROOT / "cuda" / "include" / "hushvec_cuda"
BLOCK = re.compile(r"(<!-- operations -->\n).*?(<!-- end of operations -->)", re.DOTALL)

# Operation -> its kernels, without the suffix of a dtype, and the launchers that do it on a GPU.
OPERATIONS: dict[str, tuple[str, str]] = {
    "key stream": ("keystream", ""),
    "noise alone, float grade": ("fill_gaussian fill_laplace", "fill_noise"),
    "norms, clip, search for NaN": (
        "sum_of_squares half_of_squares copy_and_square scale_row all_finite", "clip find_bad_row",
    ),
    "clip and noise, float grade": ("add_gaussian add_laplace", "clip_and_noise"),
    "clip and noise, exact, versions 1 and 2": ("exact_gaussian exact_laplace", "clip_and_noise settle"),
    "clip and noise, exact, version 3": (
        "half_gaussian half_laplace settle_gaussian settle_laplace", "clip_and_noise settle",
    ),
    "sums of clipped rows": ("sums_of_squares add_rows put_integers", "sum_scales add_to_sum release_sums settle_sums"),
    "correlated noise on sums": ("add_normals round_combination", "release_correlated settle_correlated"),
    "PrivUnitG": ("unit_normals privunit_round direction_products round_row", "privunit settle_privunit"),
    "inner products, nearest codes": ("inner_products", "nearest_codes"),
    "a key for each row": ("row_keys", ""),
    "discrete noise": ("place_words", "discrete_noise settle_discrete"),
    "clip and discrete noise": ("whole_sizes scale_whole add_whole", ""),
    "reports of bits": ("add_bit_rows", ""),
    "values of 16 and 8 bits": ("widen_float16 narrow_float16 narrow_int8", "int8_values"),
    "L2-Laplace noise": ("", "l2_laplace"),
    "randomized response": ("", "copy_codes randomized_response"),
    "rows of unit length": ("", "unit_rows"),
}
NO_OPERATION = {"load_kernels"}
WITHIN_KERNELS = {"key stream"}   # on a device: of ChaCha
NOT_TAKEN = {"nearest_codes": "float64"}
SUFFIXES = {"_f64": "float64", "_to_int32": "int32"}
# What kernels without a suffix take, where it is not float32.
DTYPES = {
    **dict.fromkeys(("keystream", "row_keys", "place_words", "add_bit_rows"), "words"),
    **dict.fromkeys(("whole_sizes", "scale_whole", "add_whole"), "int64"),
    **dict.fromkeys(("widen_float16", "narrow_float16"), "float16"),
    "narrow_int8": "int8",
}
# What a launcher takes, by the type of its argument.
ARGUMENTS = {
    "RowsArgument": ["float32", "float64", "float16", "bfloat16"],
    "OutArgument": ["float32", "float64", "float16", "bfloat16"],
    "PartArgument": ["float32", "float64", "float16", "bfloat16"],
    "SumArgument": ["float32"],
    "IntegersArgument": ["int64", "int32"],
    "CodesArgument": ["integers of 8 to 64 bits"],
}
NAMES = {"portable": "portable", "avx2": "AVX2", "avx512": "AVX-512", "neon": "NEON"}


def kernels() -> dict[str, list[str]]:
    """Name of a kernel without the suffix of a dtype -> dtypes that it is made for."""
    text = (TABLES / "kernel_table.hpp").read_text(encoding="utf-8")
    table = re.search(r"make_kernels\(.*?\n}\n", text, re.DOTALL)
    assert table
    found: dict[str, list[str]] = {}
    for name in re.findall(r"^ +\.(\w+) = (?:by_cipher<)?\w+<", table[0], re.MULTILINE):
        suffix = next((end for end in SUFFIXES if name.endswith(end)), "")
        base = name.removesuffix(suffix)
        found.setdefault(base, []).append(SUFFIXES.get(suffix) or DTYPES.get(base, "float32"))
    return found


def backends() -> dict[str, int]:
    """Instruction set -> lanes of 32 bits, of those for which the whole table is filled."""
    found = {}
    for path in TABLES.glob("table_*.cpp"):
        made = re.search(r'make_backend<\w+>\("(\w+)"', path.read_text(encoding="utf-8"))
        assert made, path
        lanes = re.search(r"constexpr std::size_t lanes = (\d+);", (LANES / f"{made[1]}.hpp").read_text(encoding="utf-8"))
        assert lanes, path
        found[made[1]] = int(lanes[1])
    return {name: found[name] for name in NAMES if name in found}


def launchers() -> dict[str, list[str]]:
    """Name of a launcher -> dtypes of the arrays that it takes."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(LAUNCHERS.glob("*.hpp")))
    found = {}
    for name, arguments in re.findall(r"^cudaError_t (\w+)\(([^;]*)\);", text, re.MULTILINE):
        taken = [kind for kind in ARGUMENTS if re.search(rf"\b{kind}\b", arguments)]
        found[name] = [dtype for dtype in (ARGUMENTS[taken[0]] if taken else []) if dtype != NOT_TAKEN.get(name)]
    return found


def table() -> str:
    """Raises ValueError where a kernel or a launcher belongs to no row, or a row names what is not there."""
    ours, sets, theirs = kernels(), backends(), launchers()
    named = {name for names, _ in OPERATIONS.values() for name in names.split()}
    launched = {name for _, names in OPERATIONS.values() for name in names.split()} | NO_OPERATION
    if differing := sorted((named ^ set(ours)) | (launched ^ set(theirs))):
        raise ValueError(f"OPERATIONS must name every kernel and launcher and no other, differs in {', '.join(differing)}")
    lines = [
        "| operation | elements | " + " | ".join(f"{NAMES[name]}, {lanes} lanes" for name, lanes in sets.items()) + " | CUDA |",
        "|---" * (len(sets) + 3) + "|",
    ]
    for operation, (names, on_device) in OPERATIONS.items():
        elements = list(dict.fromkeys(dtype for name in names.split() for dtype in ours[name])) or ["any"]
        marks = ["yes" if names else "without lanes"] * len(sets)
        devices = list(dict.fromkeys(dtype for name in on_device.split() for dtype in theirs[name]))
        device = "in every kernel" if operation in WITHIN_KERNELS else ", ".join(devices) or "no"
        lines.append(f"| {operation} | {', '.join(elements)} | {' | '.join(marks)} | {device} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page differs from the sources")
    check = parser.parse_args(arguments).check
    text = PAGE.read_text(encoding="utf-8")
    written = BLOCK.sub(lambda match: match[1] + table() + match[2], text)
    if check:
        if written != text:
            print("docs/cpp.md differs from the sources: run scripts/operations_table.py", file=sys.stderr)
        return int(written != text)
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
