"""The code of README.md and of the pages in docs: Python blocks, and lines that run the command `hushvec`.

A Python block runs alone, as a reader pastes it. One that needs what stands above it says so in its first line:

    # continues the block above
    # continues the first block of this page
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABOVE, FIRST = "# continues the block above", "# continues the first block of this page"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
_COMMAND = re.compile(r"^(?:cat \S+ \| )?hushvec .*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """Code on a page, and the number of its first line."""

    page: str
    line: int
    code: str

    def __str__(self):
        return f"{self.page}:{self.line}"


@cache
def pages():
    """Names of the pages, relative to the repository."""
    found = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "start").glob("*.md")]
    return [path.relative_to(ROOT).as_posix() for path in sorted(found)]


@cache
def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def _block(page, place, code):
    return Block(page, text_of(page).count("\n", 0, place) + 1, code)


@cache
def python_blocks(page):
    return [_block(page, match.start(2), match[2]) for match in _FENCE.finditer(text_of(page)) if match[1] == "python"]


def program_of(block):
    """The code of a block with that of the blocks it continues."""
    here = python_blocks(block.page)
    place = here.index(block)
    if block.code.startswith(FIRST):
        return program_of(here[0]) + block.code
    return (program_of(here[place - 1]) if block.code.startswith(ABOVE) else "") + block.code


@cache
def command_blocks(page):
    """Fenced or indented blocks with lines that run hushvec, cut down to these lines."""
    text = text_of(page)
    without_fences = _FENCE.sub(lambda match: re.sub(r"[^\n]", "-", match[0]), text)
    places = [(match.start(2), match[2]) for match in _FENCE.finditer(text) if match[1] in ("", "sh", "bash", "console")]
    places += [(match.start(), re.sub("^    ", "", match[0], flags=re.MULTILINE)) for match in _INDENTED.finditer(without_fences)]
    lines = [(place, "\n".join(_COMMAND.findall(code))) for place, code in sorted(places)]
    return [_block(page, place, code) for place, code in lines if code]
