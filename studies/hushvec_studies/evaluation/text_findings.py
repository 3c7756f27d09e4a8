"""What the figures of redaction say, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

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
from hushvec_studies.evaluation.rewritten import AS_IT_IS, BITS, LEAK, LENGTH, MEANING, UNRELATED, WORDS
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

REWRITING_TITLES = {
    MEANING: "meaning: cosine with the text",
    UNRELATED: "cosine with another text",
    LEAK: "identifying strings that stand in the output",
    LENGTH: "length, of the text's",
    BITS: "bits per word (less is more fluent)",
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


def rewriting_sentence(rows: Sequence[Row]) -> str:
    """What word-level metric privacy and a rewriter of whole texts keep of meaning where little leaks."""
    whole = next(row for row in rows if row["method"] == AS_IT_IS)
    told = []
    for method in dict.fromkeys(row["method"] for row in rows if row is not whole):
        for row in (one for one in rows if one["method"] == method):
            figures = row["figures"]
            of_text = f"{row['epsilon_of_text']:,.0f} of a text"
            told.append(
                f"{method} at epsilon {row['epsilon']:g} ({of_text}): meaning {_number(figures[MEANING])}, by chance "
                f"{figures[UNRELATED][0]:.3f}, "
                f"leak {_share(figures[LEAK])}"
            )
    note = f"epsilon of {WORDS} is of a word and a unit of distance, and adds up over the words of a text"
    return f"Rewriting of {rows[0]['documents']:,} sentences; {note}. {'; '.join(told)}."


def _number(figure: list[float]) -> str:
    value, low, high = figure
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _share(figure: list[float]) -> str:
    value, low, high = (f"{100 * one:.3g} %" for one in figure)
    return f"{value} [{low}, {high}]"


def _open(figure: list[float]) -> str:
    """The share that is not protected."""
    value, low, high = figure
    return _share([1 - value, 1 - high, 1 - low])
