"""A key or a column says what its value is: of a person or a place it is hidden whole, and what only ends in "name" is no person."""

import json
import re
from pathlib import Path

import pytest

from evidence.reference.sizes import scaled
from hushvec.text import Pseudonymizer, Redactor, redact, redact_csv, redact_json, restore, rules
from hushvec.text.pii.fields import is_known
from hushvec.text.pii.pseudonyms import Restorer
from hushvec.text.pii.spans import Span
from hushvec.text.pii.wordlists import word_list, words_in_order

NAMES = ["Okonkwo", "ana maria souza", "KOFI MENSAH", "van der Berg", "李 小龙", "d'Ávila-Nuñez", "Ng"]
PLACES = ["Fresno", "new york", "LYON", "'s-Hertogenbosch", "Łódź", "Åre"]
FIND = Redactor().detect
PAGE = Path(__file__).parents[2] / "docs" / "redaction.md"


def ways_to_write(field):
    """Of a field of several words, or of one."""
    words = field.split()
    return {
        *(sign.join(words) for sign in ("", "_", "-", " ", ".")),
        "_".join(words).upper(),
        words[0] + "".join(map(str.capitalize, words[1:])),
        "".join(map(str.capitalize, words)),
        " ".join(map(str.capitalize, words)),
        "_".join(words) + "_2",
    }


def value_under(key, value, **settings):
    """What is left in JSON, alone and in a list, and in CSV; they must agree."""
    find = Redactor(**settings).detect if settings else FIND
    left = json.loads(redact_json(json.dumps({key: value, "more": {key: [value]}}), find).text)
    assert left[key] == left["more"][key][0]
    if not set(value + key).intersection('",'):
        column = redact_csv(f"id,{key}\n7,{value}\n", find).text.splitlines()[1].partition(",")[2]
        assert column == left[key]
    return left[key]


@pytest.mark.parametrize(
    ("section", "values", "shown"),
    [
        *(("fields_of_persons", NAMES, "[PERSON]"), ("fields_of_places", PLACES, "[LOCATION]")),
        ("fields_of_secrets", ["correct horse battery", "a b c", "hunter2"], "[CREDENTIAL]"),
    ],
)
def test_a_field_of_a_person_or_a_place_is_hidden_whole(section, values, shown):
    fields = words_in_order(section)
    assert len(set(fields)) == len(fields) >= 20
    for number, field in enumerate(fields):
        for value in scaled([values[number % len(values)]], values):
            assert (field, value_under(field, value)) == (field, shown)


FULL_KEYS = ["first name", "last name", "full name", "mothers maiden name", "patient first name", "emergency contact name"]
FULL_KEYS += ["first and last name", "nom et prénom", "nombre y apellidos", "name vorname", "nombre del paciente", "requester name"]
FULL_KEYS += ["patient's name", "mother’s name", "assigned to"]
FULL_KEYS += ["customer name", "doctor name", "guardian surname", "next of kin", "second last name"]
PLACE_KEYS = ["home city", "billing city", "city of birth", "place of birth", "mailing town", "patient birth place", "city name"]
PLACE_KEYS += ["city or town", "business city", "patient's city"]


@pytest.mark.parametrize("field", FULL_KEYS + PLACE_KEYS)
def test_in_every_way_to_write_a_key(field):
    for key in ways_to_write(field) - {field.replace(" ", "")}:
        assert (key, value_under(key, "van der Berg")) == (key, "[PERSON]" if field in FULL_KEYS else "[LOCATION]")


@pytest.mark.parametrize("sign", ["/", ", ", " & ", " - ", " (", "."])
def test_two_fields_in_one_title(sign):
    assert value_under(f"Name{sign}Vorname", "okonkwo") == value_under(f"First{sign}last name", "okonkwo") == "[PERSON]"


@pytest.mark.parametrize("depth", [1, 9, 99])
def test_the_end_of_a_long_key_is_read(depth):
    assert value_under("entry.0.resource." * depth + "given", "okonkwo") == "[PERSON]"
    assert value_under("entry.0.resource." * depth + "status", "okonkwo") == "okonkwo"
    assert is_known("x " * 40 + "village " * 20) and not is_known("x " * 4 + "city")


THINGS = ["table", "drug", "event", "package", "file", "host", "product", "company", "column", "project", "index", "product family"]
THINGS += ["branch", "metric", "queue", "index", "cluster", "test case", "job", "model", "font", "policy", "color", "course"]


@pytest.mark.parametrize("thing", THINGS)
def test_a_key_that_only_ends_in_name_is_no_person(thing):
    for key in ways_to_write(f"{thing} name") - {f"{thing} name".replace(" ", sign) for sign in ("", ".")}:
        assert value_under(key, "orders") == "orders", key


@pytest.mark.parametrize("thing", sorted(word_list("things_with_names")))
def test_a_name_of_a_thing_is_no_person(thing):
    for text in (json.dumps({thing: {"name": "save"}}), json.dumps({thing: [{"id": 1, "name": "save"}]})):
        assert redact_json(text).text == text
    assert redact_csv(f"id,{thing}.name\n7,save\n").text == f"id,{thing}.name\n7,save\n"


@pytest.mark.parametrize("key", ["consent_given", "font_family", "familySize", "cityId", "surname_count", "is_parent"])
def test_a_key_that_only_holds_such_a_word_says_nothing(key):
    assert value_under(key, "partial") == "partial"


@pytest.mark.parametrize("value", ["", " ", "-", "7", "N/A", "unknown", "None.", "yes"])
def test_a_value_that_names_nobody_stays(value):
    assert value_under("mother", value) == value


def test_the_name_of_nothing_in_particular_is_hidden_if_it_looks_like_one():
    assert value_under("name", "ana maria souza") == "[PERSON]"
    assert value_under("name", "v2.get_user") == "v2.get_user"
    assert redact_json('{"data": {"name": "van der Berg"}}').text == '{"data": {"name": "[PERSON]"}}'


def test_a_patient_of_fhir():
    record = {
        "resourceType": "Patient",
        "name": [{"use": "official", "family": "du Marché", "given": ["bénédicte", "X"], "text": "bénédicte du marché"}],
        "address": [{"use": "home", "city": "PleasantVille", "district": "Rainbow"}],
        "generalPractitioner": [{"reference": "Practitioner/1", "display": "ana lima"}],
        "contact": [{"name": {"family": "Chalmers"}}],
    }
    assert json.loads(redact_json(json.dumps(record)).text) == {
        "resourceType": "Patient",
        "name": [{"use": "official", "family": "[PERSON]", "given": ["[PERSON]", "[PERSON]"], "text": "[PERSON]"}],
        "address": [{"use": "home", "city": "[LOCATION]", "district": "[LOCATION]"}],
        "generalPractitioner": [{"reference": "Practitioner/1", "display": "[PERSON]"}],
        "contact": [{"name": {"family": "[PERSON]"}}],
    }


def test_calls_of_tools_stay():
    call = {"type": "function", "function": {"name": "save", "arguments": '{"path": "a.txt"}'}}
    used = {"role": "assistant", "content": [{"type": "tool_use", "name": "search", "input": {"query": "lunch"}}]}
    text = json.dumps({"tools": [{"name": "save"}], "messages": [{"tool_calls": [call]}, used], "tool_choice": call})
    assert redact_json(text).text == text


def test_fields_of_the_caller():
    fields = {"sponsor name": "person", "Site": "trial site", "plant.name": "location"}
    assert value_under("sponsorName", "okonkwo") == "okonkwo"
    assert value_under("sponsorName", "okonkwo", fields=fields) == "[PERSON]"
    assert value_under("SITE", "north wing", fields=fields) == "[TRIAL_SITE]"
    assert redact_json('{"plant": {"name": "north"}}', Redactor(fields=fields).detect).text == '{"plant": {"name": "[LOCATION]"}}'
    assert value_under("city", "Fresno", fields={"city": "organization"}) == "[ORG]"
    assert [rule.name for rule in Redactor(patterns=["email"], fields=fields).rules()][1:] == [
        "field:full person name", "field:location", "field:trial site",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        (["a"], TypeError, "fields must be a mapping from names of fields to categories, got list"),
        ({"a": 7}, TypeError, "fields must name categories by strings, got int"),
        ({"a": ""}, ValueError, "fields: a category must be 1 to 48 letters, digits, spaces, '_' or '-', got ''"),
        ({"7": "person"}, ValueError, "fields must name fields with letters, got '7'"),
    ],
)
def test_bad_fields(fields, error, words):
    with pytest.raises(error, match=f"^{re.escape(words)}$"):
        Redactor(fields=fields)


def test_settings_hold_for_fields_too():
    assert value_under("given", "okonkwo", patterns=["email"]) == "okonkwo"
    assert value_under("given", "okonkwo", allow_categories=["person"]) == "okonkwo"
    assert value_under("given", "okonkwo", allow_list=["okonkwo"]) == "okonkwo"
    assert value_under("given", "okonkwo", replacement="*") == "*"
    names = Pseudonymizer(bytes(range(32)))
    hidden = redact_json('{"given": "okonkwo"}', names.spans).text
    assert "[PERSON_" in hidden and restore(hidden, names.known) == '{"given": "okonkwo"}'
    assert redact_json('{"given": "[PERSON]"}').text == '{"given": "[PERSON]"}'


@pytest.mark.parametrize("key", ["user_password", "dbPassword", "New Password", "API Key", "Mot de passe", "Contraseña"])
def test_a_password_of_several_words_is_hidden_whole(key):
    assert value_under(key, "correct horse battery") == "[CREDENTIAL]"


def test_plain_text_has_no_fields():
    assert redact("city: everything here stays").text == "city: everything here stays"
    assert {"person_field", "place_field"} <= {rule.name for rule in rules()}


SECTIONS = ["fields_of_persons", "fields_of_places", "fields_of_secrets"]
SECTIONS += ["owners_of_names", "things_with_names", "words_before_fields"]


@pytest.mark.parametrize("section", [*SECTIONS, "values_of_no_one"])
def test_the_page_names_the_section_and_entries_of_it(section):
    """The whole table is in the file that the page links to."""
    page = " ".join(PAGE.read_text(encoding="utf-8").partition("The fields are in [words.txt]")[2].partition("\n\n")[0].split())
    (listed,) = re.findall(rf"`{section}`[^()]*\(((?:`[^`]+`, )+)\.\.\.\)", page)
    assert {entry.lower() for entry in re.findall("`([^`]+)`", listed)} <= set(words_in_order(section))
    assert f"[{section}]" in (PAGE.parents[1] / "python/hushvec/data/words.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_json_in_a_string_says_what_its_values_are(depth):
    value = '{"firstName": "van \\"der\\" Berg", "city": ["Fresno"], "path": "a.txt", "size": 457555462}'
    expected = '{"firstName": "[PERSON]", "city": ["[LOCATION]"], "path": "a.txt", "size": 457555462}'
    row = f'id,data\n7,"{value.replace(chr(34), chr(34) * 2)}"\n'
    assert redact_csv(row).text == f'id,data\n7,"{expected.replace(chr(34), chr(34) * 2)}"\n'
    for _ in range(depth):
        value, expected = json.dumps({"arguments": value}), json.dumps({"arguments": expected})
    names = Pseudonymizer(bytes(range(32)))
    hidden = redact_json(value, names.spans).text
    assert redact_json(value).text == expected
    assert "Berg" not in hidden and redact_json(hidden, Restorer(names.known)).text == value


def test_json_in_a_string_is_read_as_a_text_as_well():
    assert redact_json(json.dumps({"a": '{"ssn": 457555462}'})).text == json.dumps({"a": '{"ssn": [SSN]}'})


def test_a_find_that_goes_beyond_a_field_of_json_in_a_string_stays_whole():
    find = lambda text: [Span(at, at + 4, "c\"} ", "x", "[X]", "r", 1.0)] if (at := text.find('c"} ')) >= 0 else FIND(text)
    assert redact_json(json.dumps({"a": '{"city": "abc"} '}), find).text == json.dumps({"a": '{"city": "ab[X]'})
