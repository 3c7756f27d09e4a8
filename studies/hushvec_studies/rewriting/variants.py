"""Sentences with other people's data in them: what an adversary makes who knows the templates and has lists of values."""

import random


def values_of(records):
    values = {}
    for record in records:
        for span in record["spans"]:
            values.setdefault(span["entity_type"], set()).add(span["entity_value"])
    return {kind: sorted(some) for kind, some in values.items()}


def filled_anew(record, values, chance):
    """The record's sentence with every gold span replaced by a value of its type."""
    text = record["full_text"]
    for span in sorted(record["spans"], key=lambda span: -span["start_position"]):
        text = text[: span["start_position"]] + chance.choice(values[span["entity_type"]]) + text[span["end_position"] :]
    return text


def varied(records, values, count, seed):
    """Sentences filled anew, `count` for each template, all different and none of them a private one."""
    chance = random.Random(seed)
    templates = {record["template_id"]: record for record in records}
    private = {record["full_text"] for record in records}
    made = {filled_anew(record, values, chance) for record in templates.values() for _ in range(count)}
    return sorted(made - private)


def with_other_names(records, persons, count, names, seed):
    """[count][names] texts: sentences with a person in them, each with its own name first and then with the names of others."""
    chance = random.Random(seed)
    lists = []
    for record in records:
        own = next((span["entity_value"] for span in record["spans"] if span["entity_type"] == "PERSON"), None)
        if own is not None and len(lists) < count:
            others = chance.sample(sorted(set(persons) - {own}), names - 1)
            lists.append([record["full_text"].replace(own, name) for name in (own, *others)])
    return lists
