"""Runs the whole benchmark: our cases and the peers, round-robin, on the same arrays.

    python bench/python/run.py [--quick] [--threads 1,2] [--out bench/results/NAME.json [--merge]]
"""

import single_thread  # noqa: F401  before numpy

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Sequence

import claims
import hushvec_cases
import machine
import peers
import report
from contestant import Contestant
from rounds import Outcome, run_rounds
from workloads import standard_workloads

ROUNDS = 15
QUICK_ROUNDS = 5


def thread_counts(text: str) -> tuple[int, ...]:
    try:
        counts = sorted({int(part) for part in text.split(",")})
    except ValueError:
        counts = [0]
    if counts[0] < 1:
        raise argparse.ArgumentTypeError(f"threads must be whole numbers >= 1, got {text!r}")
    # One thread is what the claims are about, so it is always there.
    return tuple(sorted({1, *counts}))


def round_count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"rounds must be a whole number >= 1, got {text!r}")
    return int(text)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    names = [workload.name for workload in standard_workloads()]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true",
                        help=f"{QUICK_ROUNDS} rounds and smaller fills: a smoke test, not a figure")
    parser.add_argument("--rounds", type=round_count, help=f"rounds per table (default {ROUNDS})")
    parser.add_argument("--threads", type=thread_counts, metavar="1,2",
                        default=(1, 2) if (os.cpu_count() or 1) > 1 else (1,),
                        help="also run what has a thread pool with these numbers of threads")
    parser.add_argument("--workloads", nargs="+", choices=names, default=names, metavar="NAME",
                        help="only these tables: " + ", ".join(names))
    parser.add_argument("--out", type=Path,
                        help="write every time and every fact to this JSON file")
    parser.add_argument("--merge", action="store_true",
                        help="keep the other tables of --out, if machine, software and settings are the same")
    options = parser.parse_args(arguments)
    if options.merge and options.out is None:
        parser.error("--merge needs --out")
    return options


def kept_results(options: argparse.Namespace, known: dict[str, Any]) -> dict[str, Any] | None:
    """The results to merge with, or None.  Exits with code 2, before anything runs, where they do not fit `known`."""
    if not options.merge or not options.out.exists():
        return None
    old = json.loads(options.out.read_text(encoding="utf-8"))
    if reason := report.disagreement(old, known):
        print(f"{options.out}: {reason}", file=sys.stderr)
        sys.exit(2)
    return old


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def _open(contestants: Sequence[Contestant]) -> tuple[list[Contestant], dict[Contestant, str]]:
    """Splits into those that can run here, and the reasons of those that cannot."""
    ready, refused = [], {}
    for contestant in contestants:
        _show_progress(f"opening {contestant.name}")
        available, reason = contestant.available()
        if available:
            ready.append(contestant)
        else:
            refused[contestant] = reason
    return ready, refused


def main(arguments: Sequence[str]) -> int:
    """Returns 0, or 1 when a contestant's output did not follow its law."""
    options = parse(arguments)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    workloads = [w for w in standard_workloads(options.quick) if w.name in options.workloads]
    contestants = [*hushvec_cases.all_cases(options.threads), *peers.all_peers(options.threads)]
    facts = machine.facts(hushvec_cases.backends())
    settings = {"rounds": rounds, "quick": options.quick, "threads": list(options.threads)}
    old = kept_results(options, {**facts, "settings": settings})
    print(machine.heading(facts))

    ready, refused = _open(contestants)
    outcomes: dict[str, Outcome] = {}
    try:
        for index, workload in enumerate(workloads, start=1):
            label = f"[{index}/{len(workloads)}] {workload.name}: "
            outcome = run_rounds(workload, ready, rounds, lambda text: _show_progress(label + text))
            outcome.not_run = {
                contestant.name: reason
                for contestant, reason in refused.items()
                if contestant.offers(workload.operation)
            }
            outcomes[workload.name] = outcome
            _show_progress("")
            print(f"\n{report.workload_table(outcome)}", flush=True)
    finally:
        for contestant in contestants:
            contestant.close()

    generation = claims.generation_of(facts["machine"], *hushvec_cases.in_use())
    verdicts = [claims.judge(claim, outcomes, generation) for claim in claims.CLAIMS
                if claim.workload in outcomes]
    note = "; a quick run: the sizes are not those of the claims" if options.quick else ""
    print(f"\nClaims for {generation} (one thread, float32, unless a line says otherwise{note})")
    print(f"Its ports allow, in cycles for 32 samples: {claims.GENERATIONS.get(generation, 'not counted')}")
    print(report.claims_table(verdicts))
    print(claims.summary(verdicts))

    if options.out:
        record = report.results_record(facts, settings, outcomes, verdicts)
        report.write_json(record if old is None else report.merged(old, record), options.out)
        print(f"\nwritten: {options.out}")
    return 1 if any(outcome.wrong for outcome in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
