"""Key phrases of a text by RAKE: the queries with which a study asks for a document.

From the paper: a candidate is a longest run of words without a stop word or a delimiter in it; the score of a word is
deg(w) / freq(w), where freq(w) counts its occurrences in candidates and deg(w) adds up the lengths of the candidates that they are in;
the score of a candidate is the sum of the scores of its words. Ours, where the paper is silent or has no limits: what a word is
and what delimits, the limits on the number of words, what stands in where too few candidates fit, and the order of equal scores
(`key_phrases`).

Reference:
    S. Rose, D. Engel, N. Cramer, W. Cowley, "Automatic keyword extraction from individual documents", in: Text Mining:
    Applications and Theory, Wiley (2010), sections 1.2.1 to 1.2.4.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

# Letters and digits with apostrophes and hyphens inside. A word of one character, or without a letter, is a delimiter.
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
# Between the words of one fragment there are spaces only: punctuation, line ends and tabs delimit.
_FRAGMENT = re.compile(rf"{_WORD.pattern}(?: +{_WORD.pattern})*")
_WORD_AND_SPACES = re.compile(rf"({_WORD.pattern})[ \t]*")
_STOP_WORDS = "stop_words.txt"


class Candidate(NamedTuple):
    """A run of words of one fragment, and where it is: the fragment's number, and the words it takes of it."""

    words: tuple[str, ...]
    fragment: int
    first: int

    @property
    def end(self) -> int:
        return self.first + len(self.words)

    def overlaps(self, other: Candidate) -> bool:
        return self.fragment == other.fragment and self.first < other.end and other.first < self.end


@cache
def stop_words() -> frozenset[str]:
    """The words of the package's own English list: lower case, apostrophes straight."""
    lines = resources.files("hushvec_studies.retrieval").joinpath(_STOP_WORDS).read_text("utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def word_count(text: str) -> int:
    """Words of a text as key phrases see them, stop words among them."""
    return sum(1 for _ in _WORD.finditer(text))


def prepared_text(text: str, *, lower_case: bool = False, drop: bool = False) -> str:
    """A text as it is embedded: in lower case, without the words of `stop_words()`, or as it is.

    A text of nothing but stop words keeps them: an empty text has no meaning that could be embedded.

    Example:
        >>> prepared_text("It is the Noise of all Vectors, isn't it?", lower_case=True, drop=True)
        'noise vectors, ?'
    """
    kept = text
    if drop:
        known = stop_words()
        kept = _WORD_AND_SPACES.sub(lambda match: "" if match[1].lower().replace("’", "'") in known else match[0], text)
    if not _WORD.search(kept):
        kept = text
    return kept.lower() if lower_case else kept


def candidates(text: str, stop: Collection[str], longest: int | None = None) -> list[Candidate]:
    """The candidates of a text in their order; one of more than `longest` words is cut into pieces of that many from its start."""
    found = []
    for number, words in enumerate(_fragments(text)):
        found += _runs(words, number, stop, longest or len(words))
    return found


def word_scores(found: Sequence[Candidate]) -> dict[str, float]:
    """deg(w) / freq(w) of every word of the candidates."""
    degree: Counter[str] = Counter()
    frequency: Counter[str] = Counter()
    for candidate in found:
        length = len(candidate.words)
        for word in candidate.words:
            degree[word] += length
            frequency[word] += 1
    return {word: degree[word] / count for word, count in frequency.items()}


def key_phrases(text: str, *, count: int = 3, tokens: tuple[int, int] = (3, 5)) -> list[str]:
    """At most `count` different key phrases of a text, the best first, in lower case; fewer only where the text has no more.

    Args:
        text: English.
        tokens: the fewest and the most words of a phrase.

    Guarantees:
        The same text gives the same phrases on every machine. Nothing here is private: a phrase says what the text says.
        A candidate of more words than the limit is cut, before anything is scored, into pieces of the limit from its start: a table
        or a list without punctuation would otherwise lend its length to every word in it.
        Where fewer than `count` candidates have enough words, runs of two or more candidates and the stop words between them stand
        in, within one fragment and the limits ("systems of linear constraints"; the paper's adjoining keywords, which it takes only if
        they come twice), and then the candidates that are too short; neither where it lies in, or over, a phrase that is already
        taken. Each kind is ordered by the sum of its words' scores; of equal scores the one that comes first in the text goes
        first.

    Example:
        >>> key_phrases("Compatibility of systems of linear constraints over the set of natural numbers. Criteria of "
        ...             "compatibility of a system of linear Diophantine equations are considered.", count=2)
        ['linear diophantine equations', 'systems of linear constraints']
    """
    fewest, most = tokens
    fragments, found = list(_fragments(text)), candidates(text, stop_words(), most)
    scores = word_scores(found)
    chosen: dict[str, Candidate] = {}
    long_enough = [candidate for candidate in found if len(candidate.words) >= fewest]
    for kind in (long_enough, list(_adjoining(found, fragments, fewest, most)), found):
        # stop words score nothing; the sort is stable: equal scores keep the order of the text
        for candidate in sorted(kind, key=lambda candidate: -sum(scores.get(word, 0.0) for word in candidate.words)):
            if len(chosen) == count:
                return list(chosen)
            if not any(map(candidate.overlaps, chosen.values())):
                chosen.setdefault(" ".join(candidate.words), candidate)
    return list(chosen)


def _fragments(text: str) -> Iterator[list[str]]:
    """Words between two delimiters, in lower case with straight apostrophes."""
    for match in _FRAGMENT.finditer(text.lower().replace("’", "'")):
        yield match.group().split()


def _runs(words: list[str], fragment: int, stop: Collection[str], longest: int) -> list[Candidate]:
    found, run = [], 0
    for place in range(len(words) + 1):
        if place < len(words) and not _delimits(words[place], stop) and place - run < longest:
            continue
        if place > run:
            found.append(Candidate(tuple(words[run:place]), fragment, run))
        # the word that stopped the run opens the next one, unless it is a delimiter itself
        run = place + 1 if place == len(words) or _delimits(words[place], stop) else place
    return found


def _delimits(word: str, stop: Collection[str]) -> bool:
    return word in stop or len(word) == 1 or not any(map(str.isalpha, word))


def _adjoining(found: list[Candidate], fragments: list[list[str]], fewest: int, most: int) -> Iterator[Candidate]:
    """Runs of a fragment from the start of one candidate to the end of a later one."""
    for place, opening in enumerate(found):
        for closing in found[place + 1 :]:
            if closing.fragment != opening.fragment or closing.end - opening.first > most:
                break
            if closing.end - opening.first >= fewest:
                yield Candidate(tuple(fragments[opening.fragment][opening.first : closing.end]), opening.fragment, opening.first)
