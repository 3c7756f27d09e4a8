"""Where each benchmark comes from, under which license, and the texts that its files hold."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """Where data come from.

    Args:
        name: that the command uses.
        title: that people read.
        files: that are read, in the folder of the benchmarks.
        origin: where a user gets them.
        license: of the texts.
        reference: the publication.
    """

    name: str
    title: str
    files: tuple[str, ...]
    origin: str
    license: str
    reference: str


SCIFACT = Source(
    "scifact",
    "SciFact",
    ("scifact_corpus.jsonl.xz", "scifact_claims.jsonl.xz"),
    "https://github.com/allenai/scifact, also a BEIR dataset",
    "claims CC BY 4.0, abstracts ODC-By",
    "Wadden et al., Fact or fiction: verifying scientific claims (2020)",
)
NEWSGROUPS = Source(
    "newsgroups",
    "20 Newsgroups",
    ("20newsgroups_8.jsonl.xz",),
    "scikit-learn's fetch_20newsgroups (http://qwone.com/~jason/20Newsgroups), eight groups, by-date split",
    "no license stated; posts hold real names, so no text of them is shown or kept with the results",
    "Lang, NewsWeeder: learning to filter netnews (1995)",
)
BANKING = Source(
    "banking77",
    "Banking77",
    ("banking77.jsonl.xz",),
    "https://github.com/PolyAI-LDN/task-specific-datasets",
    "CC BY 4.0",
    "Casanueva et al., Efficient intent detection with dual sentence encoders (2020)",
)
TAB = Source(
    "tab",
    "Text Anonymization Benchmark",
    ("tab_113.jsonl.xz",),
    "https://github.com/NorskRegnesentral/text-anonymization-benchmark, 113 judgments of the train and dev splits",
    "MIT; judgments hold real names, so no text of them is shown or kept with the results",
    "Pilan et al., The Text Anonymization Benchmark (2022)",
)
SENTENCES = Source(
    "sentences",
    "Presidio's sentences",
    ("pii_synth.json",),
    "https://github.com/microsoft/presidio-research, data/synth_dataset_v2.json",
    "MIT; synthetic",
    "presidio-research, synthetic sentences with known spans",
)
TEXT_SOURCES = (TAB, SENTENCES)
SOURCES = {source.name: source for source in (SCIFACT, NEWSGROUPS, BANKING, *TEXT_SOURCES)}


def titled(task: str) -> str:
    """A task as people read it: newsgroups, private documents -> 20 Newsgroups, private documents."""
    name, comma, rest = task.partition(",")
    return (SOURCES[name].title if name in SOURCES else name) + comma + rest


def paths_of(source: Source, folder: Path) -> list[Path]:
    """The files of a benchmark.

    Raises:
        FileNotFoundError: one is not there; the error says where to get it.
    """
    paths = [folder / name for name in source.files]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: must be a file of {source.name} ({source.origin}), is not there")
    return paths
