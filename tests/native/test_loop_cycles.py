"""Cycles that the loops of noise, clipping and key streams take, on processors that need not be here: llvm-mca reads the machine
code of the AVX-512 and AVX2 sets and of AES in build/dev.

It takes every load from the first-level cache and foresees every branch, so it says how well instructions go through the ports of
a processor, and nothing of memory or of what stays open. The figures are of one compiler and one release of LLVM: models differ.
"""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from native.machine_code import Instruction, functions_of, loops, spans

ROOT = Path(__file__).parents[2]
COMPILER, LLVM = "GCC 12", "19"
MORE = 0.015   # a loop that takes this much longer fails: one multiply-add more for 32 samples on AVX-512
ITERATIONS = 200

# By object: the register of a whole vector, and the processors that the budgets are for. Those with AVX-512 run the first object.
OBJECTS = {
    "table_avx512": ("%zmm", ("znver4", "sapphirerapids")),
    "aes_vaes512": ("%zmm", ("znver4", "sapphirerapids")),
    "table_avx2": ("%ymm", ("znver3", "haswell")),
    "aes_vaes256": ("%ymm", ("znver3", "alderlake")),
    "aes_ni": ("%xmm", ("znver3", "haswell")),
}

# Function, then its loops in the order of the code: how many samples, or words of a key stream, each makes when it goes round once.
# Of those in inner brackets, versions of one loop, the slowest counts. Then cycles for 32 samples on each processor, of ChaCha those
# of a double round. Change them with a loop, in the same commit, and say why.
BUDGETS = {
    "table_avx512": {
        "half_gaussian_loop<Avx512, float>": ((256, 128), (37.94, 37.23)),
        "half_gaussian_loop<Avx512, double>": ((256, 128), (56.37, 53.56)),
        "half_laplace_loop<Avx512, float>": ((64, 64), (34.00, 41.22)),
        "half_laplace_loop<Avx512, double>": ((64, 64), (60.08, 59.48)),
        "exact_gaussian_loop<Avx512, float>": ((64, 32), (42.25, 44.15)),
        "exact_laplace_loop<Avx512, float>": ((16,), (41.08, 42.68)),
        "add_gaussian_loop<Avx512>": ((64, 32), (34.32, 36.32)),
        "add_laplace_loop<Avx512>": ((16,), (28.54, 38.50)),
        "fill_gaussian_loop<Avx512>": ((64, 32), (32.46, 34.33)),
        "fill_laplace_loop<Avx512>": ((16,), (27.57, 34.57)),
        "copy_and_square<Avx512, float>": ((32,), (8.09, 8.10)),
        "sum_of_squares<Avx512, float>": ((32,), (8.08, 8.06)),
        "scale_row<Avx512>": ((16,), (2.13, 2.26)),
        "keystream<Avx512, ChaChaLanes<Avx512>>": ((256,), (6.00, 6.00)),
    },
    "aes_vaes512": {"aes_keystream<Vaes512>": ((256,), (15.26, 28.03))},
    "table_avx2": {
        "half_gaussian_loop<Avx2, float>": ((32, 32, 16), (57.37, 82.92)),
        "half_gaussian_loop<Avx2, double>": ((32, 32, 16), (82.99, 125.52)),
        "half_laplace_loop<Avx2, float>": ((16, 64), (68.13, 99.16)),
        "half_laplace_loop<Avx2, double>": ((16, 8), (97.84, 134.95)),
        "exact_gaussian_loop<Avx2, float>": ((32, 16), (73.59, 96.81)),
        "exact_laplace_loop<Avx2, float>": ((8,), (101.42, 168.26)),
        "add_gaussian_loop<Avx2>": ((32, 16), (50.27, 68.41)),
        "add_laplace_loop<Avx2>": ((8,), (71.34, 117.18)),
        "fill_gaussian_loop<Avx2>": ((32, 16), (46.70, 63.97)),
        "fill_laplace_loop<Avx2>": ((8,), (69.20, 95.90)),
        "copy_and_square<Avx2, float>": ((8, 32), (12.30, 15.29)),
        "sum_of_squares<Avx2, float>": ((32,), (8.08, 9.09)),
        "scale_row<Avx2>": ((8,), (4.26, 8.28)),
        "keystream<Avx2, ChaChaLanes<Avx2>>": ((128,), (15.01, 15.54)),
    },
    "aes_vaes256": {"aes_keystream<Vaes256>": ((64,), (28.05, 28.12))},
    "aes_ni": {"aes_keystream<AesNi>": ((32,), (57.11, 112.11))},
}
CASES = [(name, function) for name, functions in BUDGETS.items() for function in functions]


@cache
def analyzer():
    for name in (f"llvm-mca-{LLVM}", "llvm-mca"):
        if (found := shutil.which(name)) is None:
            continue
        version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
        if re.search(rf"LLVM version {LLVM}\.", version):
            return found
    pytest.skip(f"llvm-mca {LLVM} is not on PATH: apt-get install llvm-{LLVM}; older ones lack znver4, others count otherwise")


@cache
def functions(name):
    objects = sorted((ROOT / "build/dev").glob(f"**/tables/{name}.cpp.o"))
    if not objects or shutil.which("objdump") is None:
        pytest.skip(f"build/dev has no {name}.cpp.o, or objdump is missing: make dev")
    comment = subprocess.run(["objdump", "-s", "-j", ".comment", objects[0]], capture_output=True, text=True).stdout
    said = "".join(line[44:] for line in comment.splitlines() if line.startswith(" "))
    if not re.search(rf"{COMPILER.replace(' ', ': .*')}\.\d+\.\d+", said):
        pytest.skip(f"the budgets are for code of {COMPILER}, and build/dev is of {said.strip('.') or 'another compiler'}")
    return functions_of(objects[0])


def is_wide(i, register):
    return i.opcode.startswith("v" if register != "%xmm" else ("v", "aes", "p")) and register in i.operands


def hot(code, register):
    """Innermost loops that work on whole vectors: no calls, few branches, and most of what they do is in the widest registers."""
    found = []
    for body in loops(code):
        inside = [i for i in body[:-1] if i.target is not None]
        if any(i.opcode.startswith("call") for i in body) or len(inside) > 2 or any(i.target <= i.address for i in inside):
            continue
        wide = sum(is_wide(i, register) for i in body)
        if wide < max(2, 0.4 * len(body)):
            continue
        if not found or body[0].address > found[-1][-1].address:   # and not one that enters the last one elsewhere
            found.append(body)
    return found


def laid_out(code, found, register):
    """What is around the only hot loop in the loop around it, where that is as much: a loop that the compiler has unrolled."""
    if len(found) != 1:
        return []
    (inner,) = found
    for outer in loops(code):
        if spans(inner, outer):
            rest = [i for i in outer[:-1] if i.target is None and not inner[0].address <= i.address <= inner[-1].address] + outer[-1:]
            return [rest] if sum(is_wide(i, register) for i in rest) >= sum(is_wide(i, register) for i in inner) else []
    return []


def region(name, body):
    lines = [f"{i.opcode} {'again' + name if i.target is not None else i.operands}" for i in body]
    return "\n".join([f"# LLVM-MCA-BEGIN {name}", f"again{name}:", *lines, f"# LLVM-MCA-END {name}"])


def cycles(bodies, processor):
    """Of each of these loops, for going round once."""
    text = "\n".join(region(str(number), body) for number, body in enumerate(bodies)) + "\n"
    what = ("-all-views=false", "-summary-view", "-json")
    command = [analyzer(), "-mtriple=x86_64", f"-mcpu={processor}", f"-iterations={ITERATIONS}", *what]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    return [one["SummaryView"]["TotalCycles"] / ITERATIONS for one in json.loads(done.stdout)["CodeRegions"]]


def phases(samples):
    return [one if isinstance(one, tuple) else (one,) for one in samples]


def bodies_of(found, name, function):
    """The hot loops of a function, as many as the table has."""
    assert len(found.get(function, ())) == 1, f"{name}.cpp.o has {len(found.get(function, ()))} functions of the name {function}"
    bodies = hot(found[function][0], OBJECTS[name][0])
    wanted = sum(map(len, phases(BUDGETS[name][function][0])))
    if len(bodies) < wanted:
        bodies = laid_out(found[function][0], bodies, OBJECTS[name][0]) + bodies
    assert len(bodies) == wanted, f"{function} has {len(bodies)} loops on whole vectors, {wanted} are in the table"
    return bodies


def for_32_samples(taken, samples):
    taken = iter(taken)
    return sum(max(32 / each * next(taken) for each in phase) for phase in phases(samples))


@cache
def measured(name):
    """Cycles for 32 samples of each function of the table on each processor, from one call of llvm-mca a processor."""
    bodies = {function: bodies_of(functions(name), name, function) for function in BUDGETS[name]}
    result = {function: [] for function in bodies}
    for processor in OBJECTS[name][1]:
        taken = iter(cycles([body for of_one in bodies.values() for body in of_one], processor))
        for function, of_one in bodies.items():
            result[function].append(for_32_samples([next(taken) for _ in of_one], BUDGETS[name][function][0]))
    return result


@pytest.mark.parametrize(("name", "function"), CASES)
def test_a_loop_takes_no_more_cycles_than_its_budget(name, function):
    budgets = BUDGETS[name][function][1]
    for processor, budget, taken in zip(OBJECTS[name][1], budgets, measured(name)[function], strict=True):
        assert 0.9 * budget < taken <= (1 + MORE) * budget, f"{processor}: {taken:.1f} cycles for 32 samples, not about {budget}"


def slower(body, register):
    """A loop with every sixteenth operation on whole vectors done twice."""
    wide = [i for i in body if is_wide(i, register)][::16]
    return [again for i in body for again in [i] * (1 + (i in wide))]


@pytest.mark.parametrize("name", BUDGETS)
def test_a_loop_with_more_operations_is_over_its_budget(name):
    register, (processor, *_) = OBJECTS[name]
    for function, (samples, (budget, *_)) in BUDGETS[name].items():
        taken = cycles([slower(body, register) for body in bodies_of(functions(name), name, function)], processor)
        assert for_32_samples(taken, samples) > (1 + MORE) * budget, function


@pytest.mark.parametrize("change", ["gone", "renamed", "without a branch back", "in scalars"])
def test_a_loop_that_is_not_there_is_a_failure(change):
    name, function = CASES[0]
    found = dict(functions(name))
    if change == "gone":
        del found[function]
    elif change == "renamed":
        found["other_loop<Avx512, float>"] = found.pop(function)
    else:
        register, targets = ("%xmm", True) if change == "in scalars" else ("%zmm", False)
        code = found[function][0]
        words = [(i.address, i.opcode, i.operands.replace("%zmm", register), i.target if targets else None) for i in code]
        found[function] = [[Instruction(*word) for word in words]]
    with pytest.raises(AssertionError, match=r"functions of the name half_ga|has 0 loops on whole vectors, 2 are in the table"):
        bodies_of(found, name, function)


def test_loops_are_found_by_their_branches():
    add, back = Instruction(4, "vaddps", "%zmm1,%zmm2,%zmm2"), Instruction(16, "jne", "4", 4)
    body = [add, Instruction(8, "vmulps", "%zmm2,%zmm3,%zmm3"), Instruction(12, "add", "$0x40,%rax"), back]
    outer = [Instruction(0, "mov", "%rdi,%rax"), *body, Instruction(20, "jne", "0", 0)]
    assert hot(outer, "%zmm") == [body]
    assert hot([*outer[:1], add, Instruction(8, "call", "f"), *body[2:]], "%zmm") == []
    assert hot(outer, "%ymm") == []
