"""PTX to C++: a function for each function, a line for each instruction, with the registers as variables.

    python -m native.cuda.ptx.translate clip.ptx > clip.cpp
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from native.cuda.ptx.instructions import c_type, translated
from native.cuda.ptx.syntax import Array, Brace, Function, Instruction, Label, Module, Refused, Registers, bytes_of, parse

_SPECIAL = {
    "%tid.x": "thread.number", "%tid.y": "0u", "%tid.z": "0u", "%ntid.x": "thread.threads", "%ntid.y": "1u", "%ntid.z": "1u",
    "%ctaid.x": "thread.block.x", "%ctaid.y": "thread.block.y", "%ctaid.z": "0u",
    "%nctaid.x": "thread.grid.x", "%nctaid.y": "thread.grid.y", "%nctaid.z": "1u", "%laneid": "(thread.number % 32)",
}  # fmt: skip
_REGISTER_TYPES = {"pred": "bool", "8": "uint16_t", "16": "uint16_t", "32": "uint32_t", "64": "uint64_t"}


def kernel_name(mangled: str) -> str:
    """Without the hashes of an anonymous namespace, which differ between two compilations of a file."""
    return re.sub(r"_GLOBAL__N__[0-9a-f]{8}_(\d+_\w+?_cu)_[0-9a-f]{8}", r"_GLOBAL__N__\1", mangled)


def identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


class _Body:
    """One function: what its operands are in C++."""

    def __init__(self, function: Function, module: Module) -> None:
        self.function, self._instructions = function, 0
        self._registers: set[str] = set()
        self._shared: dict[str, int] = {}
        self._places: dict[str, str] = {array.name: identifier(array.name) for array in module.arrays if array.space != "shared"}
        own = [statement for statement in function.body or () if isinstance(statement, Array)]
        at = 0
        for array in [*module.arrays, *own]:
            if array.space == "shared" and array.count is not None:
                at = -(-at // array.align) * array.align
                self._shared[array.name], at = at, at + array.size
        self.shared_bytes = -(-at // 16) * 16   # what a launch asks for lies behind
        self._shared |= {array.name: self.shared_bytes for array in module.arrays if array.space == "shared" and array.count is None}
        self._places |= {parameter.name: f"parameter{i}" for i, parameter in enumerate(function.parameters)}
        if function.result is not None:
            self._places[function.result.name] = "result"
        self._places |= {array.name: identifier(array.name) for array in own if array.space != "shared"}

    # ---- what the rules ask for ----

    def place(self) -> int:
        """A number of the instruction, for messages and for barriers."""
        return self._instructions

    def read(self, operand: str, type_name: str) -> str:
        if operand in _SPECIAL:
            return f"{c_type(type_name)}({_SPECIAL[operand]})"
        if type_name == "pred":
            if operand in ("0", "1", "-1"):
                return "false" if operand == "0" else "true"
            return f"(!{identifier(operand[1:])})" if operand.startswith("!") else identifier(operand)
        if operand in self._registers:
            name = identifier(operand)
            return f"bits_as<{c_type(type_name)}>({name})" if type_name[0] == "f" else f"{c_type(type_name)}({name})"
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", operand):
            bits = f"0x{match[1]}u" if match[1] else f"0x{match[2]}ull"
            return f"bits_as<{c_type(type_name)}>({bits})" if type_name[0] == "f" else f"{c_type(type_name)}({bits})"
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", operand):
            if type_name[0] == "f":
                raise Refused(f"the integer {operand} as {type_name}")
            bits = int(operand, 0) % (1 << (8 * bytes_of(type_name)))
            return f"{c_type(type_name)}({bits}ull)"
        return f"{c_type(type_name)}({self._symbol(operand)})"

    def write(self, operand: str, type_name: str, value: str) -> str:
        if operand == "_":
            return f"static_cast<void>({value});"
        name = identifier(operand)
        return f"{name} = bits_of({value});" if type_name[0] == "f" else f"{name} = static_cast<decltype({name})>({value});"

    def address(self, operand: str) -> str:
        match = re.fullmatch(r"\[\s*([\w$%.]+?)\s*(?:\+\s*(-?\d+))?\s*\]", operand)
        if match is None:
            raise Refused(f"the address {operand}")
        base = self.read(match[1], "u64")
        return f"{base} + uint64_t({int(match[2] or 0)}ll)"

    # ---- statements ----

    def statement(self, statement: object) -> str:
        if isinstance(statement, Registers):
            of = _REGISTER_TYPES[statement.type if statement.type == "pred" else statement.type[1:]]
            self._registers.update(statement.names)
            return "".join(f"{of} {identifier(name)};" for name in statement.names)
        if isinstance(statement, Array):
            return "" if statement.space == "shared" else f"alignas(16) std::uint8_t {identifier(statement.name)}[{max(16, statement.size)}];"
        if isinstance(statement, Label):
            return f"{self._label(statement.name)}:;"
        if isinstance(statement, Brace):
            return statement.text
        assert isinstance(statement, Instruction)
        self._instructions += 1
        guard = ""
        if statement.guard:
            negated = statement.guard.startswith("!")
            guard = f"if ({'!' if negated else ''}{identifier(statement.guard.lstrip('!'))}) "
        return guard + "{ " + self._instruction(statement) + " }"

    def text(self) -> str:
        lines = [self.statement(statement) for statement in self.function.body or ()]
        return f"{signature(self.function)} {{\nbool carry = false, ignored = false;\n" + "\n".join(line for line in lines if line) + "\n}\n"

    def _instruction(self, instruction: Instruction) -> str:
        if instruction.name in ("bra", "bra.uni"):
            return f"goto {self._label(instruction.operands[0])};"
        if instruction.name in ("call", "call.uni"):
            return self._call(instruction.operands)
        return translated(instruction, self)

    def _call(self, operands: tuple[str, ...]) -> str:
        """(result), function, (arguments): results and arguments are names of .param arrays."""
        name = next(operand for operand in operands if not operand.startswith("("))
        before, behind = operands[: operands.index(name)], operands[operands.index(name) + 1 :]
        arguments = [part.strip() for group in (*behind, *before) for part in group.strip("()").split(",") if part.strip()]
        return f"{identifier(name)}({', '.join(['thread', *map(identifier, arguments)])});"

    def _label(self, name: str) -> str:
        return "label" + identifier(name)

    def _symbol(self, name: str) -> str:
        if name in self._shared:
            return f"{self._shared[name]}u"
        if name not in self._places:
            raise Refused(f"the name {name} in {self.function.name}")
        return f"reinterpret_cast<std::uintptr_t>({self._places[name]})"


def signature(function: Function) -> str:
    parameters = ["Thread& thread", *(f"std::uint8_t* parameter{i}" for i in range(len(function.parameters)))]
    if function.result is not None:
        parameters.append("std::uint8_t* result")
    return f"static void {identifier(function.name)}({', '.join(parameters)})"


def _constants(module: Module) -> list[str]:
    lines = []
    for array in module.arrays:
        if array.space in ("const", "global"):
            if array.type[0] == "f" or array.count is None:
                raise Refused(f"the array {array.name}")
            constant = "const " if array.space == "const" else ""
            lines.append(f"alignas({max(16, array.align)}) static {constant}{c_type(array.type)} {identifier(array.name)}[{array.count}] = {{{array.values}}};")
            lines.append(f"static const Constant constant_{identifier(array.name)}({identifier(array.name)}, sizeof {identifier(array.name)});")
    return lines


def translate(text: str, name: str) -> str:
    """C++ for a module of PTX, or "" for one without kernels."""
    module = parse(text)
    if not any(function.is_kernel for function in module.functions):
        return ""
    lines = ['#include "thread.hpp"', "namespace emulator {", f"namespace module_{identifier(name)} {{", *_constants(module)]
    lines += [f"{signature(function)};" for function in module.functions]
    for function in module.functions:
        if function.body is None:
            if not any(other.name == function.name and other.body is not None for other in module.functions):
                raise Refused(f"the function {function.name} has no body")
            continue
        body = _Body(function, module)
        lines.append(body.text())
        if function.is_kernel:
            arguments = ", ".join(["thread", *(f"thread.parameters[{i}]" for i in range(len(function.parameters)))])
            sizes = ", ".join(str(parameter.size) for parameter in function.parameters)
            lines.append(
                f'static const Kernel kernel_{identifier(function.name)}("{kernel_name(function.name)}", '
                f"[](Thread& thread) {{ {identifier(function.name)}({arguments}); }}, {body.shared_bytes}, {{{sizes}}});"
            )
    return "\n".join([*lines, "}", "}", ""])


if __name__ == "__main__":
    path = Path(sys.argv[1])
    sys.stdout.write(translate(path.read_text(), path.stem))
