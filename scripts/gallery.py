"""Write docs/gallery.md: each example with its first line and a picture of what it prints.

    python scripts/gallery.py                     # run all examples, draw their pictures, write the page
    python scripts/gallery.py private_search      # draw these again
    python scripts/gallery.py --page              # the page alone

A picture is the output of a run as an SVG: examples draw fresh noise, so figures in it differ from run to run.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
APPLICATION = "browser_notes/server.py"
PICTURES = ROOT / "docs" / "pictures"
PAGE = ROOT / "docs" / "gallery.md"

# Every example is in one group.
GROUPS = {
    "Release vectors": [
        "release_embeddings", "choose_epsilon", "recommend", "public_projection", "one_person_many_rows", "torch_in_place",
    ],
    "Search": ["private_search", "private_question", "private_vector_store", "private_embeddings_in_hosts", "audit_an_index"],
    "Models with middleware": [
        "middleware/noise", "middleware/redaction_and_noise", "middleware/sensitivity", "middleware/secure_pipeline",
        "private_classifier", "middleware/randomized_response",
    ],
    "Texts, words and labels": ["topics", "rewrite_notes", "private_vocabulary", "private_labels"],
    "Train": ["private_training", "private_adapter", "private_accelerate", "secure_aggregation"],
    "Budgets and accounts": [
        "middleware/budget", "middleware/budget_over_sessions", "budget_over_processes", "compose_releases", "noise_job",
    ],
    "Check and protect": ["audit_a_mechanism", "self_wiping_cache"],
}  # fmt: skip
WIDTH, LINES = 96, 24   # characters and lines of a picture: longer lines are wrapped, further ones cut
SIZE, CHARACTER, LINE, MARGIN = 13, 7.83, 18, 14
COMMAND, OUTPUT = "#7ee787", "#e6edf3"
NO_BREAK = "\u00a0"   # SVG collapses spaces


def summary(name: str) -> str:
    """The first line of an example's docstring."""
    return (ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text("utf-8"))) or "").splitlines()[0]


def picture_of(name: str) -> Path:
    return PICTURES / f"{name.replace('/', '_')}.svg"


def output_of(name: str) -> str:
    """What an example prints, run in an empty folder without a network."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "HUSHVEC_BUDGET_STORE": f"{folder}/budget.sqlite", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", str(EXAMPLES / f"{name}.py")]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr}")
    return done.stdout


def wrapped(line: str) -> list[str]:
    """Parts of a line of at most WIDTH characters; the second and further ones are indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, drop_whitespace=True, replace_whitespace=False) or [""]


def row(line: str, y: int, color: str) -> str:
    return f'<text x="{MARGIN}" y="{y}" fill="{color}">{escape(line.replace(" ", NO_BREAK))}</text>'


def drawn(command: str, output: str) -> str:
    """An SVG of a terminal with a command and its output."""
    lines = [f"$ {command}", *(part for line in output.rstrip().splitlines() for part in wrapped(line.expandtabs()))]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], "…"]
    width = round(2 * MARGIN + CHARACTER * max(60, *map(len, lines)))
    height = 2 * MARGIN + LINE * len(lines)
    heights = range(MARGIN + LINE - 5, height, LINE)
    rows = [row(line, y, COMMAND if number == 0 else OUTPUT) for number, (line, y) in enumerate(zip(lines, heights))]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{SIZE}">'
    )
    return "\n".join([opening, f'<rect width="{width}" height="{height}" rx="6" fill="#0d1117"/>', *rows, "</svg>", ""])


def page() -> str:
    """docs/gallery.md."""
    parts = [
        "# Gallery of examples\n",
        "Every program in `examples/`, with what it prints. They run as they are, offline, after `pip install .`\n"
        "with the extras that they import. Noise is fresh, so your figures differ.\n",
    ]
    for group, names in GROUPS.items():
        parts.append(f"## {group}\n")
        for name in names:
            parts.append(f"### {name}.py\n")
            text = f"{summary(name)} [Source](../examples/{name}.py)"
            parts.append(textwrap.fill(text, 130, break_long_words=False, break_on_hyphens=False) + "\n")
            parts.append(f"![its output](pictures/{picture_of(name).name})\n")
    parts.append("## In a browser\n")
    parts.append(f"### {APPLICATION}\n")
    parts.append("A page that keeps notes and clean vectors, and a server that searches released ones ([how](web.md)).")
    parts.append(f"[Source](../examples/{APPLICATION})\n")
    parts.append("## From C++\n")
    places = "[source](../examples/cpp/release_embeddings.cpp), [how to build it without Python](../examples/cpp/CMakeLists.txt)"
    parts.append(f"`examples/cpp` links the library and releases a batch:\n{places}.\n")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="examples to draw, without .py (default: all)")
    parser.add_argument("--page", action="store_true", help="write the page and draw nothing")
    options = parser.parse_args()
    known = [name for names in GROUPS.values() for name in names]
    if wrong := sorted(set(options.names) - set(known)):
        parser.error(f"no such example: {', '.join(wrong)}")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in [] if options.page else options.names or known:
        picture_of(name).write_text(drawn(f"python examples/{name}.py", output_of(name)), "utf-8")
        print(name, flush=True)
    PAGE.write_text(re.sub(r"\n{3,}", "\n\n", page()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
