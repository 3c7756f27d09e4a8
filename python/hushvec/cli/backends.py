"""`hushvec backends`: which instruction sets this build has, this machine runs, and are in use."""

from __future__ import annotations

import argparse

import hushvec
from hushvec._native import _core
from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import facts, print_json


def add_to(subparsers: Subparsers) -> None:
    add_command(
        subparsers,
        "backends",
        run,
        help="what was compiled, what this machine runs, what is in use",
        description="Show the instruction sets of this build. HUSHVEC_BACKEND forces one, HUSHVEC_NUM_THREADS sets the threads.",
    )


def run(options: argparse.Namespace) -> int:
    report = {
        **hushvec.backends(),
        "threads": _core.get_num_threads(),
        "version": hushvec.__version__,
        "format_version": _core.format_versions["chacha20"],
    }
    if options.json:
        print_json(report)
    else:
        print(facts([(name, ", ".join(value) if isinstance(value, list) else str(value)) for name, value in report.items()]))
    return 0
