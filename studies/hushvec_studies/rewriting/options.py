"""What the programs share: their settings, and the way from settings to files."""

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hushvec_studies.harness import outputs
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.settings import DistinctOrNone, Seed, one_of, parsed
from hushvec_studies.harness.tables import markdown_table
from hushvec_studies.rewriting import documents, judges

RESULTS = Path(__file__).parent / "results"
SEEDED = "Noise comes from a seed, so that the figures can be had again: measurements, not releases."
PACKAGES = ("numpy", "torch", "transformers", "sentence-transformers", "faiss-cpu", "presidio-analyzer", "wordllama")
DIGITS = 5
SIMILARITY = "similarity"  # among the columns of a table: one for each judge

Count = Annotated[int, Field(ge=1)]
Judges = DistinctOrNone[Annotated[str, one_of(judges.SECOND_OPINIONS)]]
Row = dict[str, Any]


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


def run(
    description: str,
    name: str,
    kind: Any,
    studied: Callable[[Any], tuple[Row, list[Row]]],
    draw: Callable[[Any, Path], object],
    columns: Sequence[str],
    epsilons: Sequence[float] | None = None,
) -> None:
    """A program: from its options to name.json, name.csv, its figures, and a table on standard output.

    Args:
        kind: model of its settings.
        studied: settings -> (further settings for the files, rows).
        draw: (study as it was written, folder) -> None.
        columns: of the table; SIMILARITY stands for those of all judges.
        epsilons: whose rows the table has; None: all.
    """
    settings = parsed(f"{description}\n\n{SEEDED}", kind)
    try:
        others, rows = studied(settings)
    except ModuleNotFoundError as error:
        program = Path(sys.argv[0]).name
        print(f"{program}: error: {error.name} must be installed: pip install './studies[rewriting]'", file=sys.stderr)
        sys.exit(2)
    write(name, settings, others, rows)
    if not settings.no_figures:
        draw(read(settings.output, name), settings.output)
    print(markdown([row for row in rows if epsilons is None or row["epsilon"] in epsilons], columns))


def write(name: str, settings: Settings, others: Row, rows: list[Row]) -> None:
    """Write name.json, with everything but paths of this machine, and name.csv."""
    around = {"processor": outputs.processor(), "cores": os.cpu_count(), "packages": outputs.versions(*PACKAGES)}
    said = {"seed": settings.seed, "quick": settings.quick, **others, "note": SEEDED}
    study = outputs.readable({"settings": said, "surroundings": outputs.surroundings() | around, "rows": rows}, DIGITS)
    settings.output.mkdir(parents=True, exist_ok=True)
    outputs.write_study(settings.output / f"{name}.json", study)
    outputs.write_csv(settings.output / f"{name}.csv", study["rows"])


def read(folder: Path, name: str) -> Any:
    study = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    for row in study["rows"]:
        if row.get("epsilon") == "inf":
            row["epsilon"] = math.inf
    return study


def judged(rows: Sequence[Row]) -> list[str]:
    """The columns of likeness, one for each judge."""
    return [key for key in rows[0] if key.startswith(f"{SIMILARITY}_") and key.count("_") == 1]


def markdown(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """A table of those columns; one with an error beside it is printed as value +- error."""
    shown = [name for column in columns for name in (judged(rows) if column == SIMILARITY else [column])]
    return markdown_table(shown, ([_cell(row, name) for name in shown] for row in rows))


def _cell(row: Row, name: str) -> str:
    value, error = row.get(name), row.get(f"{name}_error")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:g}" if error is None else f"{value:.3f} ± {error:.3f}"


def stage(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
