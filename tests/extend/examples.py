"""The examples of docs/extend.md, as they are and with a mistake in them."""

from docs.blocks import ROOT, python_blocks


def example(name, end, *changes):
    """What the block that defines a name has defined before the line `end`, with each (text, another) replaced once."""
    (code,) = [block.code for block in python_blocks("docs/extend.md") if f" {name}(" in block.code or f" {name}:" in block.code]
    code = code[: code.index(f"\n{end}")]
    for text, another in changes:
        assert code.count(text) == 1, text
        code = code.replace(text, another)
    namespace = {"__name__": "example"}
    exec(compile(code, str(ROOT / "docs/extend.md"), "exec"), namespace)
    return namespace[name]


def require_named(failure, name, words):
    """One of the lines of a failed check is about this rule."""
    lines = str(failure.value).splitlines()
    assert any(line.startswith(f"{name}: {words}") for line in lines), lines
