"""Redaction of personal data: the built-in rules, and a redactor that is set up once and used for many texts."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from hushvec.text.pii.spans import (  # isort: skip
    SURE, Detector, Found, Span, found_at, in_original, marked, merged, places_in_original, replaced, settled, shifted,
)
from hushvec._util import validate
from hushvec._util.validate import nearest_of
from hushvec.text.pii import addresses, contact, credentials, dates, numbers, organisations, persons, places, quantities, records
from hushvec.text.pii import fields as fields_of_values
from hushvec.text.pii.categories import canonical, default_placeholder, is_known, require_category_name, short_names
from hushvec.text.pii.custom import Gazetteer, Names, custom_rules, gazetteer_of
from hushvec.text.pii.document import WALL, Document, Prefilter, Rule, has_escapes
from hushvec.text.pii.phone import phone_rule
from hushvec.text.pii.wordlists import rows


class RuleInfo(NamedTuple):
    name: str
    category: str
    placeholder: str
    score: float
    summary: str

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


_MODULES = (contact, numbers, credentials, dates, records, addresses, persons, organisations, quantities, places, fields_of_values)


@cache
def own_rules() -> tuple[Rule, ...]:
    """Those of the modules, in the order of the table `rules` in data/words.txt."""
    listed = [value for module in _MODULES for value in vars(module).values() if isinstance(value, Rule)]
    found = {one.name: one for one in (*listed, phone_rule(), numbers.national_number_rule())}
    return tuple(found[name] for name in rows("rules"))


def describe(rules: Iterable[Rule]) -> list[RuleInfo]:
    return [RuleInfo(rule.name, rule.category, default_placeholder(rule.category), rule.score, rule.summary) for rule in rules]


def chosen(patterns: Iterable[str] | None) -> tuple[Rule, ...]:
    """The rules of some categories; a name of `patterns` is a category, a short name of one, or a rule."""
    if patterns is None:
        return own_rules()
    names = {_known("patterns", name, rules_too=True) for name in names_of("patterns", patterns)}
    return tuple(rule for rule in own_rules() if rule.category in names or rule.name in names)


def known_categories(argument: str, names: Iterable[str], own: frozenset[str], *, open_ended: bool) -> list[str]:
    """Canonical names. Those of the caller's own categories count as known, and with `open_ended` all that may be names."""
    if open_ended:
        return [require_category_name(argument, name) for name in names]
    return [canonical(name) if canonical(name) in own else _known(argument, name, more=own) for name in names_of(argument, names)]


def names_of(argument: str, names: Any, what: str = "names") -> list[str]:
    validate.instance(argument, names, Iterable, f"a list of {what}", but=(str, bytes))
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be a list of {what}, got {type(name).__name__} in it")
    return found


def _known(argument: str, name: str, *, rules_too: bool = False, more: Iterable[str] = ()) -> str:
    if is_known(name):
        return canonical(name)
    rule_names = [rule.name for rule in own_rules()] if rules_too else []
    if name in rule_names:
        return name
    near = nearest_of(name, [*short_names(), *rule_names, *more])
    what = "a category or a rule" if rules_too else "a category"
    raise ValueError(f"{argument} must name {what}, got {name!r:.80}{near}")


GAZETTEER_RULE = "gazetteer"
GAZETTEER_SCORE = 0.98

# A redacted text is scanned again until nothing more is found: placeholders may expose further finds.
MOST_PASSES = 8

MOST_JOINED = 1 << 12
LONGEST_JOINED = 1 << 12  # characters

# Text length from which the garbage collector may take a tenth to a fifth of the time.
LONG_TEXT = 100_000


@dataclass(frozen=True)
class Redaction:
    """A redacted text and what was replaced in it.

    Args:
        text: with placeholders.
        spans: what was replaced, in the order of the text, without overlaps; offsets are those of the original text. Private, and left
            out of `repr`.
    """

    text: str
    spans: tuple[Span, ...] = field(repr=False)

    def to_dict(self, *, private: bool = True) -> dict[str, Any]:
        """`{"text": ..., "spans": [...]}`, ready for JSON; `private` keeps what was redacted, under "text" of each span."""
        fields = [name for name in Span._fields if private or name != "text"]
        return {"text": self.text, "spans": [{name: getattr(span, name) for name in fields} for span in self.spans]}


Function = TypeVar("Function", bound=Callable[..., Any])


def with_other_names(**others: tuple[str, Callable[[Any], Any]]) -> Callable[[Function], Function]:
    """Let arguments have the names of the papers on rewriting, too: each becomes an argument here, of what its value becomes."""

    def decorated(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for other in kwargs.keys() & others:
                (name, meant), value = others[other], kwargs.pop(other)
                if name in kwargs:
                    raise TypeError(f"{name} must be given once, got {other} as well")
                kwargs[name] = None if value is None else meant(value)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorated


_with_its_name_in_papers = with_other_names(whitelist_categories=("allow_categories", lambda names: names))


class Redactor:
    """Rules, gazetteer and detectors, compiled once; safe to use from several threads if the detectors are.

    Args: as for `redact`, and
        fields: name of a JSON key or a CSV column -> category of all of its values, beside those that are known (docs/redaction.md).

    Example:
        >>> from hushvec.text import Redactor
        >>> redactor = Redactor(patterns=["email", "phone", "ssn"])
        >>> redactor.redact("Write to jane@example.com or call 415-555-0188.").text
        'Write to [EMAIL] or call [PHONE].'
        >>> [one.text for one in redactor.redact_all(["SSN 457-55-5462", "nothing here"])]
        ['SSN [SSN]', 'nothing here']
    """

    @_with_its_name_in_papers
    def __init__(
        self, *, patterns: Iterable[str] | None = None, replacement: str | None = None,
        replacements: Mapping[str, str] | None = None, custom_patterns: Mapping[str, Any] | None = None,
        allow_categories: Iterable[str] | None = None, allow_list: Iterable[str] | None = None,
        gazetteer: Names | str | os.PathLike[str] | None = None, detectors: Iterable[Detector] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        self._arguments: dict[str, Any] = {name: value for name, value in locals().items() if name != "self"}
        custom = () if custom_patterns is None else custom_rules(custom_patterns)
        self._gazetteer: Gazetteer | None = None if gazetteer is None else gazetteer_of(gazetteer)
        self._detectors = _checked_detectors(detectors)
        self._reads_alone = bool(custom or self._detectors)  # patterns of the caller may be anchored; detectors read as they like
        custom += () if fields is None else fields_of_values.field_rules(fields)
        own = frozenset(rule.category for rule in custom) | (self._gazetteer.categories if self._gazetteer else frozenset())
        # Detectors may report categories that were not named before.
        known = functools.partial(known_categories, own=own, open_ended=bool(self._detectors))
        allowed = [] if allow_categories is None else names_of("allow_categories", allow_categories)
        self._stay = frozenset(known("allow_categories", allowed))
        self._rules: tuple[Rule, ...] = tuple(rule for rule in (*chosen(patterns), *custom) if rule.category not in self._stay)
        if patterns is not None and not (self._rules or custom or self._gazetteer or self._detectors or self._stay):
            raise ValueError("patterns must name at least one category, got none")
        self._prefilter = _prefilter(self._rules)
        self._sources = [(rule.category, rule.name, rule.score) for rule in self._rules]
        self._anchored = [(source, rule) for source, rule in enumerate(self._rules) if not rule.apart]
        self._allowed: tuple[Rule, ...] = tuple(rule for rule in (*own_rules(), *custom) if rule.category in self._stay)
        self._keep = frozenset(() if allow_list is None else names_of("allow_list", allow_list))
        self._replacement = None if replacement is None else validate.instance("replacement", replacement, str, "a string")
        validate.instance("replacements", replacements, Mapping | None, "a mapping from categories to texts")
        texts = dict(replacements or {})
        names = known("replacements", list(texts))
        for key, shown in texts.items():
            validate.instance(f"replacements[{key!r}]", shown, str, "a string")
        self._replacements = dict(zip(names, texts.values()))

    def __reduce__(self) -> tuple[Any, ...]:  # rules are functions in functions: another process makes its own
        return functools.partial(type(self), **self._arguments), ()

    def redact(self, text: str) -> Redaction:
        """Replace what is found; see `hushvec.text.redact`."""
        return self.redact_all([validate.instance("text", text, str, "a string")])[0]

    def redact_all(self, texts: Iterable[str]) -> list[Redaction]:
        """`redact` for each text. If one of them is not a string, nothing has been redacted."""
        return [Redaction(*read) for read in self._read(names_of("texts", validate.column("texts", texts), "strings"))]

    def detect(self, text: str) -> tuple[Span, ...]:
        """The spans that `redact` replaces, in the order of the text, without overlaps."""
        return self.detect_all([validate.instance("text", text, str, "a string")])[0]

    def detect_all(self, texts: Iterable[str]) -> list[tuple[Span, ...]]:
        """`detect` for each text, with the same result. Many short texts take a fraction of the time."""
        return [spans for _, spans in self._read(names_of("texts", validate.column("texts", texts), "strings"))]

    def _read(self, texts: Sequence[str]) -> Iterator[tuple[str, tuple[Span, ...]]]:
        """(redacted text, spans), by passes until nothing more is found. The garbage collector pauses: no find is in a cycle."""
        read: dict[str, tuple[str, tuple[Span, ...]]] = {text: (text, ()) for text in texts}
        waiting = list(read)
        pauses = sum(map(len, read)) > LONG_TEXT and gc.isenabled()
        if pauses:
            gc.disable()
        try:
            passes = 0
            while waiting and (passes := passes + 1) <= MOST_PASSES:
                found = list(zip(waiting, self._pass([read[text][0] for text in waiting])))
                waiting = []
                for text, spans in found:
                    before = read[text][1]
                    everything = merged(text, before, in_original(before, spans)) if before and spans else before or spans
                    if len(everything) > len(before):
                        read[text] = replaced(text, everything), everything
                        waiting.append(text)
        finally:
            if pauses:
                gc.enable()
        return map(read.__getitem__, texts)

    def rules(self) -> list[RuleInfo]:
        """The rules in use, in the order that settles ties."""
        return describe(self._rules)

    def placeholder(self, category: str, value: str = "") -> str | None:
        """The placeholder of a category, whatever the value; None if `redact` does not look for that category."""
        return self._placeholder(category) if any(rule.category == category for rule in self._rules) else None

    def _pass(self, texts: Sequence[str]) -> Iterator[tuple[Span, ...]]:
        """The finds of each text. Those that are read alike are joined: most time of a short one goes into asking every rule."""
        for first in range(0, len(texts), MOST_JOINED):
            block = [(text, Document(text)) for text in texts[first : first + MOST_JOINED]]
            groups: dict[int, list[tuple[str, Document]]] = {}
            for place, (text, document) in enumerate(block):
                if not document.has_words:
                    continue
                alone = self._reads_alone or len(text) > LONGEST_JOINED or has_escapes(text)
                alone = alone or not (text.isascii() or len(document.lower) == len(text.lower()))
                groups.setdefault(~place if alone else document.all_lower, []).append((text, document))
            found = {text: spans for group in groups.values() for (text, _), spans in zip(group, self._joined(group))}
            yield from (found.get(text, ()) for text, _ in block)

    def _joined(self, group: Sequence[tuple[str, Document]]) -> Iterator[tuple[Span, ...]]:
        text, document = group[0]
        if len(group) > 1:
            starts = accumulate((len(part.readable) + len(WALL) for _, part in group), initial=0)
            text = WALL.join(part for part, _ in group)
            document = Document(text, None, [(start, start + len(part.readable)) for start, (_, part) in zip(starts, group)])
        spans = self._found(document, text)
        start = index = 0
        for part, _ in group:
            first = index
            while index < len(spans) and spans[index].start < start + len(part):
                index += 1
            yield shifted(spans[first:index], -start) if start else spans[first:index]
            start += len(part) + len(WALL)

    def _found(self, document: Document, text: str) -> tuple[Span, ...]:
        found: list[Found] = []
        sources = self._sources[:]
        for reading in document.readings:
            for source, rule in self._prefilter(reading):
                unsure, minus = rule.score < SURE, -rule.score
                for start, end in rule.finder(reading):
                    if reading is not document:
                        start, end = document.place(reading, start, end)
                    if start < end:
                        found.append((start, end, unsure, minus, source))
        for source, rule in self._anchored:
            found += (found_at(start, end, rule.score, source) for start, end in rule.find(document) if start < end)
        for start, end, category, name, score in self._beyond_rules(document, text):
            if category not in self._stay and start < end:
                found.append(found_at(start, end, score, len(sources)))
                sources.append((category, name, score))
        if self._keep or self._allowed:
            found = self._without_allowed(document, text, found)
        if not found:
            return ()
        ready = {}
        for source in {one[-1] for one in found}:
            category, name, score = sources[source]
            ready[source] = category, self._placeholder(category), name, score
        new = tuple.__new__  # twice as fast as Span(...), for texts with hundreds of thousands of finds
        runs: Iterable[tuple[int, int, int]] = settled(document.readable, found, document.placeholders)
        if not document.shadow.is_original:
            runs = places_in_original(document.shadow, runs)
        return tuple([new(Span, (start, end, text[start:end], *ready[source])) for start, end, source in runs])

    def _without_allowed(self, document: Document, text: str, found: list[Found]) -> list[Found]:
        """Without finds on the allow list and their parts, and without uncertain finds within allowed categories."""
        listed = [one[:2] for one in found if text[slice(*document.shadow.in_original(one[0], one[1]))] in self._keep]
        allowed = [place for rule in self._allowed for place in rule.find(document)]
        stays, categories = marked(len(document.text), listed), marked(len(document.text), allowed)
        return [one for one in found if stays.find(0, one[0], one[1]) >= 0 and not (one[2] and categories.find(0, one[0], one[1]) < 0)]

    def _beyond_rules(self, document: Document, text: str) -> Iterator[tuple[int, int, str, str, float]]:
        """(start, end, category, rule, score) of what the gazetteer and the detectors find."""
        for reading in filter(None, (document, document.decoded)):
            if self._gazetteer is not None:
                for start, end, category in self._gazetteer.find(reading):
                    yield *document.place(reading, start, end), category, GAZETTEER_RULE, GAZETTEER_SCORE
            seen = text if reading is document else reading.readable
            for detector in self._detectors:
                for span in detector.detect(seen):
                    start, end, category, name, score = _checked_span(seen, span, detector)
                    own = document.shadow.from_original(start, end) if reading is document else document.place(reading, start, end)
                    yield *own, category, name, score

    def _placeholder(self, category: str) -> str:
        own = self._replacements.get(category, self._replacement)
        return default_placeholder(category) if own is None else own


@_with_its_name_in_papers
def redact(
    text: str,
    *,
    patterns: Iterable[str] | None = None,
    replacement: str | None = None,
    replacements: Mapping[str, str] | None = None,
    custom_patterns: Mapping[str, Any] | None = None,
    allow_categories: Iterable[str] | None = None,
    allow_list: Iterable[str] | None = None,
    gazetteer: Names | str | os.PathLike[str] | None = None,
    detectors: Iterable[Detector] | None = None,
) -> Redaction:
    """Replace personal data in a text by placeholders such as [EMAIL]. Heuristic: it is not differential privacy.

    Args:
        text: any string.
        patterns: categories, their short names, or single rules to look for ("email", "phone number", "us_ssn"); None: all rules.
        replacement: one text in the place of every find, instead of the placeholder of its category.
        replacements: category -> text in its place; takes precedence over `replacement`.
        custom_patterns: category -> regular expression (a string, or a compiled pattern), known or new: "staff number" becomes
            [STAFF_NUMBER].
        allow_categories: categories that stay as they are, with uncertain finds of others within them.
        allow_list: texts that stay, where a find is exactly one of them, with other finds within it.
        gazetteer: category -> names that are always found as whole words, or a file of them.
        detectors: further `Detector` objects, such as the ones of `hushvec.integrations`.

    Returns:
        The redacted text, and the spans that were replaced.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, an unknown category, a pattern that is refused (see docs/redaction.md).

    Guarantees:
        The same text gives the same result. What is outside the spans is unchanged. With placeholders as they come, redacting the
        result again changes nothing: it is read again until nothing more is found, eight times at most. The time grows linearly
        with the text, whatever is in it, as long as there are no custom patterns and no detectors; other threads run meanwhile.
        That everything personal is found is NOT guaranteed.

    Edge cases:
        An empty text has no spans. A placeholder in the original text stays as it is.

    Reference:
        docs/redaction.md.

    Example:
        >>> from hushvec.text import redact
        >>> result = redact("My name is Jane Doe, mail jane@example.com, card 4111 1111 1111 1111.")
        >>> result.text
        'My name is [PERSON], mail [EMAIL], card [CARD].'
        >>> [(span.start, span.end, span.category) for span in result.spans]
        [(11, 19, 'full person name'), (26, 42, 'email address'), (49, 68, 'card number')]
    """
    options = {name: value for name, value in locals().items() if name != "text"}
    return _redactor(**options).redact(text)


def detect(text: str, **options: Any) -> tuple[Span, ...]:
    """The spans that `redact` would replace; the same arguments.

    Example:
        >>> from hushvec.text import detect
        >>> detect("Ping 192.168.0.1")[0].category
        'ip address'
    """
    return _redactor(**options).detect(text)


def rules() -> list[RuleInfo]:
    """The rules that come with the package; the phone rule says whether the package `phonenumbers` is in use.

    Example:
        >>> from hushvec.text import rules
        >>> rules()[0].name, rules()[0].category, rules()[0].placeholder
        ('email', 'email address', '[EMAIL]')
    """
    return describe(own_rules())


def _redactor(**options: Any) -> Redactor:
    if all(value is None for value in options.values()):
        return _default()
    return Redactor(**options)


_prefilter = lru_cache(maxsize=16)(Prefilter)


@cache
def _default() -> Redactor:
    return Redactor()


def _checked_detectors(detectors: Any) -> tuple[Detector, ...]:
    if detectors is None:
        return ()
    validate.instance("detectors", detectors, Iterable, "a list of detectors", but=Detector)
    listed = tuple(detectors)
    for detector in listed:
        if not isinstance(detector, Detector):
            raise TypeError(f"detectors must have a method detect(text), got {type(detector).__name__}")
    return listed


def _checked_span(text: str, span: Any, detector: Detector) -> tuple[int, int, str, str, float]:
    """A detector's find, which must be checked."""
    name = f"{type(detector).__name__}.detect"
    if not isinstance(span, Span):
        raise TypeError(f"{name} must return Span objects, got {type(span).__name__}")
    if not 0 <= span.start <= span.end <= len(text):
        raise ValueError(f"{name}: a span must lie within the {len(text)} characters of the text, got {span.start} to {span.end}")
    return span.start, span.end, require_category_name(name, span.category), str(span.rule), validate.number("score", span.score)
