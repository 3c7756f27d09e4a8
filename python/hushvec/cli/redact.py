"""`hushvec redact`: personal data in a text, a file or standard input replaced by placeholders or pseudonyms; the list of rules."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from hushvec._util.display import Progress
from hushvec._util.lines import json_record, lines_with_ends
from hushvec._util.publish import published_folder
from hushvec.cli._arguments import comma_separated, named_values
from hushvec.cli._output import answered, print_json, table
from hushvec.cli._parser import Command, argument, option
from hushvec.cli._style import printable
from hushvec.cli._texts import path_or_stdout, read_utf8, source_name, written
from hushvec.cli.vectors.source import naming
from hushvec.integrations.detectors import detector
from hushvec.text.pii.mail import StandIn, redact_mail
from hushvec.text.pii.markup import redact_html
from hushvec.text.pii.pseudonyms import SCOPES, Known, Pseudonymizer, Restorer, new_key, read_key, read_vault, write_vault
from hushvec.text.pii.redactor import Redaction, Redactor
from hushvec.text.pii.spans import replaced
from hushvec.text.pii.structured import Find, redact_csv, redact_json

ALL = "*"  # documents
LISTED = 10  # in a message
FORMATS = ("text", "json", "jsonl", "csv", "mail", "html")
# Of the files in a folder, by suffix.
SUFFIXES = {
    ".txt": "text", ".md": "text", ".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".eml": "mail", ".html": "html", ".htm": "html",
}  # fmt: skip


class Redact(Command, name="redact", examples=(
    ("one text", "hushvec redact --text 'Call Ann on +44 20 7946 0958 or write to ann@example.org'"),
    ("every line of a file, keeping dates", "hushvec redact notes.txt --lines -o redacted.txt --allow-categories date"),
    ("every file of a folder, each in the format of its suffix", "hushvec redact letters -o clean"),
    ("one column of a table", "hushvec redact tickets.csv --format csv --columns body -o clean.csv"),
    ("pseudonyms", "hushvec redact notes.txt --pseudonyms names.vault --key-file names.key -o shared.txt"),
    ("and back", "hushvec redact answer.txt --restore names.vault --key-file names.key --document notes.txt"),
    ("with a model that finds names", "hushvec redact letter.txt --detector spacy=en_core_web_sm -o clean.txt"),
    ("what is looked for", "hushvec redact --list-rules"),
)):
    """Replace personal data by placeholders such as [EMAIL]. Heuristic rules: what they miss stays, and this is
    not differential privacy. --list-rules shows what is looked for.

    The input is one text, unless --lines (every line is a text) or --text-key (JSON lines: the text under that key is
    redacted, other keys are copied unprotected). OUT is written atomically.

    Of a folder every .txt, .md, .json, .jsonl, .csv, .eml and .html file is redacted into the new folder OUT, under its own
    name; other files are left out and counted. All files are one document to --pseudonyms.

    --format keeps the structure: json and jsonl redact values and keep keys, csv redacts --columns and keeps the header,
    mail redacts names and addresses in headers, and every part, decoded; [ATTACHMENT] takes the place of what is no text. html
    redacts what is seen, attributes, comments and scripts, and keeps the tags.

    --pseudonyms VAULT writes pseudonyms such as [PERSON_K3M9QXA7R2TW], the same for the same value, and keeps what
    they stand for in an encrypted file; --restore VAULT puts it back. Whoever has the key and the vault can do that.
    --document names the document that a text belongs to (FILE if not given; all of its lines are one document), and
    --restore puts back values of that document alone.

    --json gives the place and category of every find; the redacted text itself is printed only with --show-original."""

    source: str | None = argument("a UTF-8 file, a folder, or - for standard input (default)", "FILE", nargs="?")
    text: str | None = option("the text itself, instead of a file")
    output: Path | None = option("file to write (default: standard output, also -)", type=path_or_stdout, metavar="OUT")
    show_original: bool = option("with --json: print what was redacted too; private")
    list_rules: bool = option("print the rules that the other arguments choose, and stop")
    patterns: str | None = option("categories or rules to look for, separated by commas (default all)", metavar="NAMES")
    allow_categories: str | None = option("categories that stay, separated by commas", metavar="NAMES")
    allow_list: list[str] | None = option("exact text that stays; may be repeated", metavar="TEXT")
    replacement: str | None = option("one text for every find", metavar="TEXT")
    replace: list[str] = option("text for a category; may be repeated", [], metavar="CATEGORY=TEXT")
    pattern: list[str] = option("a custom pattern; may be repeated", [], metavar="NAME=REGEX")
    field: list[str] = option("what a JSON key or a column holds; may be repeated", [], metavar="NAME=CATEGORY")
    gazetteer: str | None = option("names to find: lines `category: name`, or .json", metavar="FILE")
    detector: list[str] = option(
        "a model beside the rules: presidio, spacy=PIPELINE or classifier=FOLDER; may be repeated", [], metavar="NAME"
    )
    lines: bool = option("every line is a separate text", alone="split")
    text_key: str | None = option("JSON lines: redact the text under this key", alone="split", metavar="KEY")
    format: str = option("of the input, which the output keeps", "text", alone="split", choices=FORMATS)
    columns: str | None = option("csv: columns to redact, separated by commas (default all)", metavar="NAMES")
    delimiter: str = option("csv: between fields (default a comma)", ",", metavar="CHARACTER")
    pseudonyms: Path | None = option("write pseudonyms, and what they stand for to this file", alone="keyed", metavar="VAULT")
    restore: Path | None = option("replace pseudonyms by what they stand for", alone="keyed", metavar="VAULT")
    key_file: Path = option("the key of the vault; made if neither it nor the vault is there", metavar="KEY")
    document: str | None = option(
        "of what is written or restored; with --restore, * is all documents, and one needs no name if the vault has no other",
        metavar="NAME",
    )
    scope: str = option("a value has one pseudonym in a document, or in all", "collection", choices=SCOPES)

    def run(self) -> int:
        redactor = Redactor(
            patterns=comma_separated(self.patterns),
            replacements=named_values("--replace", self.replace, "TEXT") or None,
            fields=named_values("--field", self.field, "CATEGORY") or None,
            custom_patterns=named_values("--pattern", self.pattern, "TEXT") or None,
            allow_categories=comma_separated(self.allow_categories),
            detectors=[detector(entry) for entry in self.detector] or None,
            **self.named("replacement", "allow_list", "gazetteer"),
        )
        if self.list_rules:
            return _list_rules(self, redactor)
        self._check()
        is_folder = self.text is None and self.source not in (None, "-") and Path(str(self.source)).is_dir()
        if is_folder:
            self._check_folder()
        work = _work(self, redactor)
        if is_folder:
            return _folder(self, work, Path(str(self.source)))
        many = self.lines or self.text_key is not None or self.format == "jsonl"
        return (_many if many else _one)(self, work, self.text if self.text is not None else read_utf8(self.source))

    def _check(self) -> None:
        if self.text is not None and self.source is not None:
            raise ValueError("one of FILE and --text must be given, got both")
        if self.show_original and not (self.json and self.output is None and self.text_key is None):
            raise ValueError("--show-original must come with --json, without --output and --text-key, which have no place for it")
        if self.output is not None and not self.output.parent.is_dir():
            raise ValueError(f"{self.output}: the folder {self.output.parent} must exist")
        if self.columns is not None and self.format != "csv":
            raise ValueError("--columns must come with --format csv")
        if (self.pseudonyms or self.restore) and self.key_file is None:
            raise ValueError("--pseudonyms and --restore must come with --key-file")
        for name in ("key_file", "document"):
            if getattr(self, name) is not None and not (self.pseudonyms or self.restore):
                raise ValueError(f"--{name.replace('_', '-')} must come with --pseudonyms or --restore")
        if self.pseudonyms and self.document == ALL:
            raise ValueError(f"--document must be a name where pseudonyms are written, got {ALL!r}")

    def _check_folder(self) -> None:
        if self.lines or self.text_key is not None or self.format != "text":
            raise ValueError(f"--lines, --text-key and --format must come with a file, got the folder {self.source}")
        if self.output is None or self.output.exists():
            raise ValueError(f"--output must be a new folder where {self.source} is one, got {self.output or '-'}")


@dataclass(frozen=True)
class _Work:
    """A way to change a text, and to keep what that needs."""

    find: Callable[[str], Find]  # of a document: what finds spans in its parts
    placeholder: Callable[[str], StandIn]  # of a document: what stands for a value of a category in it
    save: Callable[[], None] = lambda: None  # keeps what undoes the results; called before a file of them takes its place

    def redact(self, text: str) -> Redaction:
        spans = tuple(self.find(text)(text))
        return Redaction(replaced(text, spans), spans)


def _work(options: Redact, redactor: Redactor) -> _Work:
    if options.restore is not None:
        back = Restorer(_restorable(options, read_vault(options.restore, read_key(options.key_file))))
        return _Work(lambda document: back, lambda document: back.placeholder)
    if options.pseudonyms is None:
        return _Work(lambda document: redactor.detect, lambda document: redactor.placeholder)
    vault = options.pseudonyms
    is_new = not vault.exists() and not options.key_file.exists()
    key = new_key(options.key_file) if is_new else read_key(options.key_file)
    known = read_vault(vault, key) if vault.exists() else Known({})
    names = Pseudonymizer(key, redactor=redactor, scope=options.scope, known=known)
    return _Work(
        lambda document: lambda text: names.spans(text, document=_digest(document)),
        lambda document: lambda category, value: names.placeholder(category, value, document=_digest(document)),
        lambda: write_vault(vault, _with_document(options, known, names.known), key),
    )


def _restorable(options: Redact, known: Known) -> Mapping[str, str]:
    """Return the pseudonyms that may come back: those of one document, unless all were asked for."""
    if options.document is not None and options.document != ALL:
        if options.document not in known.documents:
            raise ValueError(f"--document must be one that {options.restore} has, got {options.document!r:.80}: {_listed(known)}")
        return known.of(options.document)
    unnamed = set(known).difference(*known.documents.values())
    if options.document is None and len(known.documents) + bool(unnamed) > 1:
        raise ValueError(f"--document must name one of several in {options.restore}, or be {ALL!r} for all: {_listed(known)}")
    return known


def _listed(known: Known) -> str:
    return _first(sorted(known.documents))


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def _with_document(options: Redact, before: Known, after: Known) -> Known:
    """Return old and new pseudonyms, with all texts of this run, which the rest calls by their digests, as one document."""
    texts = sorted(after.documents.keys() - before.documents.keys())
    name = options.document or (texts[0][:16] if options.source in (None, "-") and texts else options.source) or "-"
    used = before.documents.get(name, frozenset()).union(*(after.documents[text] for text in texts))
    return Known(after, {**before.documents, name: used})


def _digest(text: str) -> str:
    """Return a name for a document that has none: of its text, so that another document is another name."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _list_rules(options: Redact, redactor: Redactor) -> int:
    listed = redactor.rules()
    rows = [(rule.name, rule.category, rule.placeholder, f"{rule.score:g}", rule.summary) for rule in listed]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ("  ".join((*(cell.ljust(width) for cell, width in zip(row, widths[:4])), row[4])) for row in rows)
    return answered(options, [rule.to_dict() for rule in listed], *map(printable, lines))


def _one(options: Redact, work: _Work, text: str) -> int:
    redaction = _structured(options, work, text)
    work.save()
    if options.output is not None:
        with written(options) as file:
            file.write(redaction.text)
        return _report(options, Counter(span.category for span in redaction.spans), texts=1)
    if options.json:
        print_json(redaction.to_dict(private=options.show_original))
    else:
        # A file ends as it did; a text from the command line gets its line end.
        sys.stdout.write(redaction.text + ("\n" if options.text is not None else ""))
    return 0


def _folder(options: Redact, work: _Work, folder: Path) -> int:
    """Redact the files of a folder into a new one, each in the format of its suffix."""
    assert options.output is not None
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    left_out = [file.relative_to(folder).as_posix() for file in files if file.suffix.lower() not in SUFFIXES]
    files = [file for file in files if file.suffix.lower() in SUFFIXES]
    counts: Counter[str] = Counter()
    with Progress("files", len(files)) as progress, published_folder(options.output) as beside:
        for file in files:
            one, content = copy(options), read_utf8(str(file))
            one.format = SUFFIXES[file.suffix.lower()]
            target = beside / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            with naming(file), target.open("w", encoding="utf-8", newline="") as written_to:
                for number, line in enumerate(lines_with_ends(content) if one.format == "jsonl" else [content], 1):
                    for part, redaction in _redacted(work, line, one, f"line {number}"):
                        written_to.write(part)
                        counts.update(span.category for span in redaction.spans)
            progress.advance(1)
        work.save()
    return _report(options, counts, texts=len(files), left_out=left_out)


def _structured(options: Redact, work: _Work, text: str) -> Redaction:
    if options.format == "html":
        return redact_html(text, work.find(text))
    if options.format == "json":
        return redact_json(text, work.find(text))
    if options.format == "csv":
        return redact_csv(text, work.find(text), columns=comma_separated(options.columns), delimiter=options.delimiter)
    if options.format == "mail":
        return redact_mail(text, work.find(text), placeholder=work.placeholder(text))
    return work.redact(text)


def _many(options: Redact, work: _Work, content: str) -> int:
    lines = lines_with_ends(content)
    name = source_name(options.source)
    counts: Counter[str] = Counter()
    with Progress("texts", len(lines)) as progress, written(options) as file:
        for number, line in enumerate(lines, 1):
            for part, redaction in _redacted(work, line, options, f"{name}: line {number}"):
                file.write(part)
                counts.update(span.category for span in redaction.spans)
            progress.advance(1)
        work.save()
    return 0 if options.output is None else _report(options, counts, texts=len(lines))


def _redacted(work: _Work, line: str, options: Redact, where: str) -> Iterator[tuple[str, Redaction]]:
    """Yield text to write for one line of the input, and its redaction."""
    ending = line[len(line.rstrip("\r\n")) :]
    content = line[: len(line) - len(ending)]
    if options.format == "jsonl":
        try:
            redaction = redact_json(content, work.find(content)) if content.strip() else Redaction(content, ())
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        yield redaction.text + ending, redaction
    elif options.format != "text":
        yield (redaction := _structured(options, work, line)).text, redaction
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


def _report(options: Redact, counts: Counter[str], *, texts: int, left_out: Sequence[str] = ()) -> int:
    output, found = str(options.output), dict(sorted(counts.items()))
    lines = [table(("category", "found"), [(name, str(count)) for name, count in found.items()])] if found else []
    more = [printable(f"left out: {_first(left_out)}")] if left_out else []
    answer = {"output": output, "texts": texts, "found": found, **({"left_out": list(left_out)} if left_out else {})}
    return answered(options, answer, printable(output), *lines, *more)
