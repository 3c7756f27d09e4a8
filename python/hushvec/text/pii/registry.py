"""The built-in rules in the order that settles ties, and the names that callers may use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from hushvec._util.validate import nearest_of
from hushvec.text.pii import (
    addresses,
    contact,
    credentials,
    dates,
    network,
    numbers,
    organisations,
    persons,
    places,
    records,
    references,
    relationships,
    wallets,
)
from hushvec.text.pii.categories import canonical, default_placeholder, is_known, short_names
from hushvec.text.pii.phone import phone_rule
from hushvec.text.pii.rule import Rule


class RuleInfo(NamedTuple):
    """One line in the list of rules."""

    name: str
    category: str
    placeholder: str
    score: float
    summary: str

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


@cache
def own_rules() -> tuple[Rule, ...]:
    return (
        *contact.RULES,
        *numbers.RULES,
        *wallets.RULES,
        *network.RULES,
        *credentials.RULES,
        *dates.RULES,
        *records.RULES,
        *references.RULES,
        phone_rule(),
        *addresses.RULES,
        *persons.RULES,
        *relationships.RULES,
        *organisations.RULES,
        *places.RULES,
    )


def describe(rules: Iterable[Rule]) -> list[RuleInfo]:
    return [RuleInfo(rule.name, rule.category, default_placeholder(rule.category), rule.score, rule.summary) for rule in rules]


def chosen(patterns: Iterable[str] | None) -> tuple[Rule, ...]:
    """The rules of some categories; a name of `patterns` is a category, a short name of one, or a rule."""
    if patterns is None:
        return own_rules()
    names = {_known("patterns", name, rules_too=True) for name in names_of("patterns", patterns)}
    return tuple(rule for rule in own_rules() if rule.category in names or rule.name in names)


def known_categories(argument: str, names: Iterable[str], own: Iterable[str]) -> frozenset[str]:
    """Canonical names; categories that the caller made up (`own`) count as known."""
    made_up = frozenset(own)
    return frozenset(
        canonical(name) if canonical(name) in made_up else _known(argument, name, more=made_up)
        for name in names_of(argument, names)
    )


def names_of(argument: str, names: Any) -> list[str]:
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"{argument} must be a list of names, got {type(names).__name__}")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be a list of names, got {type(name).__name__} in it")
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
