"""The PTX that nvcc writes, read into functions and statements. What it does not know it refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


class Refused(Exception):
    """PTX that the translation does not know."""


@dataclass(frozen=True)
class Array:
    """Named memory: an array of a module, a function's shared or local memory, or a parameter."""

    space: str
    type: str
    name: str
    align: int
    count: int | None   # None: as long as the launch says
    values: str = ""

    @property
    def size(self) -> int:
        return (self.count or 0) * bytes_of(self.type)


@dataclass(frozen=True)
class Registers:
    type: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Brace:
    text: str


@dataclass(frozen=True)
class Instruction:
    guard: str   # "", "%p1" or "!%p1"
    name: str    # with its modifiers: "add.s32"
    operands: tuple[str, ...]


Statement = Array | Registers | Label | Brace | Instruction


@dataclass(frozen=True)
class Function:
    name: str
    is_kernel: bool
    parameters: tuple[Array, ...]
    result: Array | None
    body: tuple[Statement, ...] | None   # None: declared alone


@dataclass
class Module:
    arrays: list[Array] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)


def bytes_of(type_name: str) -> int:
    return int(type_name[1:]) // 8


def split_operands(text: str) -> tuple[str, ...]:
    """At the commas outside of braces, brackets and parentheses."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    if current.strip():
        parts.append(current.strip())
    return tuple(parts)


_ARRAY = re.compile(
    r"(?:\.(?:visible|weak|extern|common)\s+)*\.(?P<space>const|global|shared|local|param)\s+(?:\.align\s+(?P<align>\d+)\s+)?"
    r"\.(?P<type>[a-z]\d+)\s+(?:\.ptr\s+(?:\.align\s+\d+\s+)?)?(?P<name>[\w$%]+)(?P<array>\[(?P<count>\d*)\])?(?:\s*=\s*\{(?P<values>[^}]*)\})?$"
)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)$", re.DOTALL)
_FUNCTION = re.compile(
    r"(?:\.(?:visible|weak|extern)\s+)*\.(?P<kind>entry|func)\s*(?:\((?P<result>[^)]*)\))?\s*(?P<name>[\w$]+)\s*(?:\((?P<parameters>[^)]*)\))?"
    r"\s*(?P<bounds>(?:\.(?:maxntid|minnctapersm|noreturn|reqntid)[^.{;]*)*)$"
)


def parse(text: str) -> Module:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*\.(version|target|address_size)[^\n]*$", "", text, flags=re.MULTILINE)
    module, at = Module(), 0
    while head := re.compile(r"[^{;]*(=\s*\{[^}]*\}\s*)?").match(text, at):
        declared, at = head.group().strip(), head.end()
        if not declared:
            break
        if function := _FUNCTION.match(declared):
            body = None
            if text[at] == "{":
                end = _closing_brace(text, at)
                body, at = tuple(_statements(text[at + 1 : end])), end
            at += 1
            module.functions.append(_function(function, body))
        else:
            at += 1
            module.arrays.append(_array(declared))
    if text[at:].strip():
        raise Refused(f"text behind the last function: {text[at:].strip()[:80]}")
    return module


def _function(match: re.Match[str], body: tuple[Statement, ...] | None) -> Function:
    parameters = tuple(_array(text) for text in split_operands(match["parameters"] or ""))
    result = _array(match["result"].strip()) if match["result"] else None
    return Function(match["name"], match["kind"] == "entry", parameters, result, body)


def _array(text: str) -> Array:
    match = _ARRAY.match(text)
    if match is None:
        raise Refused(f"no array and no function: {text[:120]}")
    count = (int(match["count"]) if match["count"] else None) if match["array"] else 1
    size = int(match["type"][1:]) // 8
    return Array(match["space"], match["type"], match["name"], int(match["align"] or size), count, match["values"] or "")


def _closing_brace(text: str, at: int) -> int:
    depth = 0
    for brace in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    raise Refused("a function without its end")


def _statements(text: str) -> list[Statement]:
    statements: list[Statement] = []
    start = at = 0
    while at < len(text):
        character, pending = text[at], text[start:at].strip()
        if character == ";":
            statements.extend(_statement(pending))
        elif character == "{" and pending:   # the registers of a vector
            at = text.index("}", at) + 1
            continue
        elif character in "{}":
            statements.append(Brace(character))
        elif character == ":" and re.fullmatch(r"[\w$]+", pending):
            statements.append(Label(pending))
        else:
            at += 1
            continue
        at += 1
        start = at
    if text[start:].strip():
        raise Refused(f"a statement without its end: {text[start:].strip()[:80]}")
    return statements


def _statement(text: str) -> list[Statement]:
    if not text or text.startswith(".pragma"):
        return []
    if match := _REGISTERS.match(text):
        names: list[str] = []
        for name in split_operands(match[2]):
            several = re.fullmatch(r"(%?[\w$]+)<(\d+)>", name)
            names.extend(f"{several[1]}{i}" for i in range(int(several[2]))) if several else names.append(name)
        return [Registers(match[1], tuple(names))]
    if text.startswith("."):
        return [_array(text)]
    match = re.fullmatch(r"(?:@(!?%[\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)", text, re.DOTALL)
    if match is None:
        raise Refused(f"no instruction: {text[:120]}")
    return [Instruction(match[1] or "", match[2], split_operands(match[3]))]
