"""`hushvec redact`: personal data in a text, a file or standard input replaced by placeholders or pseudonyms; the list of rules."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from hushvec._util.lines import json_record, lines_with_ends
from hushvec._util.progress import Progress
from hushvec._util.publish import published_text
from hushvec.cli._arguments import Subparsers, add_command, comma_separated
from hushvec.cli._documents import mode_of_output, read_utf8, source_name
from hushvec.cli._output import print_json, table
from hushvec.cli._printable import say
from hushvec.integrations.detectors import detector
from hushvec.text.pii.pseudonyms import SCOPES, Known, Pseudonymizer, new_key, read_key, read_vault, restoring, write_vault
from hushvec.text.pii.redactor import Redaction, Redactor
from hushvec.text.pii.spans import replaced
from hushvec.text.pii.structured import Find, StandIn, redact_csv, redact_json, redact_mail

ALL = "*"  # documents
LISTED = 10  # in a message
FORMATS = ("text", "json", "jsonl", "csv", "mail")


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "redact",
        run,
        description=(
            "Replace personal data by placeholders such as [EMAIL]. Heuristic rules: what they miss stays, and this is\n"
            "not differential privacy. --list-rules shows what is looked for.\n\n"
            "The input is one text, unless --lines (every line is a text) or --text-key (JSON lines: the text under that key is\n"
            "redacted, other keys are copied unprotected). OUT is written atomically.\n\n"
            "--format keeps the structure: json and jsonl redact values and keep keys, csv redacts --columns and keeps the header,\n"
            "mail redacts names and addresses in headers, and the body.\n\n"
            "--pseudonyms VAULT writes pseudonyms such as [PERSON_K3M9QXA7R2TW], the same for the same value, and keeps what\n"
            "they stand for in an encrypted file; --restore VAULT puts it back. Whoever has the key and the vault can do that.\n"
            "--document names the document that a text belongs to (FILE if not given; all of its lines are one document), and\n"
            "--restore puts back values of that document alone.\n\n"
            "--json gives the place and category of every find; the redacted text itself is printed only with --show-original."
        ),
        examples=(
            ("one text", "hushvec redact --text 'Call Ann on +44 20 7946 0958 or write to ann@example.org'"),
            ("every line of a file, keeping dates", "hushvec redact notes.txt --lines -o redacted.txt --allow-categories date"),
            ("one column of a table", "hushvec redact tickets.csv --format csv --columns body -o clean.csv"),
            ("pseudonyms", "hushvec redact notes.txt --pseudonyms names.vault --key-file names.key -o shared.txt"),
            ("and back", "hushvec redact answer.txt --restore names.vault --key-file names.key --document notes.txt"),
            ("with a model that finds names", "hushvec redact letter.txt --detector spacy=en_core_web_sm -o clean.txt"),
            ("what is looked for", "hushvec redact --list-rules"),
        ),
    )
    parser.add_argument("source", nargs="?", metavar="FILE", help="a UTF-8 file, or - for standard input (default)")
    parser.add_argument("--text", help="the text itself, instead of a file")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="file to write (default: standard output)")
    parser.add_argument("--show-original", action="store_true", help="with --json: print what was redacted too; private")
    parser.add_argument("--list-rules", action="store_true", help="print the rules that the other arguments choose, and stop")
    parser.add_argument("--patterns", metavar="NAMES", help="categories or rules to look for, separated by commas (default all)")
    parser.add_argument("--allow-categories", metavar="NAMES", help="categories that stay, separated by commas")
    parser.add_argument("--allow-list", metavar="TEXT", action="append", help="exact text that stays; may be repeated")
    parser.add_argument("--whitelist-categories", dest="allow_categories", help=argparse.SUPPRESS)
    parser.add_argument("--whitelist", dest="allow_list", action="append", help=argparse.SUPPRESS)
    parser.add_argument("--replacement", metavar="TEXT", help="one text for every find")
    parser.add_argument(
        "--replace", metavar="CATEGORY=TEXT", action="append", default=[], help="text for a category; may be repeated"
    )
    parser.add_argument(
        "--pattern", metavar="NAME=REGEX", action="append", default=[], help="a custom pattern; may be repeated"
    )
    parser.add_argument("--gazetteer", metavar="FILE", help="names to find: lines `category: name`, or .json")
    parser.add_argument(
        "--detector",
        metavar="NAME",
        action="append",
        default=[],
        help="a model beside the rules: presidio, spacy=PIPELINE, classifier=FOLDER or gliner=FOLDER; may be repeated",
    )
    split = parser.add_mutually_exclusive_group()
    split.add_argument("--lines", action="store_true", help="every line is a separate text")
    split.add_argument("--text-key", metavar="KEY", help="JSON lines: redact the text under this key")
    split.add_argument("--format", choices=FORMATS, default="text", help="of the input, which the output keeps (default text)")
    parser.add_argument("--columns", metavar="NAMES", help="csv: columns to redact, separated by commas (default all)")
    parser.add_argument("--delimiter", metavar="CHARACTER", default=",", help="csv: between fields (default a comma)")
    keyed = parser.add_mutually_exclusive_group()
    keyed.add_argument("--pseudonyms", metavar="VAULT", type=Path, help="write pseudonyms, and what they stand for to this file")
    keyed.add_argument("--restore", metavar="VAULT", type=Path, help="replace pseudonyms by what they stand for")
    parser.add_argument(
        "--key-file", metavar="KEY", type=Path, help="the key of the vault; made if neither it nor the vault is there"
    )
    parser.add_argument(
        "--document",
        metavar="NAME",
        help="of what is written or restored; with --restore, * is all documents, and one needs no name if the vault has no other",
    )
    parser.add_argument(
        "--scope", choices=SCOPES, default="collection", help="a value has one pseudonym in a document, or in all (default collection)"
    )


def run(options: argparse.Namespace) -> int:
    redactor = _redactor(options)
    if options.list_rules:
        return _list_rules(redactor, as_json=options.json)
    if options.text is not None and options.source is not None:
        raise ValueError("one of FILE and --text must be given, got both")
    if options.show_original and not (options.json and options.output is None and options.text_key is None):
        raise ValueError("--show-original must come with --json, without --output and --text-key, which have no place for it")
    if options.output is not None and not options.output.parent.is_dir():
        raise ValueError(f"{options.output}: the folder {options.output.parent} must exist")
    _check_formats(options)
    work = _work(options, redactor)
    if options.lines or options.text_key is not None or options.format == "jsonl":
        return _many(options, work)
    return _one(options, work)


def _check_formats(options: argparse.Namespace) -> None:
    if options.columns is not None and options.format != "csv":
        raise ValueError("--columns must come with --format csv")
    if (options.pseudonyms or options.restore) and options.key_file is None:
        raise ValueError("--pseudonyms and --restore must come with --key-file")
    for name in ("key_file", "document"):
        if getattr(options, name) is not None and not (options.pseudonyms or options.restore):
            raise ValueError(f"--{name.replace('_', '-')} must come with --pseudonyms or --restore")
    if options.pseudonyms and options.document == ALL:
        raise ValueError(f"--document must be a name where pseudonyms are written, got {ALL!r}")


class _Work:
    """How a text is changed, and what must be kept for it.

    Args:
        find: of a document: what finds spans in its parts.
        placeholder: of a document: what stands for a value of a category in it.
        save: keeps what the results need to be undone; called before a file of results takes its place.
    """

    def __init__(self, find: Callable[[str], Find], placeholder: Callable[[str], StandIn], save: Callable[[], None]) -> None:
        self.find = find
        self.placeholder = placeholder
        self.save = save

    def redact(self, text: str) -> Redaction:
        spans = tuple(self.find(text)(text))
        return Redaction(replaced(text, spans), spans)


def _work(options: argparse.Namespace, redactor: Redactor) -> _Work:
    if options.restore is not None:
        back = restoring(_restorable(options, read_vault(options.restore, read_key(options.key_file))))
        stand_in: StandIn = lambda category, value: replaced(value, spans) if (spans := back(value)) else None  # noqa: E731
        return _Work(lambda document: back, lambda document: stand_in, _nothing)
    if options.pseudonyms is None:
        return _Work(lambda document: redactor.detect, lambda document: redactor.placeholder, _nothing)
    key, known = _opened(options)
    names = Pseudonymizer(key, redactor=redactor, scope=options.scope, known=known)

    def find(document: str) -> Find:
        return lambda text: names.spans(text, document=_digest(document))

    def placeholder(document: str) -> StandIn:
        return lambda category, value: names.placeholder(category, value, document=_digest(document))

    return _Work(find, placeholder, lambda: write_vault(options.pseudonyms, _with_document(options, known, names.known), key))


def _restorable(options: argparse.Namespace, known: Known) -> Mapping[str, str]:
    """The pseudonyms that may come back: those of one document, unless all were asked for."""
    if options.document is not None and options.document != ALL:
        if options.document not in known.documents:
            raise ValueError(f"--document must be one that {options.restore} has, got {options.document!r:.80}: {_listed(known)}")
        return known.of(options.document)
    unnamed = set(known).difference(*known.documents.values())
    if options.document is None and len(known.documents) + bool(unnamed) > 1:
        raise ValueError(f"--document must name one of several in {options.restore}, or be {ALL!r} for all: {_listed(known)}")
    return known


def _listed(known: Known) -> str:
    names = sorted(known.documents)
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def _with_document(options: argparse.Namespace, before: Known, after: Known) -> Known:
    """What was known and is now, with all texts of this run, which the rest calls by their digests, as one document."""
    texts = sorted(after.documents.keys() - before.documents.keys())
    name = options.document or (texts[0][:16] if options.source in (None, "-") and texts else options.source) or "-"
    used = before.documents.get(name, frozenset()).union(*(after.documents[text] for text in texts))
    return Known(after, {**before.documents, name: used})


def _digest(text: str) -> str:
    """A name for a document that has none: of its text, so that another document is another name."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _nothing() -> None:
    return None


def _opened(options: argparse.Namespace) -> tuple[bytes, Known]:
    """The key and what the vault holds: both new if neither is there."""
    there = options.pseudonyms.exists()
    if not there and not options.key_file.exists():
        return new_key(options.key_file), Known({})
    key = read_key(options.key_file)
    return key, read_vault(options.pseudonyms, key) if there else Known({})


def _redactor(options: argparse.Namespace) -> Redactor:
    return Redactor(
        patterns=comma_separated(options.patterns),
        replacement=options.replacement,
        replacements=_pairs("--replace", options.replace) or None,
        custom_patterns=_pairs("--pattern", options.pattern) or None,
        allow_categories=comma_separated(options.allow_categories),
        allow_list=options.allow_list,
        gazetteer=options.gazetteer,
        detectors=[detector(entry) for entry in options.detector] or None,
    )


def _pairs(argument: str, entries: list[str]) -> dict[str, str]:
    pairs = {}
    for entry in entries:
        name, sign, value = entry.partition("=")
        if not sign or not name:
            raise ValueError(f"{argument} must be NAME=TEXT, got {entry!r:.80}")
        pairs[name] = value
    return pairs


def _list_rules(redactor: Redactor, *, as_json: bool) -> int:
    listed = redactor.rules()
    if as_json:
        print_json([rule.to_dict() for rule in listed])
    else:
        rows = [(rule.name, rule.category, rule.placeholder, f"{rule.score:g}", rule.summary) for rule in listed]
        widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
        for row in rows:
            say("  ".join((*(cell.ljust(width) for cell, width in zip(row, widths)), row[4])))
    return 0


def _one(options: argparse.Namespace, work: _Work) -> int:
    text = options.text if options.text is not None else read_utf8(options.source)
    redaction = _structured(options, work, text)
    work.save()
    if options.output is not None:
        with published_text(options.output, mode=mode_of_output(options.source)) as file:
            file.write(redaction.text)
        _report(options, Counter(span.category for span in redaction.spans), texts=1)
    elif options.json:
        print_json(redaction.to_dict(private=options.show_original))
    else:
        # A file ends as it did; a text from the command line gets its line end.
        sys.stdout.write(redaction.text + ("\n" if options.text is not None else ""))
    return 0


def _structured(options: argparse.Namespace, work: _Work, text: str) -> Redaction:
    if options.format == "json":
        return redact_json(text, work.find(text))
    if options.format == "csv":
        return redact_csv(text, work.find(text), columns=comma_separated(options.columns), delimiter=options.delimiter)
    if options.format == "mail":
        return redact_mail(text, work.find(text), placeholder=work.placeholder(text))
    return work.redact(text)


def _many(options: argparse.Namespace, work: _Work) -> int:
    content = options.text if options.text is not None else read_utf8(options.source)
    lines = lines_with_ends(content)
    name = source_name(options.source)
    counts: Counter[str] = Counter()
    with Progress("texts", len(lines)) as progress, _sink(options) as file:
        for number, line in enumerate(lines, 1):
            for part, redaction in _redacted(work, line, options, f"{name}: line {number}"):
                file.write(part)
                counts.update(span.category for span in redaction.spans)
            progress.advance(1)
        work.save()
    if options.output is not None:
        _report(options, counts, texts=len(lines))
    return 0


def _redacted(work: _Work, line: str, options: argparse.Namespace, where: str) -> Iterator[tuple[str, Redaction]]:
    """What to write for one line of the input, and what was found in it."""
    ending = line[len(line.rstrip("\r\n")) :]
    content = line[: len(line) - len(ending)]
    if options.format == "jsonl":
        redaction = _json_line(work, content, where) if content.strip() else Redaction(content, ())
        yield redaction.text + ending, redaction
    elif options.text_key is None:
        redaction = work.redact(content)
        if options.json and options.output is None:
            shown = json.dumps(redaction.to_dict(private=options.show_original), ensure_ascii=False)
        else:
            shown = redaction.text
        yield shown + ending, redaction
    elif content.strip():
        fields, text = json_record(content, options.text_key, where)
        redaction = work.redact(text)
        yield json.dumps({**fields, options.text_key: redaction.text}, ensure_ascii=False) + (ending or "\n"), redaction


def _json_line(work: _Work, content: str, where: str) -> Redaction:
    try:
        return redact_json(content, work.find(content))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


@contextmanager
def _sink(options: argparse.Namespace) -> Iterator[TextIO]:
    if options.output is None:
        yield sys.stdout
        return
    with published_text(options.output, mode=mode_of_output(options.source)) as file:
        yield file


def _report(options: argparse.Namespace, counts: Counter[str], *, texts: int) -> None:
    if options.json:
        print_json({"output": str(options.output), "texts": texts, "found": dict(sorted(counts.items()))})
    else:
        say(str(options.output))
        if counts:
            print(table(("category", "found"), [(name, str(count)) for name, count in sorted(counts.items())]))
