"""Loops in machine code, of devices and of processors: what a backward branch jumps over."""

import re
import subprocess


class Instruction:
    """`target`: the address that a branch goes to, or None."""

    def __init__(self, address, opcode, operands="", target=None):
        self.address, self.opcode, self.operands, self.target = address, opcode, operands, target


def loops(code):
    """The bodies of loops, by backward branches in the order of the code."""
    return [
        [i for i in code if branch.target <= i.address <= branch.address]
        for branch in code
        if branch.target is not None and branch.target < branch.address
    ]


def spans(inner, outer):
    return outer[0].address <= inner[0].address and inner[-1].address <= outer[-1].address and len(inner) < len(outer)


def functions_of(object_file):
    """Instructions of the functions of an x86-64 object, by name: as C++ spells it, without arguments, a list for each name."""
    command = ["objdump", "--disassemble", "--wide", "--demangle", "--no-show-raw-insn", object_file]
    found, code = {}, []
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if heading := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            code = []
            if ".cold" not in heading[1]:   # what a function leaves out of its way
                name = re.sub(r"^.*? (?=hushvec::)", "", heading[1].split("(")[0]).replace("hushvec::", "").replace(" >", ">")
                found.setdefault(name, []).append(code)
        elif match := re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*([^#<]*)", line):
            address, opcode, operands = int(match[1], 16), match[2], match[3].strip()
            target = int(operands, 16) if opcode.startswith("j") and re.fullmatch("[0-9a-f]+", operands) else None
            code.append(Instruction(address, opcode, operands, target))
    return found
