"""Pseudonyms in the place of personal data: keyed, the same for the same value, and reversible with a vault.

A pseudonym such as `[PERSON_K3M9QXA7R2TW]` is a keyed hash of the category and of the value without regard to capitals and spaces.
"Doe" beside "Jane Doe" counts as that person: it gets the same letters with a number of its own, `[PERSON_K3M9QXA7R2TW_2]`. What
looks like a pseudonym before anything is replaced gets one too, `[PLACEHOLDER_...]`, and so comes back as it was written.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec._util.publish import PRIVATE, is_first_to_write, published_bytes
from hushvec.text.pii.categories import PLACEHOLDER, default_placeholder
from hushvec.text.pii.document import Shadow
from hushvec.text.pii.redactor import Redaction, Redactor
from hushvec.text.pii.spans import Span, merged, replaced

SCOPES = ("document", "collection")
FEWEST_KEY_BYTES = 32
LETTERS = 12  # five bits each: among a million values two are alike with a probability of one in two million

LONGEST_KIND = 40  # characters, so that the whole is short enough to be read as a placeholder again

_PERSON = "full person name"
_LITERAL = "placeholder"  # category of what looks like a pseudonym in a text before anything is replaced
_SHAPE = re.compile(rf"\[[A-Z][A-Z0-9_]*_[A-Z2-7]{{{LETTERS}}}(?:_[0-9]+)?\]")
# As people and models change a pseudonym: in small letters, with emphasis or spaces within the brackets.
_ALTERED = re.compile(r"\[[*_`\s]{0,3}([A-Za-z][A-Za-z0-9_]{0,62})[*_`\s]{0,3}\]")


class Known(dict[str, str]):
    """Pseudonym -> what it stands for, and `documents`: name of a document -> its pseudonyms. Private."""

    def __init__(self, known: Mapping[str, str], documents: Mapping[str, Iterable[str]] | None = None) -> None:
        super().__init__(known)
        self.documents = {name: frozenset(names) for name, names in (documents or {}).items()}

    def of(self, document: str) -> dict[str, str]:
        """The values behind the pseudonyms of one document; a name that was not pseudonymized is refused."""
        if document not in self.documents:
            raise ValueError(f"document must be the name of one that was pseudonymized, got {document!r:.80}")
        return {name: self[name] for name in self.documents[document]}


class Pseudonymizer:
    """Replaces personal data by pseudonyms, and keeps what they stand for. Not differential privacy: see docs/redaction.md.

    Args:
        key: secret bytes, 32 at least. Who has it can find out whether a pseudonym stands for a value that they guess.
        redactor: what is looked for; None: `Redactor()`.
        scope: "document": the same value has the same pseudonym within a document; "collection": in every document.
        known: pseudonym -> value of earlier calls, as `read_vault` gives it; new ones are added to a copy.

    Example:
        >>> from hushvec.text import Pseudonymizer, restore
        >>> names = Pseudonymizer(bytes(range(32)))
        >>> shown = names.pseudonymize("Jane Doe called. I told Jane Doe no.").text
        >>> shown
        '[PERSON_DBSAAJHNFQS4] called. I told [PERSON_DBSAAJHNFQS4] no.'
        >>> restore(shown, names.known)
        'Jane Doe called. I told Jane Doe no.'
    """

    def __init__(
        self, key: bytes, *, redactor: Redactor | None = None, scope: str = "collection", known: Mapping[str, str] | None = None
    ) -> None:
        self._key = derived_key(key, "pseudonyms")
        self._scope = validate.choice("scope", scope, SCOPES)
        self._redactor = Redactor() if redactor is None else redactor
        self._known = Known(known or {})
        self._documents = {name: set(names) for name, names in getattr(known, "documents", {}).items()}
        self._named: dict[tuple[str, str], str] = {}  # of the letters and the value
        self._numbers: dict[str, int] = {}  # of the letters: how many names have them

    @property
    def known(self) -> Known:
        """Pseudonym -> what it stands for, with the documents that were named: private."""
        return Known(self._known, self._documents)

    def pseudonymize(self, text: str, *, document: str | None = None) -> Redaction:
        """Replace what is found by pseudonyms.

        Args:
            document: name of the document that the text belongs to, to whose texts `restore` can be bound; None: the text is one by
                itself, and its pseudonyms belong to no name.
        """
        spans = self.spans(text, document=document)
        return Redaction(replaced(text, spans), spans)

    def spans(self, text: str, *, document: str | None = None) -> tuple[Span, ...]:
        """The spans that `pseudonymize` replaces, each with its pseudonym as placeholder."""
        found = self._redactor.detect(text)
        if document is not None:
            self._documents.setdefault(document, set())
        people = _people(span.text for span in found if span.category == _PERSON)
        within = self._document(text, document)
        named = []
        for span in found:
            plain = _plain(span.text)
            entity = people.get(plain, plain) if span.category == _PERSON else plain
            named.append(span._replace(placeholder=self._pseudonym(span.category, span.text, entity, within, document)))
        return merged(text, named, self._literals(text, document))

    def _literals(self, text: str, document: str | None) -> list[Span]:
        """Spans that `restore` could take for pseudonyms."""
        within = self._document(text, document)
        spans: list[Span] = []
        for start, end, name in _possible(text):
            if _SHAPE.fullmatch(name) or name in self._known:
                written = text[start:end]
                shown = self._pseudonym(_LITERAL, written, written, within, document)
                spans.append(Span(start, end, written, _LITERAL, shown, _LITERAL, 1.0))
        return spans

    def placeholder(self, category: str, value: str, *, document: str | None = None) -> str | None:
        """The pseudonym of a value of this category; None if it stays, because the redactor does not look for that category."""
        if self._redactor.placeholder(category) is None:
            literals = self._literals(value, document)
            return replaced(value, literals) if literals else None
        entity = _plain(name_in_header(value) if category == _PERSON else value)
        return self._pseudonym(category, value, entity, self._document(value, document), document)

    def _document(self, text: str, document: str | None) -> str:
        if self._scope == "collection":
            return ""
        if document is not None:
            return f"name:{document}"
        return "text:" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

    def _pseudonym(self, category: str, value: str, entity: str, within: str, document: str | None) -> str:
        """The pseudonym of a value, the first number of its entity that is free or its own."""
        hashed = hmac.new(self._key, "\0".join((within, category, entity)).encode("utf-8", "replace"), hashlib.sha256)
        letters = f"{default_placeholder(category)[:LONGEST_KIND].rstrip(']')}_{base64.b32encode(hashed.digest())[:LETTERS].decode()}"
        while (letters, value) not in self._named:
            number = self._numbers[letters] = self._numbers.get(letters, 0) + 1
            name = f"{letters}]" if number == 1 else f"{letters}_{number}]"
            self._named[letters, self._known.setdefault(name, value)] = name
        name = self._named[letters, value]
        if document is not None:
            self._documents.setdefault(document, set()).add(name)
        return name


def restore(text: str, known: Mapping[str, str], *, document: str | None = None) -> str:
    """The text with every known pseudonym replaced by what it stands for; others stay.

    Args:
        text: with pseudonyms.
        known: pseudonym -> value, as of `Pseudonymizer.known` or `read_vault`.
        document: name of the document that the text comes from: nothing but its own values comes back. None: every value of
            every document can come back, for texts that only they read who may read all of them.
    """
    validate.instance("text", text, str, "a string")
    if document is not None:
        known = (known if isinstance(known, Known) else Known(known)).of(document)
    return replaced(text, Restorer(known)(text))


class Restorer:
    """A function that finds known pseudonyms in a text, each with what it stands for as placeholder."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known

    def __call__(self, text: str) -> tuple[Span, ...]:
        known = self._known
        return tuple(
            Span(start, end, text[start:end], "pseudonym", known[name], "vault", 1.0)
            for start, end, name in _possible(text)
            if name in known
        )

    def placeholder(self, category: str, value: str) -> str | None:
        """What stands for a value that holds known pseudonyms; None if it holds none."""
        spans = self(value)
        return replaced(value, spans) if spans else None


def _possible(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, pseudonym) of what may be one: as it was written, or between those altered or encoded, as in `[person\\_k3m9]`."""
    position = 0
    for exact in (*PLACEHOLDER.finditer(text), None):
        shadow = Shadow(text[position : exact.start() if exact else len(text)], decoded=True)
        for match in _ALTERED.finditer(shadow.text):
            start, end = shadow.in_original(*match.span())
            yield start + position, end + position, f"[{match[1].rstrip('_').upper()}]"
        if exact:
            yield *exact.span(), exact[0]
            position = exact.end()


def mail_words(value: str) -> str:
    """The value of a header of mail with its encoded words (RFC 2047) decoded, or as it is if they cannot be read."""
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, UnicodeError):
        return value


def derived_key(key: bytes, purpose: str) -> bytes:
    validate.instance("key", key, (bytes, bytearray), "bytes")
    if len(key) < FEWEST_KEY_BYTES:
        raise ValueError(f"key must have at least {FEWEST_KEY_BYTES} bytes, got {len(key)}")
    return hmac.new(bytes(key), f"hushvec {purpose} 1".encode(), hashlib.sha256).digest()


def _plain(value: str) -> str:
    return " ".join(Shadow(value).text.casefold().split())


def _people(names: Iterable[str]) -> dict[str, str]:
    """A single first or last name -> the one fuller name in the document that begins or ends with it."""
    full = {name for name in map(_plain, names) if " " in name}
    owners: dict[str, set[str]] = {}
    for name in full:
        words = name.split(" ")
        for word in {words[0], words[-1]}:
            owners.setdefault(word, set()).add(name)
    return {word: next(iter(found)) for word, found in owners.items() if len(found) == 1}


def name_in_header(value: str) -> str:
    """Jane Doe for a header's `Doe, Jane`, decoded."""
    return " ".join(reversed(mail_words(value).split(", ", 1)))


MARK = b"hushvec vault 2\n"
EARLIER = b"hushvec vault 1\n"  # of the same length; its pseudonyms belong to no document
NONCE_BYTES = 12


def write_vault(path: str | os.PathLike[str], known: Mapping[str, str], key: bytes) -> None:
    """Encrypt pseudonyms and what they stand for into a file.

    Args:
        path: of the file, which is replaced if it exists.
        known: pseudonym -> value, as `Pseudonymizer.known` gives it with its documents.
        key: the secret key of the pseudonyms, 32 bytes at least.
    """
    cipher = _cipher(key)
    nonce = secrets.token_bytes(NONCE_BYTES)
    documents = {name: sorted(names) for name, names in getattr(known, "documents", {}).items()}
    content = json.dumps({"known": dict(known), "documents": documents}, ensure_ascii=True, sort_keys=True).encode()
    with published_bytes(Path(path), mode=PRIVATE) as file:
        file.write(MARK + nonce + cipher.encrypt(nonce, content, MARK))


def read_vault(path: str | os.PathLike[str], key: bytes) -> Known:
    """The values behind the pseudonyms of a vault.

    Returns:
        Pseudonym -> value, with their documents: private.

    Raises:
        ValueError: it is not a vault, the key is another one, or a byte was changed.
    """
    cipher = _cipher(key)
    packed = Path(path).read_bytes()
    mark = packed[: len(MARK)]
    if mark not in (MARK, EARLIER):
        raise ValueError(f"{path}: must be a vault of pseudonyms, is another kind of file")
    nonce, sealed = packed[len(MARK) : len(MARK) + NONCE_BYTES], packed[len(MARK) + NONCE_BYTES :]
    with needs_extra("a vault of pseudonyms", "encryption"):
        from cryptography.exceptions import InvalidTag
    try:
        content = json.loads(cipher.decrypt(nonce, sealed, mark))
    except (InvalidTag, ValueError):
        raise ValueError(f"{path}: must be opened with the key that it was written with, unchanged: key or content differ") from None
    return Known(content["known"], content["documents"]) if mark == MARK else Known(content)


def new_key(path: str | os.PathLike[str]) -> bytes:
    """A new random key, written to a file in hexadecimal.

    Returns:
        The key, 32 bytes. Of several processes that ask for one file, one gets a key.
    """
    key = secrets.token_bytes(FEWEST_KEY_BYTES)
    if not is_first_to_write(Path(path), key.hex().encode() + b"\n"):
        raise FileExistsError(f"{path}: must not exist yet; a key is never overwritten")
    return key


def read_key(path: str | os.PathLike[str]) -> bytes:
    """The key of a file that `new_key` wrote: 32 bytes or more in hexadecimal."""
    try:
        key = bytes.fromhex(Path(path).read_text(encoding="ascii"))
    except ValueError:
        key = b""
    if len(key) < FEWEST_KEY_BYTES:
        raise ValueError(f"{path}: must hold a key of at least {FEWEST_KEY_BYTES} bytes in hexadecimal")
    return key


def _cipher(key: bytes) -> Any:
    derived = derived_key(key, "vault")
    with needs_extra("a vault of pseudonyms", "encryption"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    return AESGCM(derived)
