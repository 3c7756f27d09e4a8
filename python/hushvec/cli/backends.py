"""`hushvec backends`: which instruction sets this build has, this machine runs, and are in use."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import hushvec
from hushvec._native import _core
from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import facts, print_json


def add_to(subparsers: Subparsers) -> None:
    add_command(
        subparsers,
        "backends",
        run,
        description="Show the instruction sets and the AES implementations of this build. HUSHVEC_BACKEND and HUSHVEC_AES force one, "
        "HUSHVEC_NUM_THREADS sets the threads.",
        examples=(
            ("what this machine runs", "hushvec backends"),
            ("the same without AVX-512", "HUSHVEC_BACKEND=avx2 hushvec backends"),
        ),
    )


def run(options: argparse.Namespace) -> int:
    report = {
        **hushvec.backends(),
        "threads": _core.get_num_threads(),
        "version": hushvec.__version__,
        "format_versions": _core.format_versions,
    }
    if options.json:
        print_json(report)
    else:
        print(facts([(name, _text(value)) for name, value in _flat(report)]))
    return 0


def _flat(report: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in report.items():
        if name == "aes":
            yield from ((f"aes {inner}", of_inner) for inner, of_inner in value.items())
        else:
            yield name, value


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
