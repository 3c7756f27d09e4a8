"""The documents of a study: 20 Newsgroups, records of hushvec.data, or JSON lines; cleaned, filtered and split."""

from __future__ import annotations

import hashlib
import html
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from hushvec._util import validate
from hushvec.data import records
from hushvec.extend.helpers import json_record, require_utf8
from hushvec_studies.harness.texts import SUFFIXES, digest_of_texts, lines_of, suffix_of, text_of
from hushvec_studies.retrieval.key_phrases import word_count

NEWSGROUPS = "20newsgroups"
SHIPPED = "hushvec.data"
DEFAULT_SPLITS = (0.70, 0.15, 0.15)

# The elements of HTML, so that <who@where.org> and <name> in a text without markup are left alone.
_ELEMENTS = (
    "a|abbr|acronym|address|area|article|aside|audio|b|base|big|blink|blockquote|body|br|button|canvas|caption|center|cite|code|col|"
    "colgroup|dd|del|dfn|dir|div|dl|dt|em|embed|fieldset|figcaption|figure|font|footer|form|frame|frameset|h[1-6]|head|header|hr|html|i|"
    "iframe|img|input|ins|kbd|label|legend|li|link|main|map|mark|menu|meta|nav|noscript|object|ol|optgroup|option|p|param|picture|pre|q|"
    "s|samp|section|select|small|source|span|strike|strong|sub|summary|sup|svg|table|tbody|td|textarea|tfoot|th|thead|time|title|tr|tt|u|"
    "ul|var|video"
)
_SWITCHES = (
    "async|autoplay|checked|compact|controls|defer|disabled|hidden|ismap|multiple|noshade|nowrap|readonly|required|selected"
)
_ATTRIBUTE = rf"""\s+(?:[\w:\-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s<>"']+)|(?:{_SWITCHES})(?=[\s/>]))"""
_TAG = re.compile(rf"</?(?:{_ELEMENTS})(?:{_ATTRIBUTE})*\s*/?>|<!doctype\b[^<>]*>", re.IGNORECASE)
# What opens a part that no reader sees, and what closes it.
_UNSEEN = re.compile(r"<!--|<(?:script|style)\b[^<>]*>", re.IGNORECASE)
_CLOSING = {
    kind: re.compile(end, re.IGNORECASE) for kind, end in (("<!", "-->"), ("<sc", r"</script\s*>"), ("<st", r"</style\s*>"))
}
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


@dataclass(frozen=True)
class Corpus:
    """Documents of a study in a fixed order, made by `load_corpus`: ids and cleaned texts all different.

    Args:
        splits: "train", "val" or "test", one for each document.
        left_out: why documents of the source are not here, and how many for each reason.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    categories: tuple[str, ...]
    splits: tuple[str, ...]
    left_out: tuple[tuple[str, int], ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, name: str) -> Corpus:
        """The documents of one part; ValueError: no such part, or no document in it."""
        validate.choice("part", name, PARTS)
        kept = [place for place, split in enumerate(self.splits) if split == name]
        if not kept:
            raise ValueError(f"part must have a document, got none in {name!r}")
        return self.at(kept)

    def at(self, places: Iterable[int]) -> Corpus:
        """The documents at these places."""
        chosen = list(places)
        ids, texts, categories, splits = (
            tuple(column[place] for place in chosen) for column in (self.ids, self.texts, self.categories, self.splits)
        )
        return Corpus(ids, texts, categories, splits)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of every id, text, category and part in their order, each with its length before it."""
        columns = (self.ids, self.texts, self.categories, self.splits)
        return digest_of_texts("hushvec study corpus 1\n", chain.from_iterable(zip(*columns, strict=True)))


class _Document(NamedTuple):
    id: str
    text: str
    category: str
    split: str | None
    where: str


def load_corpus(
    source: str | os.PathLike[str],
    *,
    data_home: str | os.PathLike[str] | None = None,
    categories: Sequence[str] | None = None,
    min_tokens: int = 50,
    splits: Sequence[float] | Literal["given"] = DEFAULT_SPLITS,
    seed: int = 2025,
) -> Corpus:
    """Read, clean, filter and split the documents of a study, in the order of the source.

    Args:
        source: one of
            "20newsgroups": both parts of scikit-learn's data set, which scikit-learn downloads into data_home if it is not there;
            "hushvec.data": the 1,200 invented records that ship with hushvec; nothing is downloaded;
            a file .jsonl, .jsonl.xz or .jsonl.gz: one object a line with `text`, and `id` or `_id` (default: the line's number),
            `category` (default: the name of the file) and `split` if they are there. With `_id`, as BEIR has it, `title` comes before
            the text.
        data_home: folder of scikit-learn's data sets; None: scikit-learn's own. Only with "20newsgroups".
        categories: which to keep; None: all.
        min_tokens: documents of fewer words are left out; words as `key_phrases` sees them, stop words among them.
        splits: shares of train, val and test within each category, or "given": what the source says ("validation" and "dev" mean
            "val").
        seed: of the split.

    Raises:
        ValueError: a source that is none of these, empty, or damaged; a line that lacks what it must have; an id that is there
            twice; a category that is not there, or too small to be split. The message names file and line.
        OSError: it cannot be read, or downloaded.

    Guarantees:
        Texts are `cleaned`; upper case, stop words and line ends stay, because embedding models read sentences. The same source,
        arguments and seed give the same corpus on every machine.
        A text that is there a second time after cleaning is left out, whatever its id: two equal documents cannot be told apart by any
        search, and one of them would give the other's membership away.
    """
    name, documents = _documents(source, data_home)
    kept, left_out = _kept(name, documents, categories, min_tokens)
    ids, texts, found = (tuple(getattr(document, field) for document in kept) for field in ("id", "text", "category"))
    parts = tuple(map(_given_part, kept)) if splits == "given" else stratified_split(ids, found, splits, seed)
    return Corpus(ids, texts, found, parts, left_out)


def cleaned(text: str) -> str:
    """A text without HTML tags, comments, scripts and style sheets, with entities replaced, in the normal form NFKC.

    Example:
        >>> cleaned("<b>Fine</b> &amp; <ann@example.org> wrote: ﬁne")
        ' Fine  & <ann@example.org> wrote: fine'
    """
    shown = _TAG.sub(" ", _without_unseen(text)) if "<" in text else text
    return unicodedata.normalize("NFKC", _ENTITY.sub(lambda match: html.unescape(match.group()), shown))


def _without_unseen(text: str) -> str:
    """Comments, scripts and style sheets out; one that nothing closes stays. Time is linear: a missing end is looked for once."""
    kept: list[str] = []
    place, endless = 0, set()
    while (opening := _UNSEEN.search(text, place)) is not None:
        kind = next(kind for kind in _CLOSING if opening.group().lower().startswith(kind))
        closing = None if kind in endless else _CLOSING[kind].search(text, opening.end())
        kept.append(text[place : opening.start()])
        if closing is None:
            endless.add(kind)
            kept.append(opening.group())
            place = opening.end()
        else:
            kept.append(" ")
            place = closing.end()
    return "".join([*kept, text[place:]])


# ---- sources ----

def _documents(source: str | os.PathLike[str], data_home: str | os.PathLike[str] | None) -> tuple[str, Iterator[_Document]]:
    if source == NEWSGROUPS:
        return NEWSGROUPS, _of_newsgroups(data_home)
    if data_home is not None:
        raise ValueError(f"data_home must be left out unless source is {NEWSGROUPS!r}")
    if source == SHIPPED:
        return SHIPPED, (_Document(one.id, one.text, one.category, None, f"{SHIPPED}: {one.id}") for one in records())
    path = Path(source)
    suffix = suffix_of(path)
    if suffix is None:
        kinds = ", ".join(SUFFIXES)
        raise ValueError(
            f"source must be {NEWSGROUPS!r}, {SHIPPED!r}, or a file {kinds}, got {os.fspath(source)!r}"
        )
    return str(path), _of_json_lines(path, suffix)


def _of_newsgroups(data_home: str | os.PathLike[str] | None) -> Iterator[_Document]:
    from sklearn.datasets import fetch_20newsgroups

    home = None if data_home is None else os.fspath(data_home)
    for part in ("train", "test"):
        try:
            found = fetch_20newsgroups(data_home=home, subset=part, shuffle=False)
        except OSError as mistake:
            where = home or "scikit-learn's own data_home"
            raise OSError(f"{NEWSGROUPS}: not in {where}, and scikit-learn could not download it there ({mistake})") from None
        for text, target, file in zip(found.data, found.target, found.filenames, strict=True):
            category = found.target_names[target]
            name = f"{category}/{Path(file).name}"
            yield _Document(name, require_utf8(text, f"{NEWSGROUPS}: {name}"), category, part, f"{NEWSGROUPS}: {name}")


def _of_json_lines(path: Path, suffix: str) -> Iterator[_Document]:
    for number, (where, line) in enumerate(lines_of(path), 1):
        record = json_record(line, "text", where)
        # ids of other systems are often numbers
        given_id = record.fields.get("id", record.fields.get("_id", number))
        if isinstance(given_id, int) and not isinstance(given_id, bool):
            given_id = str(given_id)
        # lines of BEIR, whose id is `_id`, have their title apart
        text = text_of({**record.fields, "text": record.text}) if "_id" in record.fields else record.text
        fields = {"id": given_id, "category": record.fields.get("category", path.name.removesuffix(suffix)), "text": text}
        for key, value in fields.items():
            if not isinstance(value, str):
                raise ValueError(f"{where}: {key!r} must be a string, got {type(value).__name__}")
            require_utf8(value, where)
        split = record.fields.get("split")
        if split is not None and not isinstance(split, str):
            raise ValueError(f"{where}: 'split' must be a string, got {type(split).__name__}")
        yield _Document(fields["id"], text, fields["category"], split, where)


# ---- what is kept ----

def _kept(
    name: str, documents: Iterator[_Document], categories: Collection[str] | None, min_tokens: int
) -> tuple[list[_Document], tuple[tuple[str, int], ...]]:
    kept: list[_Document] = []
    ids: dict[str, str] = {}
    texts: set[str] = set()
    seen: set[str] = set()
    left_out: Counter[str] = Counter()
    for document in documents:
        if document.id in ids:
            raise ValueError(f"{document.where}: id must be there once, got {document.id!r} of {ids[document.id]}")
        ids[document.id] = document.where
        seen.add(document.category)
        text = cleaned(document.text)
        if categories is not None and document.category not in categories:
            left_out["another category"] += 1
        elif not text.strip() or word_count(text) < min_tokens:
            left_out[f"fewer than {min_tokens} words"] += 1
        elif text in texts:
            left_out["the text of another"] += 1
        else:
            texts.add(text)
            kept.append(document._replace(text=text))
    if not ids:
        raise ValueError(f"{name}: must hold at least one document, got none")
    missing = [category for category in categories or () if category not in seen]
    if missing:
        raise ValueError(f"categories must be in {name}, which has no {missing[0]!r} (it has {', '.join(sorted(seen)):.200})")
    if not kept:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise ValueError(f"{name}: must hold a document that is kept, got none ({reasons})")
    return kept, tuple(left_out.items())


def _given_part(document: _Document) -> str:
    part = {"validation": "val", "dev": "val"}.get(document.split or "", document.split)
    if part not in PARTS:
        raise ValueError(f"{document.where}: split must be one of {', '.join(PARTS)}, got {document.split!r}")
    return part


# ---- splits ----

PARTS = ("train", "val", "test")


def stratified_split(
    ids: Sequence[str], categories: Sequence[str], shares: Sequence[float] = DEFAULT_SPLITS, seed: int = 2025
) -> tuple[str, ...]:
    """The part of every document, "train", "val" or "test", in their order.

    Raises:
        ValueError: a category with fewer documents than parts that are not empty.

    Guarantees:
        Within a category, documents are ordered by SHA-256 of seed and id and dealt out from that order: the order in which they are
        given, and documents of other categories, change nothing. The sizes of the parts of a category of n documents are the whole
        numbers nearest to n times the shares (largest remainders), except that a part with a share above 0 gets at least one.

    Example:
        >>> parts = stratified_split([f"post {n}" for n in range(20)], ["cars"] * 20)
        >>> [parts.count(part) for part in ("train", "val", "test")]
        [14, 3, 3]
    """
    members: dict[str, list[int]] = {}
    for place, category in enumerate(categories):
        members.setdefault(category, []).append(place)
    parts = [""] * len(ids)
    for category, places in members.items():
        dealt = sorted(places, key=lambda place: hashlib.sha256(f"{seed}\n{ids[place]}".encode()).digest())
        sizes = _sizes(len(places), shares, category)
        for place, part in zip(dealt, (part for part, size in zip(PARTS, sizes) for _ in range(size)), strict=True):
            parts[place] = part
    return tuple(parts)


def _sizes(count: int, shares: Sequence[float], category: str) -> list[int]:
    fewest = [1 if share > 0 else 0 for share in shares]
    if count < sum(fewest):
        raise ValueError(f"category {category!r} must have at least {sum(fewest)} documents to be split, got {count}")
    exact = [count * share for share in shares]
    sizes = [max(int(size), least) for size, least in zip(exact, fewest)]
    while sum(sizes) != count:
        step = 1 if sum(sizes) < count else -1
        able = [part for part in range(len(sizes)) if shares[part] > 0 and sizes[part] + step >= fewest[part]]
        part = max(able, key=lambda part: step * (exact[part] - sizes[part]))
        sizes[part] += step
    return sizes
