"""Each PTX instruction as C++: a table of patterns over whole names, so that a modifier that is not here is refused.

Registers hold bits: `Operands.read` gives them the instruction's type and `Operands.write` takes it away again. The functions that the
C++ calls are in emulator/arithmetic.hpp and emulator/thread.hpp, with what the PTX manual says of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from native.cuda.ptx.syntax import Instruction, Refused, bytes_of, split_operands


class Operands(Protocol):
    """What a rule asks of the function that is translated."""

    def read(self, operand: str, type_name: str) -> str: ...
    def write(self, operand: str, type_name: str, value: str) -> str: ...
    def address(self, operand: str) -> str: ...
    def place(self) -> int: ...


Rule = Callable[[Operands, re.Match[str], tuple[str, ...]], str]
_RULES: list[tuple[re.Pattern[str], Rule]] = []

INTEGER, FLOAT = r"[us](?:16|32|64)", r"f32|f64"
_C_TYPES = {f"{sign}{width}": f"{'u' if sign != 's' else ''}int{width}_t" for sign in "usb" for width in (8, 16, 32, 64)}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


def c_type(type_name: str) -> str:
    return {"f32": "float", "f64": "double", "pred": "bool"}.get(type_name) or _C_TYPES[type_name]


def translated(instruction: Instruction, operands: Operands) -> str:
    for pattern, rule in _RULES:
        if match := pattern.fullmatch(instruction.name):
            return rule(operands, match, instruction.operands)
    raise Refused(f"the instruction {instruction.name} {', '.join(instruction.operands)} is not known")


def rule(pattern: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        _RULES.append((re.compile(pattern), function))
        return function

    return add


def simple(pattern: str, type_name: str, call: str) -> None:
    """A rule whose operands and result have one type, named by the pattern's groups: {0}, {1}, ... are the operands, {g} a group."""

    def apply(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
        groups = {name: value or "" for name, value in match.groupdict().items()}
        of = type_name.format(**groups)
        values = [o.read(operand, of) for operand in ops[1:]]
        return o.write(ops[0], of, call.format(*values, t=c_type(of), **groups))

    _RULES.append((re.compile(pattern), apply))


# ---- integers ----

simple(r"add\.[us](?P<w>16|32|64)", "u{w}", "{t}({0} + {1})")
simple(r"sub\.[us](?P<w>16|32|64)", "u{w}", "{t}({0} - {1})")
simple(r"mul\.lo\.[us](?P<w>32|64)", "u{w}", "{t}({0} * {1})")
simple(r"mul\.lo\.[us]16", "u16", "uint16_t(uint32_t({0}) * {1})")
simple(r"mad\.lo\.[us](?P<w>32|64)", "u{w}", "{t}({0} * {1} + {2})")
simple(rf"mul\.hi\.(?P<y>{INTEGER})", "{y}", "multiply_high({0}, {1})")
simple(rf"div\.(?P<y>{INTEGER})", "{y}", "divide(thread, {0}, {1})")
simple(rf"rem\.(?P<y>{INTEGER})", "{y}", "remainder(thread, {0}, {1})")
simple(r"neg\.s(?P<w>16|32|64)", "u{w}", "{t}(0 - {0})")
simple(r"abs\.s(?P<w>16|32|64)", "s{w}", "{t}({0} < 0 ? 0 - uint{w}_t({0}) : {0})")
simple(rf"(?P<f>min|max)\.(?P<y>{INTEGER})", "{y}", "std::{f}<{t}>({0}, {1})")
simple(r"and\.(?P<y>b16|b32|b64|pred)", "{y}", "{t}({0} & {1})")
simple(r"or\.(?P<y>b16|b32|b64|pred)", "{y}", "{t}({0} | {1})")
simple(r"xor\.(?P<y>b16|b32|b64|pred)", "{y}", "{t}({0} ^ {1})")
simple(r"not\.(?P<y>b16|b32|b64)", "{y}", "{t}(~{0})")
simple(r"not\.pred", "pred", "!{0}")
simple(r"shf\.(?P<s>[lr])\.(?P<m>wrap|clamp)\.b32", "u32", "funnel_shift_{s}_{m}({0}, {1}, {2})")
simple(r"prmt\.b32", "u32", "permute_bytes({0}, {1}, {2})")
simple(r"lop3\.b32", "u32", "logic_of_three({0}, {1}, {2}, {3})")
simple(r"bfind\.shiftamt\.u32", "u32", "leading_zeros_or_none({0})")
simple(r"brev\.b(?P<w>32|64)", "u{w}", "reverse_bits({0})")


@rule(r"shl\.b(16|32|64)|shr\.([us])(16|32|64)|shr\.b(16|32|64)")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    of = "u" + match[1] if match[1] else (match[2] + match[3] if match[2] else "u" + match[4])
    name = "shift_left" if match[1] else "shift_right"
    return o.write(ops[0], of, f"{name}({o.read(ops[1], of)}, {o.read(ops[2], 'u32')})")


@rule(r"(mul|mad)\.wide\.([us])(16|32)")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    narrow, wide = match[2] + match[3], match[2] + str(2 * int(match[3]))
    product = f"{c_type(wide)}({o.read(ops[1], narrow)}) * {c_type(wide)}({o.read(ops[2], narrow)})"
    return o.write(ops[0], wide, product if match[1] == "mul" else f"{product} + {o.read(ops[3], wide)}")


@rule(r"(add|sub)(c?)(\.cc)?\.[us](32|64)")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    """Sums of several words; a plain add or sub has its rule above."""
    of, carry_in = "u" + match[4], "carry" if match[2] else "false"
    carry_out = "carry" if match[3] else "ignored"
    return o.write(ops[0], of, f"{match[1]}_with_carry({o.read(ops[1], of)}, {o.read(ops[2], of)}, {carry_in}, {carry_out})")


@rule(r"(clz|popc)\.b(32|64)")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    name = {"clz": "leading_zeros", "popc": "ones"}[match[1]]
    return o.write(ops[0], "u32", f"{name}({o.read(ops[1], 'u' + match[2])})")


@rule(r"bf([ei])\.([ub])(32|64)")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    of = "u" + match[3]
    fields, numbers = (ops[1:2], ops[2:4]) if match[1] == "e" else (ops[1:3], ops[3:5])
    values = [o.read(x, of) for x in fields] + [o.read(x, "u32") for x in numbers]
    return o.write(ops[0], of, f"{'extract' if match[1] == 'e' else 'insert'}_field({', '.join(values)})")


# ---- floating point ----

simple(rf"add(?:\.rn)?\.(?P<y>{FLOAT})", "{y}", "number({0} + {1})")
simple(rf"sub(?:\.rn)?\.(?P<y>{FLOAT})", "{y}", "number({0} - {1})")
simple(rf"mul(?:\.rn)?\.(?P<y>{FLOAT})", "{y}", "number({0} * {1})")
simple(rf"div\.rn\.(?P<y>{FLOAT})", "{y}", "number({0} / {1})")
simple(rf"rcp\.rn\.(?P<y>{FLOAT})", "{y}", "number(1 / {0})")
simple(rf"fma\.rn\.(?P<y>{FLOAT})", "{y}", "number(std::fma({0}, {1}, {2}))")
simple(rf"sqrt\.rn\.(?P<y>{FLOAT})", "{y}", "number(std::sqrt({0}))")
simple(rf"neg\.(?P<y>{FLOAT})", "{y}", "-{0}")
simple(rf"abs\.(?P<y>{FLOAT})", "{y}", "std::fabs({0})")
simple(rf"(?P<f>min|max)\.(?P<y>{FLOAT})", "{y}", "{f}_number({0}, {1})")
simple(r"(?P<f>rcp|rsqrt|lg2|sin|cos|sqrt)\.approx\.ftz\.f32", "f32", "approximate_{f}({0})")
simple(r"rcp\.approx\.ftz\.f64", "f64", "approximate_rcp({0})")

_INTO_INTEGER = {"rzi": "trunc", "rni": "nearbyint", "rmi": "floor", "rpi": "ceil"}


@rule(rf"cvt\.(?P<r>rn|rzi|rni|rmi|rpi)?\.?(?P<to>[us](?:8|16|32|64)|{FLOAT}|f16|bf16)\.(?P<of>[us](?:8|16|32|64)|{FLOAT}|f16)")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    rounding, to, of = match["r"], match["to"], match["of"]
    value = f"half_to_float({o.read(ops[1], 'b16')})" if of == "f16" else o.read(ops[1], of)
    if to in ("f16", "bf16"):
        if (rounding, of) != ("rn", "f32"):
            raise Refused(f"the conversion {match[0]} is not known")
        return o.write(ops[0], "b16", f"{'half' if to == 'f16' else 'bfloat16'}_of({value})")
    if to[0] == "f":
        if of[0] == "f" and rounding in _INTO_INTEGER:
            value = f"std::{_INTO_INTEGER[rounding]}({value})"
        return o.write(ops[0], to, f"number({c_type(to)}({value}))")
    if of[0] == "f":
        return o.write(ops[0], to, f"saturated<{c_type(to)}>(std::{_INTO_INTEGER[rounding]}({value}))")
    return o.write(ops[0], to, f"{c_type(to)}({value})")


# ---- choices ----


@rule(rf"setp\.(\w+)(?:\.(and|or|xor))?\.({INTEGER}|b16|b32|b64|{FLOAT})")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    how, joined, of = match.groups()
    a, b = o.read(ops[1], of), o.read(ops[2], of)
    if of[0] != "f":
        test = f"{a} {_COMPARISONS[how]} {b}"
    elif how in ("nan", "num"):
        test = f"{'' if how == 'nan' else '!'}unordered({a}, {b})"
    elif how.endswith("u") and how[:-1] in _COMPARISONS:   # true where one of them is NaN
        test = f"unordered({a}, {b}) || {a} {_COMPARISONS[how[:-1]]} {b}"
    else:
        test = f"!unordered({a}, {b}) && {a} {_COMPARISONS[how]} {b}"
    if joined:
        test = f"({test}) {dict(zip(('and', 'or', 'xor'), '&|^', strict=True))[joined]} {o.read(ops[3], 'pred')}"
    return o.write(ops[0], "pred", test)


@rule(rf"selp\.({INTEGER}|b16|b32|b64|{FLOAT})")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    return o.write(ops[0], match[1], f"{o.read(ops[3], 'pred')} ? {o.read(ops[1], match[1])} : {o.read(ops[2], match[1])}")


@rule(rf"mov\.({INTEGER}|b16|b32|b64|{FLOAT}|pred)")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    to, of = ops
    if not to.startswith("{") and not of.startswith("{"):
        return o.write(to, match[1], o.read(of, match[1]))
    width = 8 * bytes_of(match[1])
    parts = split_operands((to if to.startswith("{") else of).strip("{}"))
    narrow = width // len(parts)
    if to.startswith("{"):
        whole = o.read(of, f"b{width}")
        return "".join(o.write(part, f"b{narrow}", f"uint{narrow}_t({whole} >> {i * narrow})") for i, part in enumerate(parts))
    values = [f"uint{width}_t({o.read(part, f'b{narrow}')}) << {i * narrow}" for i, part in enumerate(parts)]
    return o.write(to, f"b{width}", " | ".join(values))


# ---- memory ----

_ACCESS = r"(?:\.(?P<space>global|shared|local|param))?(?:\.v(?P<n>[24]))?\.(?P<y>[usb](?:8|16|32|64)|f32|f64)"


def _elements(operand: str, match: re.Match[str]) -> tuple[str, list[tuple[int, str]], int]:
    """The type of a load or a store, its registers with the place of each in bytes, and all its bytes."""
    of, several = match["y"].replace("f", "b"), match["n"] is not None
    registers = split_operands(operand.strip("{}")) if several else (operand,)
    return of, [(i * bytes_of(of), register) for i, register in enumerate(registers)], len(registers) * bytes_of(of)


@rule("ld" + _ACCESS)
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    of, elements, size = _elements(ops[0], match)
    place = f"thread.readable<Space::{match['space'] or 'generic'}, {size}>({o.address(ops[1])}, {o.place()})"
    loads = [o.write(to, of, f"loaded<{c_type(of)}>(from + {at})") for at, to in elements if to != "_"]
    return f"const std::uint8_t* from = {place};" + "".join(loads)


@rule("st" + _ACCESS)
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    of, elements, size = _elements(ops[1], match)
    place = f"thread.writable<Space::{match['space'] or 'generic'}, {size}>({o.address(ops[0])}, {o.place()})"
    return f"std::uint8_t* to = {place};" + "".join(f"stored<{c_type(of)}>(to + {at}, {o.read(x, of)});" for at, x in elements)


@rule(r"cvta(\.to)?\.(global|shared|local|param|const)\.u64")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    value = o.read(ops[1], "u64")
    if match[2] == "shared":   # the one space whose addresses are not those of the host
        value = f"thread.{'shared_of_generic' if match[1] else 'generic_of_shared'}({value})"
    return o.write(ops[0], "u64", value)


@rule(r"atom(?:\.(global|shared))?\.(add|min|max)\.([us](?:32|64)|f64)|red(?:\.(global|shared))?\.(add|min|max)\.([us](?:32|64)|f64)")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    is_red = match[5] is not None
    space, how, of = match.groups()[3:] if is_red else match.groups()[:3]
    target, value = ops if is_red else ops[1:]
    before = f"thread.atomic_{how}<Space::{space or 'generic'}, {c_type(of)}>({o.address(target)}, {o.read(value, of)}, {o.place()})"
    return f"{before};" if is_red else o.write(ops[0], of, before)


@rule(r"cp\.async\.c[ag]\.shared\.global")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    if len(ops) != 3:
        raise Refused(f"{match[0]} with {len(ops)} operands is not known")
    return f"thread.copy_later({o.address(ops[0])}, {o.address(ops[1])}, {int(ops[2])}, {o.place()});"


@rule(r"cp\.async\.wait_all")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    return "thread.finish_copies();"


# ---- threads together ----


@rule(r"bar\.sync")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    if ops != ("0",):
        raise Refused(f"the barrier {', '.join(ops)} is not known")
    return f"thread.wait_for_block(false, {o.place()});"


@rule(r"bar\.red\.or\.pred")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    if len(ops) != 3 or ops[1] != "0":
        raise Refused(f"the barrier {', '.join(ops)} is not known")
    return o.write(ops[0], "pred", f"thread.wait_for_block({o.read(ops[2], 'pred')}, {o.place()})")


@rule(r"shfl\.sync\.down\.b32")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    to, _, in_range = ops[0].partition("|")
    values = ", ".join(o.read(x, "u32") for x in ops[1:5])   # the value, the distance, the clamp, the lanes that take part
    shuffle = f"const Shuffled from = thread.shuffle_down({values}, {o.place()});"
    return shuffle + o.write(to, "u32", "from.value") + (o.write(in_range, "pred", "from.in_range") if in_range else "")


@rule(r"trap")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    return "thread.trap();"


@rule(r"ret|exit")
def _(o: Operands, match: re.Match[str], ops: tuple[str, ...]) -> str:
    return "return;"
