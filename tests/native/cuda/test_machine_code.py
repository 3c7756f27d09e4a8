"""Instructions per sample of the kernels that matter, counted in the machine code of sm_90; no device is needed, a disassembler is."""

import importlib.util
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ARCHITECTURE = "sm_90"
SAMPLES_OF_A_BLOCK = 16  # one thread, one ChaCha block

# Kernel (part of its mangled name): the most instructions a sample at 12 and at 20 rounds. A little above what nvcc 13.0 makes.
BUDGETS = {
    "rows_kernelIfNS0_8RowsBodyIfNS0_9NoiseWorkIfNS0_13ExactGaussianIfEELb1E": (80, 105),
    "rows_kernelIfNS0_8RowsBodyIfNS0_9NoiseWorkIfNS0_13ExactGaussianIfEELb0E": (88, 113),
    "fill_kernelINS0_8FillBodyIfNS0_13FloatGaussianIfE": (68, 93),
}

# Opcodes by the unit that they keep busy, for the message of a budget that does not hold.
UNITS = {
    "integer": ("LOP3", "SHF", "IADD3", "IADD", "LEA", "ISETP", "PRMT", "SEL", "FLO", "POPC", "IABS", "VIADD", "BMSK", "SGXT", "PLOP3"),
    "multiplier": ("IMAD",),
    "float32": ("FFMA", "FMUL", "FADD", "FSETP", "FMNMX", "FSEL", "FCHK"),
    "float64": ("DFMA", "DMUL", "DADD", "DSETP"),
    "special": ("MUFU",),
    "conversion": ("I2F", "F2I", "F2F", "I2FP", "F2FP", "HADD2"),
    "memory": ("LDG", "STG", "LDS", "STS", "LDL", "STL", "LDC", "LDGSTS", "ATOM", "RED"),
    "control": ("BRA", "BSSY", "BSYNC", "CALL", "RET", "EXIT", "BAR", "WARPSYNC", "NOP", "MOV", "S2R", "CS2R"),
}
# Those that make noise in every thread.
NOISE_BODIES = ("FillBody", "NoiseWork", "StreamNoiseBody", "SumNoiseBody")


def unit_of(opcode):
    return next((unit for unit, names in UNITS.items() if opcode.split(".")[0] in names), "other")


def disassembler():
    found = shutil.which("cuobjdump")
    spec = importlib.util.find_spec("triton")
    if found is None and spec is not None:
        candidate = Path(spec.origin).parent / "backends/nvidia/bin/cuobjdump"
        found = str(candidate) if candidate.exists() else None
    if found is None:
        pytest.skip("cuobjdump is neither on PATH nor in the package triton: install the CUDA toolkit or triton")
    return found


def compiled_module():
    spec = importlib.util.find_spec("hushvec._native._cuda")
    if spec is None:
        pytest.skip("hushvec was built without its CUDA backend: put nvcc on PATH and install it again")
    return Path(spec.origin)


def listed(what):
    """What the disassembler says of the compiled module."""
    tool = disassembler()
    command = [tool, what, "-arch", ARCHITECTURE, str(compiled_module())]
    environment = {"PATH": f"{Path(tool).parent}:/usr/bin:/bin"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


class Instruction:
    def __init__(self, address, opcode, operands):
        self.address, self.opcode = address, opcode
        target = re.search(r"0x([0-9a-f]+)", operands) if opcode.startswith("BRA") else None
        self.target = int(target.group(1), 16) if target else None


@pytest.fixture(scope="module")
def kernels():
    """Instructions of each kernel, by mangled name."""
    found, name = {}, None
    for line in listed("-sass").splitlines():
        if "Function :" in line:
            name = line.split("Function :")[1].strip()
            found[name] = []
        elif name and (match := re.match(r"\s+/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9_.]*)(.*)", line)):
            found[name].append(Instruction(int(match.group(1), 16), match.group(2), match.group(3)))
    assert found, "the disassembler listed no kernel"
    return found


@pytest.fixture(scope="module")
def compiled_stacks():
    """Bytes of stack of each kernel, by mangled name."""
    return {name: int(size) for name, size in re.findall(r"Function (\S+):\s+REG:\d+ STACK:(\d+)", listed("-res-usage"))}


def loops(code):
    """The bodies of loops: what a backward branch jumps over."""
    return [
        [i for i in code if branch.target <= i.address <= branch.address]
        for branch in code
        if branch.target is not None and branch.target < branch.address
    ]


def rare(code):
    """Addresses of stretches that a forward branch skips and that call a function: the ladder and the tails."""
    skipped = set()
    for branch in code:
        if branch.target is None or branch.target < branch.address:
            continue
        stretch = [i for i in code if branch.address < i.address < branch.target]
        if len(stretch) < 400 and any(i.opcode.startswith("CALL") for i in stretch):
            skipped |= {i.address for i in stretch}
    return skipped


def double_round_and_block(code):
    """(opcodes of a double round, those of a block with one double round left in it)."""
    double_rounds = [
        body for body in loops(code) if sum(i.opcode.startswith("SHF") for i in body) == 32 == sum(i.opcode.startswith("LOP3") for i in body)
    ]
    assert double_rounds, "no loop of 32 rotations and 32 exclusive ors"
    inner = double_rounds[0]
    outer = [body for body in loops(code) if len(body) > len(inner) and inner[0] in body]
    assert outer, "no loop over groups around the double rounds"
    skipped = rare(code)
    return [i.opcode for i in inner], [i.opcode for i in min(outer, key=len) if i.address not in skipped]


@pytest.mark.parametrize("name", BUDGETS)
def test_instructions_per_sample(kernels, name):
    (code,) = (code for mangled, code in kernels.items() if name in mangled)
    inner, block = double_round_and_block(code)
    for rounds, budget in zip((12, 20), BUDGETS[name], strict=True):
        # The loop runs rounds / 2 - 1 times: the first double round is written out, its first column done once for all.
        executed = block + (rounds // 2 - 2) * inner
        per_sample = len(executed) / SAMPLES_OF_A_BLOCK
        units = {unit: round(count / SAMPLES_OF_A_BLOCK, 1) for unit, count in Counter(map(unit_of, executed)).most_common()}
        assert 0.75 * budget < per_sample <= budget, f"{rounds} rounds: {per_sample:.1f} instructions a sample, {units}"


def test_kernels_of_noise_use_no_local_memory(kernels):
    noise = {name: code for name, code in kernels.items() if any(body in name for body in NOISE_BODIES)}
    assert all(any(body in name for name in noise) for body in NOISE_BODIES)
    used = {name: [i.opcode for i in code if i.opcode.startswith(("LDL", "STL"))] for name, code in noise.items()}
    assert not {name: opcodes for name, opcodes in used.items() if opcodes}


def test_no_kernel_needs_a_larger_stack_than_every_thread_has(compiled_stacks):
    """1,024 bytes by default. For more, the driver reallocates the stacks of all threads, which a graph capture must not contain."""
    assert len(compiled_stacks) > 50 and max(compiled_stacks.values()) <= 512


def test_unit_of_an_opcode():
    assert [unit_of(opcode) for opcode in ("LOP3.LUT", "IMAD.WIDE.U32", "FFMA", "MUFU.SQRT", "I2FP.F32.S32", "LDG.E.128", "FOO")] == [
        "integer", "multiplier", "float32", "special", "conversion", "memory", "other",
    ]  # fmt: skip
