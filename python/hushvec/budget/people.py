"""Ledgers that count by person: ids as keyed hashes, and what each person has lost in a period.

Everyone loses what is charged without people, whoever is named beside that loses more. The total of such a ledger is the most that
anybody has lost. docs/proofs/per_person.md proves what it promises.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from numbers import Integral
from typing import Any, NamedTuple

from hushvec._util import validate
from hushvec._util.display import plural
from hushvec.budget.amounts import ZERO, Amounts, Spend
from hushvec.budget.arguments import plain_form
from hushvec.budget.rows import LedgerTerms, fits, refusal
from hushvec.errors import PrivacyBudgetExhaustedError

DIGITS = 32  # hexadecimal ones, of each hash
KEY_BYTES = 32
SECRET = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")  # a key as a store keeps it
_NAMED = 5  # people in the text of an error
_HASHES = re.compile(f"(?:[0-9a-f]{{{DIGITS}}})+")


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def key_digest(key: bytes) -> str:
    """What the first row of a ledger says of its key."""
    return _hash(b"the key itself", key)


class People(NamedTuple):
    """The people of one call, each as often as they are named."""

    given: list[Any]
    hashes: list[str]

    @property
    def field(self) -> str:
        """As a row writes them: in the order of their hashes, which says nothing about the order of the call."""
        return "".join(sorted(self.hashes))


def people_of(ids: Any, key: bytes) -> People:
    """Ids as given, checked, and as hashes with a ledger's key. An integer and the text that it prints as are one person, and so
    are texts that look alike (`plain_form`, without what is not printable): that may count too much, never too little."""
    if not key:
        raise ValueError("people must be None for a ledger that does not count by person (per_person=True when it is made)")
    if not (given := validate.listed("people", ids)):
        raise ValueError("people must name at least one person, got none")
    return People(given, [_hash(_text(one, place).encode(), key) for place, one in enumerate(given)])


def _text(one: Any, place: int) -> str:
    if type(one) not in (str, int) and (isinstance(one, bool) or not isinstance(one, str | Integral)):
        raise TypeError(f"people must be texts or whole numbers, got {validate.kind(one)} at position {place}")
    text = str(one)
    text = text.strip() if text.isascii() else plain_form(text)
    if not text.isprintable():
        text = "".join(filter(str.isprintable, text)).strip()
    if not text:
        raise ValueError(f"people must have ids that are not empty, got {one!r} at position {place}")
    return text


def _hash(text: bytes, key: bytes) -> str:
    return blake2b(text, key=key, digest_size=DIGITS // 2).hexdigest()


def hashes_of(field: str) -> list[str]:
    """The inverse of `People.field`; none for the empty text."""
    hashes = [field[start : start + DIGITS] for start in range(0, len(field), DIGITS)]
    if field and (_HASHES.fullmatch(field) is None or hashes != sorted(hashes)):
        raise ValueError(f"people must be hashes of {DIGITS} hexadecimal digits in order")
    return hashes


class Accounts:
    """What people have lost in one period, beside what everyone has lost."""

    def __init__(self) -> None:
        self._own: dict[str, Spend] = {}
        self._most = ZERO  # of anybody's own epsilon (or rho), and of anybody's own delta
        self._known: dict[Spend, Spend] = {}  # a million people have a few different sums: each is kept once

    def spent(self, total: Spend, person: str) -> Spend:
        """All that a person has lost, where the total of the ledger is this."""
        return _sum(self._everyone(total), self._own.get(person, ZERO))

    def grown(self, people: Iterable[str], amount: Spend) -> dict[str, Spend]:
        """Their own losses with one more charge for each time that they are named."""
        once: dict[tuple[int, int], Spend] = {}
        grown = {}
        for person, times in Counter(people).items():
            before = self._own.get(person, ZERO)
            if (after := once.get((id(before), times))) is None:
                after = Spend(before.main + times * amount.main, before.delta + times * amount.delta)
                after = once[id(before), times] = self._known.setdefault(after, after)
            grown[person] = after
        return grown

    def refused(self, total: Spend, grown: Mapping[str, Spend], limit: Spend) -> set[str]:
        """Those who would have lost more than the limit."""
        everyone = self._everyone(total)
        too_much = {id(own) for own in _different(grown) if not fits(_sum(everyone, own), limit)}
        return {person for person, own in grown.items() if id(own) in too_much} if too_much else set()

    def total(self, total: Spend, grown: Mapping[str, Spend]) -> Spend:
        """The ledger's total after a charge."""
        return _sum(self._everyone(total), self._most_with(grown))

    def take(self, grown: Mapping[str, Spend]) -> None:
        """Record a charge."""
        self._most = self._most_with(grown)
        self._own.update(grown)

    def require(self, terms: LedgerTerms, total: Spend, people: People, amounts: Amounts) -> tuple[dict[str, Spend], Spend]:
        """What `take` takes for a charge, and the total after it; PrivacyBudgetExhaustedError names those whom it does not fit."""
        grown = self.grown(people.hashes, Spend(amounts.main_units, amounts.delta_units))
        if refused := self.refused(total, grown, terms.limit):
            places = tuple(place for place, person in enumerate(people.hashes) if person in refused)
            spent = self.spent(total, people.hashes[places[0]])
            raise _refusal(refusal(terms, spent, amounts), people, places)
        return grown, self.total(total, grown)

    def affordable(self, total: Spend, people: Sequence[str], amounts: Amounts, limit: Spend) -> list[bool]:
        """Whether each one of a call fits, with those before it that do."""
        everyone, own, answer = self._everyone(total), dict[str, Spend](), []
        for person in people:
            after = _sum(own.get(person) or self._own.get(person, ZERO), Spend(amounts.main_units, amounts.delta_units))
            answer.append(fits(_sum(everyone, after), limit))
            if answer[-1]:
                own[person] = after
        return answer

    def _everyone(self, total: Spend) -> Spend:
        return Spend(total.main - self._most.main, total.delta - self._most.delta)

    def _most_with(self, grown: Mapping[str, Spend]) -> Spend:
        mains, deltas = zip(self._most, *_different(grown))
        return Spend(max(mains), max(deltas))


def _different(grown: Mapping[str, Spend]) -> Iterable[Spend]:
    """The different sums among those of `Accounts.grown`, of which there are few; comparing objects takes a tenth of hashing them."""
    return {id(own): own for own in grown.values()}.values()


def _sum(one: Spend, other: Spend) -> Spend:
    return Spend(one.main + other.main, one.delta + other.delta)


def _refusal(error: PrivacyBudgetExhaustedError, people: People, places: tuple[int, ...]) -> PrivacyBudgetExhaustedError:
    """The error for the first of those who are refused, as that of the call."""
    times = Counter(people.hashes[place] for place in places)
    named = {people.hashes[place]: people.given[place] for place in reversed(places)}
    error.refused, error.people = places, tuple(named[person] for person in times)
    texts = [f"{named[person]!r:.80}" + (f" ({times[person]} times)" if times[person] > 1 else "") for person in times]
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    error.args = (
        f"{len(times)} of {plural(len(set(people.hashes)), 'person', 'people')} refused, so nobody was charged: "
        f"{', '.join(texts[:_NAMED])}{more}; the first: {error}",
    )
    return error
