"""What the programs share: their settings, and the way from settings to files."""

import argparse
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.settings import DistinctOrNone, Seed, add_options, checked, given, one_of
from hushvec_studies.rewriting import documents, judges, results

RESULTS = Path(__file__).parent / "results"
SEEDED = "Noise comes from a seed, so that the figures can be had again: measurements, not releases."
Count = Annotated[int, Field(ge=1)]
Judges = DistinctOrNone[Annotated[str, one_of(judges.SECOND_OPINIONS)]]


class Settings(harness.Settings):
    """Of every program; one with further settings has a model of its own."""

    sentences: Path = Field(default=documents.SENTENCES, description="pii_synth.json")
    posts: Path = Field(default=documents.POSTS, description="20newsgroups_8.jsonl.xz")
    embeddings: Path | None = Field(
        default=None, description="folder that hushvec_studies.embeddings.posts wrote; without it posts are embedded anew"
    )
    output: Path = Field(default=RESULTS, description="folder for JSON, CSV and figures")
    seed: Seed = Field(default=0, description="of noise and of the choice of documents")
    quick: bool = Field(default=False, description="a smoke test: few documents; its figures mean nothing")
    no_figures: bool = Field(default=False, description="leave out the figures")


def run(description: str, name: str, kind: Any, studied: Any, draw: Any, table: Any) -> None:
    """A program: from its options to name.json, name.csv, its figures, and a table on standard output.

    Args:
        kind: model of its settings.
        studied: settings -> (further settings for the files, rows).
        draw: (study as it was written, folder) -> None.
        table: (rows, settings) -> (rows that are shown, columns).
    """
    parser = argparse.ArgumentParser(
        description=f"{description}\n\n{SEEDED}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, kind)
    try:
        settings = checked(kind, given(parser.parse_args(), kind))
    except (ValueError, TypeError) as error:
        parser.error(str(error))
    try:
        others, rows = studied(settings)
    except ModuleNotFoundError as error:
        parser.exit(2, f"{parser.prog}: error: {error.name} must be installed: pip install './studies[rewriting]'\n")
    write(name, settings, others, rows)
    if not settings.no_figures:
        draw(results.read(settings.output, name), settings.output)
    print(results.markdown(*table(rows, settings)))


def write(name: str, settings: Settings, others: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write name.json and name.csv, without paths of this machine."""
    said = {"seed": settings.seed, "quick": settings.quick, **others, "note": SEEDED}
    results.write(settings.output, name, {"settings": said, "surroundings": results.surroundings(), "rows": rows})


def stage(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
