"""The emulated device sees what it must see (ptx/faults.ptx), and refuses what it does not know. Needs g++ on x86-64 and nothing of CUDA."""

import platform
import shutil
import struct
import subprocess

import pytest
from native.cuda.ptx.build import GENERATED, HERE
from native.cuda.ptx.syntax import Refused
from native.cuda.ptx.translate import translate

THREADS = 64


@pytest.fixture(scope="module")
def launch(tmp_path_factory):
    if platform.machine() != "x86_64" or shutil.which("g++") is None:
        pytest.skip("the emulated device needs g++ on x86-64")
    folder = tmp_path_factory.mktemp("emulator")
    (folder / "faults.cpp").write_text(translate((HERE / "faults.ptx").read_text(), "faults"))
    sources = [folder / "faults.cpp", HERE / "launch_one.cpp", HERE / "emulator/block.cpp", HERE / "emulator/memory.cpp"]
    subprocess.run([*GENERATED, "-O0", *map(str, sources), "-o", str(folder / "launch_one")], check=True)

    def run(kernel, blocks=1, order="forward"):
        done = subprocess.run(
            [folder / "launch_one", kernel, str(THREADS), str(blocks)], capture_output=True, text=True, env={"HUSHVEC_EMULATED_ORDER": order}
        )
        return done.stdout.splitlines(), done.stderr

    return run


@pytest.mark.parametrize("order", ["forward", "reverse", "5"])
def test_a_kernel_without_a_fault(launch, order):
    (words, faults), complaints = launch("in_order", order=order)
    assert faults == "0 faults" and complaints == ""
    assert [int(word, 16) for word in words.split()] == [i ^ 1 for i in range(THREADS)]


@pytest.mark.parametrize(
    ("kernel", "complaint"),
    [
        ("without_barrier", "a race of two threads: a read of 4 bytes of shared memory in without_barrier"),
        ("one_flag", "a race of two threads: a write of 4 bytes of shared memory in one_flag"),
        ("nobody_wrote", "shared memory that nobody wrote: a read of 4 bytes of shared memory in nobody_wrote"),
        ("behind_the_array", "out of bounds: a write of 4 bytes of global memory in behind_the_array"),
        ("not_aligned", "not aligned: a read of 4 bytes of global memory in not_aligned"),
        ("two_barriers", "a barrier at which threads wait in different places in two_barriers"),
        ("some_have_ended", "a barrier after threads of the block have ended in some_have_ended"),
        ("copy_read_early", "shared memory that nobody wrote: a read of 4 bytes of shared memory in copy_read_early"),
        ("copy_nobody_waits_for", "a copy to shared memory that nobody waited for in copy_nobody_waits_for"),
        ("part_of_a_warp", "a shuffle of a part of a warp, which is not known in part_of_a_warp"),
        ("anothers_block", "memory that another block of the launch wrote: a write of 4 bytes of global memory in anothers_block"),
    ],
)
@pytest.mark.parametrize("order", ["forward", "reverse", "5"])
def test_each_fault_is_seen(launch, kernel, complaint, order):
    output, complaints = launch(kernel, blocks=2, order=order)
    # In some orders the write of a race comes after the read.
    expected = {complaint, complaint.replace("a read of", "a write of")} if "race" in complaint else {complaint}
    assert any(f"emulated device: {text}, instruction " in complaints for text in expected), complaints
    assert int(output[-1].split()[0]) > 0


def test_instructions_do_what_the_manual_says(launch):
    (words, faults), _ = launch("arithmetic")
    got = [int(word, 16) for word in words.split()[:16]]

    def bits(value):
        return struct.unpack("<I", struct.pack("<f", value))[0]

    assert faults == "0 faults"
    assert got == [
        0x000FFFF8,  # shf.l.wrap by 36 is by 4: the upper word of 0000ffff'80000001 << 4
        0xFFFFFF01,  # bytes 0 and 4, the sign of byte 3, byte 5
        0x800FFF01,  # 12 bits at place 8
        0xFFFFFFFF,  # by more than the width: the sign
        0,
        16,
        0xFFFFFFFF,  # none is set
        bits(-2.5),  # the number rather than NaN
        0x7FFFFFFF,  # the one NaN of float32
        0xFFFFFFFE,
        0,
        7,
        0x40000001,
        16,
        0,  # a subnormal operand counts as 0
        0xFFFFFFFF,
    ]


@pytest.mark.parametrize(
    "instruction", ["add.sat.s32 %r1, %r1, %r1", "mul.rn.ftz.f32 %r1, %r1, %r1", "vote.sync.any.pred %p1, %p1, -1", "bar.sync 1", "dp4a.u32.u32 %r1, %r1, %r1, %r1"]
)
def test_an_instruction_that_is_not_known_is_refused(instruction):
    text = f".visible .entry k() {{ .reg .b32 %r<2>; .reg .pred %p<2>; {instruction}; ret; }}"
    with pytest.raises(Refused, match="is not known"):
        translate(text, "k")
