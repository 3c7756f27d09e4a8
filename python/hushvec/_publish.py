"""Files and folders that appear whole or not at all: values together with their receipt, texts, bytes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

RECEIPT_SUFFIX = ".receipt.json"


def receipt_path(output: Path) -> Path:
    return output.with_name(output.name + RECEIPT_SUFFIX)


@contextmanager
def published(output: Path) -> Iterator[tuple[Path, Path]]:
    """Two unfinished files beside the output; both take their places when the block ends well, neither if it does not.

    An old receipt goes first: at no moment do new values stand beside a receipt of others.
    """
    final = (output, receipt_path(output))
    partial = tuple(path.with_name(f".{path.name}.{os.getpid()}.partial") for path in final)
    try:
        yield partial[0], partial[1]
        for path in partial:
            with path.open("rb+") as file:
                os.fsync(file.fileno())
        final[1].unlink(missing_ok=True)
        for unfinished, path in zip(partial, final):
            os.replace(unfinished, path)
    finally:
        for path in partial:
            path.unlink(missing_ok=True)


@contextmanager
def published_text(output: Path) -> Iterator[TextIO]:
    """A file beside the output, which takes its place when the block ends well."""
    if output.exists() and not output.is_file():
        raise ValueError(f"{output}: must be a plain file")
    partial = output.with_name(f".{output.name}.{os.getpid()}.partial")
    try:
        with partial.open("x", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def published_bytes(output: Path) -> Iterator[BinaryIO]:
    """A binary file beside the output, of a name that nobody else has, which takes its place when the block ends well."""
    handle, beside = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, output)
    except BaseException:
        os.unlink(beside)
        raise


@contextmanager
def published_folder(output: Path) -> Iterator[Path]:
    """A folder beside the output, which takes its place when the block ends well, unless another process was faster: for what is
    the same whoever makes it."""
    output.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        yield beside
        try:
            os.rename(beside, output)
        except OSError:
            if not output.is_dir():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
