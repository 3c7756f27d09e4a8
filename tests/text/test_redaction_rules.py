"""Each rule of redaction: what it finds, and what looks alike and stays."""

import ipaddress
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushvec.text import redact, rules
from hushvec.text.pii.document import Document, Prefilter
from hushvec.text.pii.numbers import iban_holds, is_card, is_itin, is_ssn, luhn_holds, nhs_number_holds
from hushvec.text.pii.redactor import own_rules
from hushvec.text.pii.wordlists import given_names, names_of_places

RULES = {rule.name: rule for rule in own_rules()}
phonenumbers = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("phonenumbers") is None,
    reason="phonenumbers is not installed: pip install '.[redact]'"
)

FOUND = [
    ("email", "Write to o.neill+tag@mail.example.co.uk.", "o.neill+tag@mail.example.co.uk"),
    ("email", "<müller@büro.example>", "müller@büro.example"),
    ("email", "UPPER@EXAMPLE.ORG,", "UPPER@EXAMPLE.ORG"),
    ("url", "See https://user@host.example:8080/a/b?c=d#e, please", "https://user@host.example:8080/a/b?c=d#e"),
    ("url", "(ftp://files.example/x)", "ftp://files.example/x"),
    ("domain", "Visit www.some-shop.example today", "www.some-shop.example"),
    ("domain", "on some-shop.de/kontakt.", "some-shop.de/kontakt"),
    ("card", "4111 1111 1111 1111", "4111 1111 1111 1111"),
    ("card", "amex 378282246310005;", "378282246310005"),
    ("card", "3782 822463 10005", "3782 822463 10005"),
    ("card", "6759-6498-2643-8453", "6759-6498-2643-8453"),
    ("card_after_words", "my card is 3502000000000007", "3502000000000007"),
    ("card_after_words", "the Visa ending in 4427 was declined", "4427"),
    ("card_after_words", "a credit card that ends with ****4427.", "****4427"),
    ("iban", "IBAN DE89 3704 0044 0532 0130 00 at", "DE89 3704 0044 0532 0130 00"),
    ("iban", "gb82west12345698765432", "gb82west12345698765432"),
    ("iban", "NO93 8601 1117 947.", "NO93 8601 1117 947"),
    ("us_ssn", "457-55-5462", "457-55-5462"),
    ("us_ssn_after_words", "My SSN is 457555462", "457555462"),
    ("us_ssn_after_words", "social security number: 666 12 3456", "666 12 3456"),
    ("us_itin", "912-70-1234", "912-70-1234"),
    ("national_number", "filed for 44051401359 today", "44051401359"),
    ("ipv4", "from 192.168.0.17/24 to", "192.168.0.17/24"),
    ("ipv6", "fe80::1%eth0", "fe80::1%eth0"),
    ("ipv6", "[2001:db8::8a2e:370:7334]:443", "2001:db8::8a2e:370:7334"),
    ("ipv6", "::ffff:192.0.2.1", "::ffff:192.0.2.1"),
    ("mac", "00:1B:44:11:3a:B7", "00:1B:44:11:3a:B7"),
    ("private_key", "x -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- y",
     "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"),
    ("private_key", "-----BEGIN PRIVATE KEY-----\ncut off", "-----BEGIN PRIVATE KEY-----\ncut off"),
    ("known_token", "key AKIAIOSFODNN7EXAMPLE here", "AKIAIOSFODNN7EXAMPLE"),
    ("known_token", "ghp_" + "a1B2" * 9, "ghp_" + "a1B2" * 9),
    ("assigned_secret", 'password = "correct horse"', "correct horse"),
    ("assigned_secret", "api_key: 9f8e7d6c5b", "9f8e7d6c5b"),
    ("assigned_secret", "Authorization: Bearer abcdefghij0123456789", "abcdefghij0123456789"),
    ("assigned_secret", "my PIN is 4821", "4821"),
    ("url_password", "postgres://app:s3cret@db/x", "s3cret"),
    ("random_token", "use q8Z2mK9xT4vB7nL1pR6wY3cD now", "q8Z2mK9xT4vB7nL1pR6wY3cD"),
    ("random_token", "d41d8cd98f00b204e9800998ecf8427e", "d41d8cd98f00b204e9800998ecf8427e"),
    ("person_field", "\x1fVorname: ana maria souza ", "ana maria souza"),
    ("person_field", "\x1fname\x1ftext: ana maria souza", "ana maria souza"),
    ("place_field", "\x1fbilling city: new york", "new york"),
    ("secret_field", "\x1fdb password: correct horse", "correct horse"),
    ("date", "born 1985-11-18 22:50:23,", "1985-11-18 22:50:23"),
    ("date", "on 29/02/2020.", "29/02/2020"),
    ("date", "am 3.10.1990", "3.10.1990"),
    ("date_in_words", "12 March 2021", "12 March 2021"),
    ("date_in_words", "on March 12th, 2021", "March 12th, 2021"),
    ("date_in_words", "am 3. Oktober 1990", "3. Oktober 1990"),
    ("date_in_words", "we married in June 2001.", "June 2001"),
    ("date_in_words", "Anna, born in 1957, is well", "1957"),
    ("date_in_words", "year of birth: 1957", "1957"),
    ("date_in_words", "(born 1957)", "1957"),
    ("age", "a 31-year-old man", "31"),
    ("age", "she turned 47", "47"),
    ("account", "account number: 0012345678", "0012345678"),
    ("account", "policy no. AB-12345-X", "AB-12345-X"),
    ("medical_record", "MRN: 8374652", "8374652"),
    ("medical_record", "medical record number 12-34567", "12-34567"),
    ("nhs_number", "NHS number 943 476 5919", "943 476 5919"),
    ("document", "driver's license number is D1234567", "D1234567"),
    ("document", "passport no: X1234567", "X1234567"),
    ("postal_code", "zip code 12345-6789", "12345-6789"),
    ("postal_code", "London SW1A 1AA", "SW1A 1AA"),
    ("postal_code", "Toronto M5V 3L9", "M5V 3L9"),
    ("phone", "call 415-555-0188 x12 now", "415-555-0188 x12"),
    ("phone", "(212) 555-0147", "(212) 555-0147"),
    ("phone", "+44 20 7946 0958", "+44 20 7946 0958"),
    ("phone", "phone: 555 0147", "555 0147"),
    ("street_number_first", "at 12 Baker Street, please", "12 Baker Street"),
    ("street_number_first", "12 rue de la Paix", "12 rue de la Paix"),
    ("street_number_first", "1600 Amphitheatre Parkway, Springfield, IL 62704", "1600 Amphitheatre Parkway, Springfield, IL 62704"),
    ("street_number_first", "7 Long Lane\nApt. 4\nSmallville\nUnited States 12345",
     "7 Long Lane\nApt. 4\nSmallville\nUnited States 12345"),
    ("street_compound", "Sie wohnt Birkenweg 8", "Birkenweg 8"),
    ("street_compound", "Storgatan 15B", "Storgatan 15B"),
    ("street_word_first", "Via Garibaldi 12", "Via Garibaldi 12"),
    ("street_word_first", "ul. Kwiatowa 33", "ul. Kwiatowa 33"),
    ("street_word_last", "Petőfi Sándor utca 5", "Petőfi Sándor utca 5"),
    ("post_box", "P.O. Box 1234", "P.O. Box 1234"),
    ("post_box", "PSC 473, Box 12\nFPO AP 96349", "PSC 473, Box 12\nFPO AP 96349"),
    ("corner", "at the corner of Elm Street and 5th Avenue", "the corner of Elm Street and 5th Avenue"),
    ("flat", "Suite 500", "Suite 500"),
    ("named_place", "her address is Villa Rosa 14", "Villa Rosa 14"),
    ("person_title", "Dr. Ignaz Semmelweis spoke", "Ignaz Semmelweis"),
    ("person_introduced", "my name is Ogden Nash.", "Ogden Nash"),
    ("person_introduced", "Dear Brunhilde,", "Brunhilde"),
    ("person_introduced", "Kind regards,\nOttokar Przybilla\n", "Ottokar Przybilla"),
    ("person_self", "I'm Ottokar", "Ottokar"),
    ("person_subject", "Ottokar said so", "Ottokar"),
    ("person_subject", "Ottokar's address", "Ottokar"),
    ("person_given", "Why did Margaret van der Berg leave?", "Margaret van der Berg"),
    ("person_surname", "with Zbyněk Vondráčková there", "Zbyněk Vondráčková"),
    ("person_initial", "by Xanthe Q. Fnord", "Xanthe Q. Fnord"),
    ("title", "Mrs. Fnord", "Mrs."),
    ("organization_form", "Jane Doe of Acme Corp called", "Acme Corp"),
    ("organization_form", "Call Jane Doe, Acme Inc.", "Acme Inc."),
    ("organization_form", "bought from Nord Pumpen GmbH", "Nord Pumpen GmbH"),
    ("organization_form", "Ash, Bole and Cedar Ltd.", "Ash, Bole and Cedar Ltd."),
    ("organization_kind", "University of Nowhere", "University of Nowhere"),
    ("organization_kind", "at Wexford Technologies", "Wexford Technologies"),
    ("organization_kind", "the Blorbo Criminal Court", "Blorbo Criminal Court"),
    ("organization_kind", "the District Court of Blorbo", "District Court of Blorbo"),
    ("organization_work", "she works at Blorbo", "Blorbo"),
    ("organization_described", "Blorbo is a small design agency", "Blorbo"),
    ("country", "in New Zealand", "New Zealand"),
    ("place_after_words", "He lives in Santa Blorbo", "Santa Blorbo"),
    ("place_after_words", "a farm near the village of Blorbo", "Blorbo"),
    ("city_and_state", "Portland, OR 97201", "Portland, OR 97201"),
    ("handle", "Pictures by @maple_rivers, daily", "@maple_rivers"),
    ("handle", "see @maple@social.example.", "@maple@social.example"),
    ("us_ein", "filed under 47-1234567 in May", "47-1234567"),
    ("us_ein", "EIN: 071234567", "071234567"),
    ("us_ein", "Employer Identification Number (EIN): 07-1234567", "07-1234567"),
    ("bic", "SWIFT code DEUTDEFF500", "DEUTDEFF500"),
    ("bic", "BIC/SWIFT: NEDSZAJJ.", "NEDSZAJJ"),
    ("bic", "bank code is BOFAUS3N", "BOFAUS3N"),
    ("wallet", "to 1BoatSLRHtKNngkdXEeobR76b53LETtpyT.", "1BoatSLRHtKNngkdXEeobR76b53LETtpyT"),
    ("wallet", "to BC1QAR0SRRR7XFKVY5L643LYDNW9RE59GTZZWF5MDQ now", "BC1QAR0SRRR7XFKVY5L643LYDNW9RE59GTZZWF5MDQ"),
    ("wallet", "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
     "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"),
    ("wallet", "0x52908400098527886E0F7030069857D2E4169EE7", "0x52908400098527886E0F7030069857D2E4169EE7"),
    ("age", "I'm 23 and new", "23"),
    ("age", "I am 23.", "23"),
    ("person_number", "employee ID: 48213", "48213"),
    ("person_number", "student number is S-20931", "S-20931"),
    ("person_number", "badge #3391", "3391"),
    ("order_number", "order number 12345678", "12345678"),
    ("order_number", "order 12345678", "12345678"),
    ("order_number", "ticket ABC-123", "ABC-123"),
    ("docket_number", "application no. 18403/91", "18403/91"),
    ("docket_number", "(applications nos. 1/99, 22/99 and 333/99)", "333/99"),
    ("docket_number", "in 1:21-cv-04321-ABC", "1:21-cv-04321-ABC"),
    ("postal_code", "sent to 94110-1234", "94110-1234"),
    ("zip_after_city", "San Francisco 94110", "94110"),
    ("zip_after_city", "Portland OR 97201", "97201"),
    ("street_alone", "a pub near Oxford Street", "Oxford Street"),
    ("street_alone", "parked off Elm Drive.", "Elm Drive"),
    ("marital_status", "I am single and free", "single"),
    ("marital_status", "Marital status: widowed", "widowed"),
    ("partner", "with my late wife", "wife"),
    ("partner", "the ex-husband called", "ex-husband"),
    ("parting", "I just broke up with her", "broke up"),
    ("parting", "since our break-up", "break-up"),
    ("person_introduced", "a girl called Ottoline", "Ottoline"),
    ("person_introduced", "by a Ruritanian national, Blorbo Fnord, on", "Blorbo Fnord"),
    ("person_introduced", "The applicants, Blorbo Fnord and Quux Plugh, were", "Quux Plugh"),
    ("person_introduced", "was represented by Y. Fnord, a lawyer", "Y. Fnord"),
    ("person_introduced", "he sued his son, J.P., before", "J.P."),
    ("person_subject", "one child, Blorbo Fnord, born on", "Blorbo Fnord"),
    ("person_again", "Dr Quux spoke. Then Blorbo Quux left.", "Blorbo Quux"),
    ("organization_kind", "the Fnord Magistrates’ Court", "Fnord Magistrates’ Court"),
    ("organization_kind", "the Fnord Court of First Instance held", "Fnord Court of First Instance"),
    ("organization_kind", "Under the Act, the Fnord Regional Court (Cour de Fnord) held", "Fnord Regional Court (Cour de Fnord)"),
    ("organization_kind", "the Ruritanian Ministry of Justice", "Ruritanian Ministry of Justice"),
    ("organization_kind", "in Fnord Prison", "Fnord Prison"),
    ("amount", "a pension of EUR 4,684.40, plus", "EUR 4,684.40"),
    ("amount", "paid 200,000 Polish zlotys (PLN) (approximately EUR 50,000)", "200,000 Polish zlotys (PLN)"),
    ("amount", "paid 200,000 Polish zlotys (PLN) (approximately EUR 50,000)", "(approximately EUR 50,000"),
    ("amount", "her salary is $85,000 a year", "$85,000"),
    ("nationality", "a Ruritanian national", "Ruritanian"),
    ("dates_listed", "on 1 and 2 July 1996", "1 and 2 "),
    ("dates_listed", "on 18 May and 3 December 2001", "18 May"),
    ("dates_listed", "between July and December 1995", "July"),
    ("dates_listed", "from 1960 to 1979", "1979"),
    ("dates_listed", "they were born in 1943 and 1939", "1939"),
    ("dates_listed", "to three years and nine months’ imprisonment", "three years and nine months"),
    ("country", "the Federal Republic of Germany", "Federal Republic of Germany"),
    ("dates_listed", "In 1998 she retired", "1998"),
    ("docket_number", "(no. 32814/11)", "32814/11"),
    ("person_introduced", "my flatmate Ottoline", "Ottoline"),
    ("person_pair", "The keys are with Thandiwe Mokoena until Monday.", "Thandiwe Mokoena"),
    ("city", "friends in San Francisco know", "San Francisco"),
    ("city", "San Francisco 94110-1234", "San Francisco"),
]  # fmt: skip

NOT_FOUND = [
    ("email", "a@b and user@localhost, @handle, x@.com"),
    ("url", "the scheme http:// alone"),
    ("domain", "the end.The next. Node.js, main.py, e.g. 3.14, is.it"),
    ("card", "4111 1111 1111 1112, 1234567890123456, 4444444444444444"),
    ("card_after_words", "order 3502000000000007, a card ending in 2020-01-01, a lease ending in 2027, ending 4427"),
    ("iban", "DE88 3704 0044 0532 0130 00 XX00 1234"),
    ("us_ssn", "000-12-3456, 666-12-3456, 912-12-3456, 123-00-4567, 123-45-0000, 2270-66-1551"),
    ("us_ssn_after_words", "security matters in 2024"),
    ("us_itin", "912-66-1234"),
    ("national_number", "44051401358, 1-44051401359, X1234567A"),
    ("ipv4", "256.1.1.1, 1.2.3, 1.2.3.4.5, version 1.2.3.4"),
    ("ipv6", "12:30:45, std::vector, a::b::c, ::, :::, 1:2:3"),
    ("mac", "00:1B:44:11:3a, 00-1B-44-11-3a-B7-00"),
    ("private_key", "-----BEGIN PUBLIC KEY-----"),
    ("known_token", "AKIA is a prefix, ghp_short"),
    ("assigned_secret", "the key point is that the token is lost; a password is needed"),
    ("url_password", "http://host:8080/@x"),
    ("random_token", "internationalization CamelCaseIdentifierForThings /usr/local/lib/python3/dist-packages"),
    ("date", "2021-02-30, 31/04/2020, 13/13/2013, 1/2, 10.0.0.1"),
    ("date_in_words", "may 5 of us? 32 March, in March, since 1957, it may 2001 times, born in 1957-58"),
    ("organization_kind", "the Supreme Court, the Court of Appeal's view, Elm Court, the Court"),
    ("place_after_words", "the kind of Blorbo"),
    ("age", "aged 400, page 31, turned 90 degrees"),
    ("account", "account for 12 of them"),
    ("medical_record", "the patient has 2 dogs; a record of 12345"),
    ("nhs_number", "NHS 943 476 5918"),
    ("document", "a license to thrill"),
    ("postal_code", "zip it up"),
    ("phone", "order 555 0147, 2021-12-24, 1 000 000, 192.168.100.100, 3.1415926535, ISBN 978-3-16-148410-0"),
    ("street_number_first", "We walked 5 miles all the way; 12 March 2020; 3 Series"),
    ("street_compound", "String 5 and During 1999"),
    ("corner", "a corner of the room and more"),
    ("person_introduced", "Dear Customer, hello there, thanks and regards to all"),
    ("person_self", "I am Spanish. I'm Sorry. This is Important."),
    ("person_subject", "She said, Everyone said, The doctor was"),
    ("person_given", "mark my words, will it rain in may, JAMES2024 james@x"),
    ("person_initial", "Vitamin C Tablets, Hepatitis B Virus"),
    ("organization_form", "the corp, in an inc"),
    ("country", "a turkey in a chad, Indianapolis"),
    ("handle", "a@b.org, x @netcom.com, "
               "@property, @Override, 3 @ 5, @a, @12, git@host:x, @types/node, 5 @NYI 2-4, M_[@4M>>^O:, x=@name;"),
    ("us_ein", "07-1234567, 147-1234567, 47-12345678, 4-7-1234567"),
    ("bic", "swift kick, SWIFT PROGRESS, Taylor Swift AWARDS12, bank holiday DEUTDEFF"),
    ("wallet", "1BoatSLRHtKNngkdXEeobR76b53LETtpyU, "
               "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdx, 0x52908400098527886E0F7030069857D2E4169E"),
    ("age", "I'm 23 minutes late, I am 90 percent sure, it's 23, I'm 1 of them, I'm 6'2"),
    ("person_number", "the employee has 4 dogs; students number 3000 in all; client no. 1"),
    ("order_number", "in order 12 of them; order pizza; case 123456; ticket to 12345; invoice 4711"),
    ("docket_number", "file no. 12, 3/4 of cases, case no. 5, application of 1/99"),
    ("postal_code", "94110, 123-94110-1234, 94110-12345"),
    ("zip_after_city", "in Paris 12345678, Boston 1776"),
    ("street_alone", "a hard drive, Hard Drive, Supreme Court, Wall Street Journal, on the Street, This Street"),
    ("marital_status", "a single file; I am separated by a wall; the files are single, he is engaged to win"),
    ("partner", "a husband and a wife, trading partner"),
    ("parting", "broke up the block; break up your text into parts"),
    ("person_introduced", "a program called Ottoline; as a patient, U.S. law; represented by a lawyer"),
    ("person_again", "Dr Rust wrote Rust, and rust; Captain Blorbo, Blorbo; Mrs Fnord, a fnord; no Dr, Quux"),
    ("organization_kind", "the Ministry of Justice, the District Authority, the Public Prosecutor, the Labour Office"),
    ("street_number_first", "1 of the Rules of Court, in 2004 the Supreme Administrative Court held"),
    ("named_place", "lives in Blorbo.\n\nOn 11 April 1997"),
    ("amount", "the plan costs $5 a month; in EUR 5; USD is up; a try 4 of 5; version 3 mark; 12 euros"),
    ("nationality", "senior citizens, a Former national, the national bank"),
    ("dates_listed", "Released in 2019. Section 3 may 2001 change; on 2 July; in 2014 the library was rewritten; from 1 to 5"),
    ("docket_number", "no. 3/04, No. 12"),
    ("person_pair", "by Desktop Publishing, for Long Island, to Bear Arms, bear arms; with Public Health"),
    ("city", "Paris is big; from Paris Hilton, in Londonderry, in london"),
    ("person_given", "San Francisco, Santa Maria, Port Elizabeth"),
]


def found_by(name, text):
    return [text[start:end] for start, end in RULES[name].find(Document(text))]


@pytest.mark.parametrize(("name", "text", "expected"), FOUND)
def test_found(name, text, expected):
    if name == "phone" and "+" not in text:
        pytest.importorskip("phonenumbers")
    if name == "national_number":
        pytest.importorskip("stdnum")
    assert expected in found_by(name, text)


def test_rules_that_are_not_asked_would_find_nothing():
    """The words and signs that a rule needs, against what it finds in any text of this module without that question."""
    rules, texts = own_rules(), {text for _, text, _ in FOUND} | {text for _, text in NOT_FOUND}
    asked = Prefilter(rules)
    for document in map(Document, texts):
        others = set(rules) - {rule for _, rule in asked(document)}
        assert [(rule.name, document.text) for rule in others if list(rule.finder(document))] == []


@pytest.mark.parametrize("place", ["Fnord", "Fnord-Blorbo", "Śródmieście", "Nowa Blorbo"])
@pytest.mark.parametrize("kind", ["Regional", "Administrative", "Assize", "State Security", "Magistrates’", "Social", "Tax"])
def test_a_court_is_named_by_its_place_alone(kind, place):
    for before, behind in (("On 5 July 2004 the ", " ruled."), ("Under the Act, the ", "’s judgment"), ("Later. The ", " (no. 2)")):
        found = found_by("organization_kind", f"{before}{place} {kind} Court{behind}")
        assert found == [f"{place} {kind} Court"]
        assert found_by("organization_kind", f"{before}{kind} Court{behind}") == []
    assert found_by("street_number_first", f"In 2004 the {place} {kind} Court") == []


@pytest.mark.parametrize("first", ["", "K. ", "K.H. ", "K. H. ", "C.-H. ", "N.Ö. ", "İ. ", "Cz. ", "Quux K. ", "Quux K.H. "])
@pytest.mark.parametrize("last", ["Fnord", "Fnord-Blorbo", "O’Fnord", "van der Fnord", "de Fnord", "Şfnord"])
def test_a_name_after_a_title_is_hidden_with_its_initials(first, last):
    for title, after in itertools.product(("Mr ", "Mrs. ", "Dr ", "Prof. "), (", a lawyer", " and", ".", " (“the applicant”)")):
        assert found_by("person_title", f"represented by {title}{first}{last}{after}") == [first + last]


@pytest.mark.parametrize("person", ["Jane Doe", "Maria Garcia Lopez", "Peter Smith"])
@pytest.mark.parametrize("link", [" of ", " for ", ", ", " from ", " at "])
@pytest.mark.parametrize("company", ["Acme Corp", "Nord Pumpen GmbH", "Globex Ltd."])
def test_a_person_and_their_company_are_two_finds(person, link, company):
    assert redact(f"Call {person}{link}{company} today").text == f"Call [PERSON]{link}[ORG] today"
    assert redact(f"{person}{link}{company} called").text == f"[PERSON]{link}[ORG] called"


@pytest.mark.parametrize(("name", "text"), NOT_FOUND)
def test_not_found(name, text):
    assert found_by(name, text) == []


def test_every_rule_has_an_example():
    assert {name for name, _, _ in FOUND} == set(RULES)


def test_the_list_of_rules():
    listed = rules()
    assert [rule.name for rule in listed] == list(RULES)
    assert len(RULES) == len(listed)
    assert all(rule.placeholder.startswith("[") and 0 < rule.score <= 1 and rule.summary for rule in listed)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("+1-903-555-0140x769", True),
        ("+49 30 901820", True),
        ("+999 12345678", False),
        ("+41 (0)44 668 18 00", True),
        ("044 668 18 00", True),
        ("01 42 68 53 00", True),
        ("06-12345678", True),
    ],
)
@phonenumbers
def test_plans_of_the_world(written, expected):
    assert (found_by("phone", f"x {written} y") == [written]) is expected


def test_phone_without_the_package(monkeypatch):
    from hushvec.text.pii import phone

    monkeypatch.setattr(phone, "find_spec", lambda name: None)
    rule = phone.phone_rule()
    assert "not installed" in rule.summary
    for text, expected in (
        ("+49 30 901820", ["+49 30 901820"]),
        ("415-555-0188", ["415-555-0188"]),
        ("phone 044 668 18 00", ["044 668 18 00"]),
        ("044 668 18 00", []),
    ):
        assert [text[start:end] for start, end in rule.find(Document(text))] == expected


def test_check_digits():
    assert luhn_holds("79927398713") and not luhn_holds("79927398710")
    assert is_card("4111111111111111") and not is_card("9111111111111111")
    assert iban_holds("gb82west12345698765432") and not iban_holds("gb83west12345698765432")
    assert is_ssn("457", "55", "5462") and not is_ssn("666", "55", "5462")
    assert is_itin("912", "70") and not is_itin("912", "93")
    assert nhs_number_holds("9434765919") and not nhs_number_holds("9434765918")


@given(st.from_regex(r"[45][0-9]{14}", fullmatch=True))
def test_one_digit_of_ten_makes_a_card(start):
    assert sum(luhn_holds(start + str(digit)) for digit in range(10)) == 1


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
@settings(max_examples=200, deadline=None)
def test_every_address_is_found(address):
    """Printed by the standard library, found whole; the unspecified IPv6 address is `::`, which is also an operator."""
    if address == ipaddress.IPv6Address(0):
        return
    name = f"ipv{address.version}"
    assert found_by(name, f"host {address} up") == [str(address)]


@given(st.text(alphabet="0123456789abcdef:.", min_size=2, max_size=40))
@settings(max_examples=300, deadline=None)
def test_what_is_found_is_an_address(text):
    for name in ("ipv4", "ipv6"):
        for found in found_by(name, text):
            assert f"ipv{ipaddress.ip_address(found.partition('/')[0]).version}" == name


def test_a_page_of_everything():
    text = (
        "From: Jane Doe <jane.doe@example.com>\nDate: 2024-02-03\n\nDear Mr. Smith,\n\nplease call me at +44 20 7946 0958 about "
        "invoice 4711. I live at 12 Baker Street, London NW1 6XE, and work at Blorbo.\n"
        "Card 4111 1111 1111 1111, password: hunter22\n\n"
        "Kind regards,\nJane\n"
    )
    shown = redact(text).text
    for secret in ("Jane", "jane.doe", "2024", "Smith", "7946", "Baker", "NW1", "Blorbo", "4111", "hunter22"):
        assert secret not in shown
    for kept in ("invoice 4711", "please call me at", "Kind regards"):
        assert kept in shown


def test_the_lists_of_words():
    sure, words_too = given_names()
    assert 500 < len(sure | words_too) < 2000
    assert not sure & words_too
    assert all(name == name.lower() for name in sure | words_too)
    assert 190 < len(names_of_places("countries")) < 260
    assert len(set(names_of_places("countries"))) == len(names_of_places("countries"))
