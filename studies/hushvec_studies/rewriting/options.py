"""Options that the programs share, and what they say while they work."""

import argparse
import sys
from pathlib import Path

from hushvec_studies.rewriting import documents

RESULTS = Path(__file__).parent / "results"
SEEDED = "Noise comes from a seed, so that the figures can be had again: measurements, not releases."


def parser(description):
    made = argparse.ArgumentParser(description=f"{description}\n\n{SEEDED}", formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--sentences", type=Path, default=documents.SENTENCES, help="pii_synth.json (default: %(default)s)")
    made.add_argument("--posts", type=Path, default=documents.POSTS, help="20newsgroups_8.jsonl.xz (default: %(default)s)")
    made.add_argument(
        "--embeddings",
        type=Path,
        help="folder written by studies/hushvec_studies/embeddings/posts.py; without it posts are embedded anew",
    )
    made.add_argument(
        "-o", "--output", type=Path, default=RESULTS, help="folder for JSON, CSV and figures (default: %(default)s)"
    )
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--quick", action="store_true", help="a smoke test: few documents; its figures mean nothing")
    made.add_argument("--no-figures", action="store_true", help="for machines without matplotlib")
    return made


def stage(text):
    print(text, file=sys.stderr, flush=True)


def settings(options, **others):
    """What goes into the results: no paths of this machine."""
    return {"seed": options.seed, "quick": options.quick, **others, "note": SEEDED}
