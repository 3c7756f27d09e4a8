"""Instructions per sample of the kernels that matter, all phases, counted in the machine code of sm_90; no device is needed, a
disassembler is."""

import importlib.util
import math
import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from native.machine_code import Instruction, loops, spans

ARCHITECTURE = "sm_90"

# The tile of rows of 768: rows_body.hpp, tile_shape.hpp.
COLUMNS, ROWS = 768, 8
WARPS_OF_A_MULTIPROCESSOR = 24
REGISTERS_OF_A_MULTIPROCESSOR = 65536

# Kernel (part of its mangled name): the most instructions a sample at 12 and at 20 rounds. A little above what nvcc 13.0 makes.
ROWS_KERNEL = "rows_kernel{0}NS0_8RowsBodyI{1}NS0_9NoiseWorkI{1}NS0_1{2}"
HALF_ROWS_KERNEL = "rows_kernel{0}NS0_8RowsBodyI{1}NS0_13HalfNoiseWorkI{1}NS0_1{2}"   # version 3
BUDGETS = {
    ROWS_KERNEL.format("If", "f", "3ExactGaussianIfEELb1E"): (73, 98),
    ROWS_KERNEL.format("If", "f", "3ExactGaussianIfEELb0E"): (83, 108),
    ROWS_KERNEL.format("If", "f", "2ExactLaplaceIfEELb0E"): (83, 108),
    ROWS_KERNEL.format("INS0_8Bfloat16E", "S2_", "3ExactGaussianIfEELb1E"): (78, 103),
    HALF_ROWS_KERNEL.format("If", "f", "2HalfGaussianIfEELb1E"): (58, 73),
    HALF_ROWS_KERNEL.format("If", "f", "2HalfGaussianIfEELb0E"): (69, 84),
    HALF_ROWS_KERNEL.format("If", "f", "1HalfLaplaceIfEELb0E"): (70, 85),
    HALF_ROWS_KERNEL.format("INS0_8Bfloat16E", "S2_", "2HalfGaussianIfEELb1E"): (63, 78),
    "fill_kernelINS0_8FillBodyIfNS0_13FloatGaussianIfE": (61, 86),
    "warps_kernelINS0_17CombinedNoiseBodyE": (52, 77),   # of each stream
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
NOISE_BODIES = ("FillBody", "NoiseWork", "HalfNoiseWork", "StreamNoiseBody", "StreamHalfNoiseBody", "SumNoiseBody", "HalfSumNoiseBody",
                "CombinedNoiseBody")


def unit_of(opcode):
    return next((unit for unit, names in UNITS.items() if opcode.split(".")[0] in names), "other")


def disassembler():
    found = shutil.which("cuobjdump")
    if found is None:   # the package nvidia-cuda-cuobjdump, beside nvidia-cuda-nvdisasm
        installed = Path(sysconfig.get_path("purelib")) / "nvidia"
        found = next((str(path) for path in sorted(installed.glob("cu*/bin/cuobjdump"))), None)
    if found is None:
        pytest.skip("cuobjdump is neither on PATH nor installed: install the CUDA toolkit or nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm")
    return found


def compiled_module():
    spec = importlib.util.find_spec("hushvec._native._cuda")
    if spec is None:
        pytest.skip("hushvec was built without its CUDA backend: make dev CUDA=ON builds it where nvcc is on PATH")
    return Path(spec.origin)


def listed(what):
    """What the disassembler says of the compiled module."""
    tool = disassembler()
    command = [tool, what, "-arch", ARCHITECTURE, str(compiled_module())]
    environment = {"PATH": f"{Path(tool).parent}:/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if f".{ARCHITECTURE}." not in subprocess.run([tool, "--list-elf", str(compiled_module())], capture_output=True, text=True, env=environment).stdout:
        pytest.skip(f"device code was compiled for the devices of this machine, and not for {ARCHITECTURE}")
    done.check_returncode()
    return done.stdout


def instruction(address, opcode, operands):
    target = re.search(r"0x([0-9a-f]+)", operands) if opcode.startswith("BRA") else None
    return Instruction(address, opcode, operands, int(target.group(1), 16) if target else None)


@pytest.fixture(scope="module")
def kernels():
    """Instructions of each kernel, by mangled name."""
    found, name = {}, None
    for line in listed("-sass").splitlines():
        if "Function :" in line:
            name = line.split("Function :")[1].strip()
            found[name] = []
        elif name and (match := re.match(r"\s+/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9_.]*)(.*)", line)):
            found[name].append(instruction(int(match.group(1), 16), match.group(2), match.group(3)))
    assert found, "the disassembler listed no kernel"
    return found


@pytest.fixture(scope="module")
def resources():
    """(registers of a thread, bytes of its stack) of each kernel, by mangled name."""
    return {name: (int(r), int(s)) for name, r, s in re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+)", listed("-res-usage"))}


def rare(code):
    """Addresses of stretches that a forward branch skips and that call a function or list a sample: tails, slow divisions, open
    pairs. Those in shared memory take few instructions to list, and longer stretches hold several lists beside other things."""
    skipped = set()
    for branch in code:
        if branch.target is None or branch.target < branch.address:
            continue
        stretch = [i for i in code if branch.address < i.address < branch.target]
        rare_ones = ("CALL", "ATOMG", "ATOMS") if len(stretch) < 50 else ("CALL", "ATOMG") if len(stretch) < 500 else ()
        if any(i.opcode.startswith(rare_ones) for i in stretch):
            skipped |= {i.address for i in stretch}
    return skipped


def counted(body, prefix):
    return sum(i.opcode.startswith(prefix) for i in body)


class Phases:
    """The instructions of a kernel by what they are for. Loops are what a thread goes through once; `once` runs once a tile, and so
    does `open`, by one warp: what a tile of version 3 makes of its open pairs, mostly fewer than 32."""

    def __init__(self, code, half_words=False):
        self.warps, self.samples_of_a_block = (3, 32) if half_words else (4, 16)   # of a tile; one thread, one ChaCha block
        skipped, every = rare(code), sorted(loops(code), key=len)
        double_rounds = [body for body in every if counted(body, "SHF") == 32 == counted(body, "LOP3")]
        double_rounds.sort(key=lambda body: body[0].address)   # of the group, then of what is open
        self.double_round = double_rounds[0]
        group = next(body for body in every if spans(self.double_round, body))
        self.group = [i for i in group if i.address not in skipped]
        self.open = next((body for body in every if body[0].address > group[-1].address and spans(double_rounds[-1], body)), [])
        before = [body for body in every if body[-1].address < group[0].address]
        in_loops = {i.address for body in before for i in body}
        self.once = [i for i in code if i.address < group[0].address and i.address not in in_loops | skipped]
        self.copies = next((body for body in before if counted(body, "LDGSTS") == 4), [])
        self.squares = next((body for body in before if counted(body, "DFMA") == 8), [])
        rows = [body for body in before if self.squares and spans(self.squares, body)]
        inner = {i.address for body in before if rows and spans(body, rows[0]) for i in body}
        self.row = [i for i in rows[0] if i.address not in inner] if rows else []
        scales = [body for body in before if counted(body, "MUFU") >= 2]
        inner = {i.address for body in before if scales and spans(body, scales[0]) for i in body}
        self.scale = [i for i in scales[0] if i.address not in inner] if scales else []

    def with_rounds(self, body, rounds):
        # The loop runs rounds / 2 - 1 times: the first double round is written out, its first column done once for all.
        return body + (rounds // 2 - 2) * self.double_round if body else []

    def of_warps(self, rounds):
        """What warps execute for a tile, and for how many samples of each thread."""
        if not self.copies:
            return self.with_rounds(self.group, rounds), self.samples_of_a_block
        blocks = ROWS * COLUMNS // (32 * self.warps * self.samples_of_a_block)
        samples = blocks * self.samples_of_a_block
        bytes_of_a_sample = 2 if counted(self.group, ("STG.E.U16",)) else 4
        copies = samples * bytes_of_a_sample // 16 // 4
        norms = math.ceil(ROWS / self.warps) * (self.row + COLUMNS // 256 * self.squares)
        of_each = self.once + copies * self.copies + norms + self.scale + blocks * self.with_rounds(self.group, rounds)
        return self.warps * of_each + self.with_rounds(self.open, rounds), self.warps * samples


@pytest.mark.parametrize("name", BUDGETS)
def test_instructions_per_sample(kernels, name):
    (code,) = (code for mangled, code in kernels.items() if name in mangled)
    phases = Phases(code, "HalfNoiseWork" in name)
    if name.startswith("rows"):
        wanted = ["once", "copies", "squares", "row", "scale", *(["open"] if "HalfNoiseWork" in name else [])]
        missing = [phase for phase in wanted if not getattr(phases, phase)]
        assert not missing, f"phases that were not recognized: {missing}"
    for rounds, budget in zip((12, 20), BUDGETS[name], strict=True):
        executed, samples = phases.of_warps(rounds)
        units = {unit: round(count / samples, 1) for unit, count in Counter(unit_of(i.opcode) for i in executed).most_common()}
        per_sample = len(executed) / samples
        assert 0.9 * budget < per_sample <= budget, f"{rounds} rounds: {per_sample:.1f} instructions a sample, {units}"


def test_rows_kernels_leave_room_for_enough_warps(resources):
    """The registers of 24 warps on a multiprocessor; the shared memory of their tiles is bounded in tile_shape.hpp."""
    registers = {name: used for name, (used, _) in resources.items() if "rows_kernel" in name and "rows_kernelId" not in name}
    assert registers
    most = REGISTERS_OF_A_MULTIPROCESSOR // (32 * WARPS_OF_A_MULTIPROCESSOR)
    assert not {name: used for name, used in registers.items() if used > most}


def test_kernels_of_noise_use_no_local_memory(kernels):
    noise = {name: code for name, code in kernels.items() if any(body in name for body in NOISE_BODIES)}
    assert all(any(body in name for name in noise) for body in NOISE_BODIES)
    used = {name: [i.opcode for i in code if i.opcode.startswith(("LDL", "STL"))] for name, code in noise.items()}
    assert not {name: opcodes for name, opcodes in used.items() if opcodes}


def test_no_kernel_needs_a_larger_stack_than_every_thread_has(resources):
    """1,024 bytes by default. For more, the driver reallocates the stacks of all threads, which a graph capture must not contain."""
    assert len(resources) > 50 and max(stack for _, stack in resources.values()) <= 512


def test_unit_of_an_opcode():
    assert [unit_of(opcode) for opcode in ("LOP3.LUT", "IMAD.WIDE.U32", "FFMA", "MUFU.SQRT", "I2FP.F32.S32", "LDG.E.128", "FOO")] == [
        "integer", "multiplier", "float32", "special", "conversion", "memory", "other",
    ]  # fmt: skip
