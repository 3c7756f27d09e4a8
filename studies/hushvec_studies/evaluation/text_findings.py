"""What the figures of redaction say, in sentences."""

from __future__ import annotations

from hushvec_studies.evaluation.findings import Row
from hushvec_studies.evaluation.redacted import (
    BY_INFORMATION,
    DIRECT,
    HIDDEN,
    HIDDEN_AIMED,
    LOST,
    PRECISION,
    PRECISION_OF_FINDS,
    QUASI,
)
from hushvec_studies.evaluation.sources import SOURCES

TEXT_TITLES = {
    DIRECT: "direct identifiers protected, every mention of them",
    QUASI: "quasi identifiers protected, every mention of them",
    PRECISION: "redacted words that identify",
    BY_INFORMATION: "the same, words weighed by information",
    LOST: "information lost of words that do not identify",
    HIDDEN: "identifiers hidden, of all types",
    HIDDEN_AIMED: "identifiers hidden, of the types that rules aim at",
    PRECISION_OF_FINDS: "finds that are identifiers",
}


def text_sentence(row: Row) -> str:
    """What redaction of a data set means for somebody who chooses epsilon."""
    figures, title = row["figures"], SOURCES[row["data"]].title
    if DIRECT in figures and QUASI in figures:
        direct, quasi = figures[DIRECT], figures[QUASI]
        return (
            f"{title}: redaction has no epsilon, and what it misses it does not protect. {_open(direct)} of the direct identifiers "
            f"and {_open(quasi)} of the quasi identifiers stay readable somewhere, so that a text may still name its person after "
            "it. Choose epsilon for what is released of such texts as if nothing had been redacted."
        )
    return f"{title}: {'; '.join(f'{TEXT_TITLES[name]} {_share(figure)}' for name, figure in figures.items())}."


def _share(figure: list[float]) -> str:
    value, low, high = (f"{100 * one:.3g} %" for one in figure)
    return f"{value} [{low}, {high}]"


def _open(figure: list[float]) -> str:
    """The share that is not protected."""
    value, low, high = figure
    return _share([1 - value, 1 - high, 1 - low])
