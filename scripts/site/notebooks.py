"""Notebooks, stored with their outputs, as Markdown: nothing is executed here."""

from __future__ import annotations

import base64
import re
from typing import Any

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
IMAGES = {"image/png": "png", "image/jpeg": "jpg", "image/svg+xml": "svg"}


def as_markdown(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """The notebook's Markdown, and its images by file name.

    Args:
        notebook: the JSON of a notebook, format 4.
        stem: the notebook's name, with which names of images begin.
    """
    parts: list[str] = []
    images: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = joined(cell["source"]).rstrip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source:
            parts.append(fenced(source, "python"))
            for output in cell["outputs"]:
                parts += [shown(output, stem, images)]
    return "\n\n".join(filter(None, parts)) + "\n", images


def shown(output: dict[str, Any], stem: str, images: dict[str, bytes]) -> str:
    """One output of a cell; an image is added to `images`."""
    kind = output["output_type"]
    if kind == "stream":
        return result(joined(output["text"]))
    if kind == "error":
        return result("\n".join(output["traceback"]))
    data = output["data"]
    for mime, ending in IMAGES.items():
        if mime in data:
            name = f"{stem}_{len(images) + 1}.{ending}"
            content = joined(data[mime])
            images[name] = content.encode() if ending == "svg" else base64.b64decode(content)
            return f"![]({name})"
    if "text/markdown" in data:
        return joined(data["text/markdown"])
    if "text/html" in data:
        lines = joined(data["text/html"]).splitlines()
        return '<div class="output">\n' + "\n".join(line for line in lines if line.strip()) + "\n</div>"
    return result(joined(data.get("text/plain", "")))


def result(text: str) -> str:
    text = ANSI.sub("", text).rstrip()
    return fenced(text, "text { .output }") if text else ""


def fenced(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
