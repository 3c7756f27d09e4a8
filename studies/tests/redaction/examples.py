"""Sentences with one piece of personal data each: 42 for the 33 rules of local-text-anonymizer, and phone numbers with 555.

The rules are those of `regex_privacy_sanitizer.py` (github.com/erguteb/local-text-anonymizer), by their names there; the sentences and
the values are invented.
"""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A sentence, and the part of it that must not stay readable."""

    rule: str
    sentence: str
    secret: str


EXAMPLES = (
    Example("email address", "Write to m.okafor@example.org by Friday.", "m.okafor@example.org"),
    Example("phone number", "The desk answers at (628) 555-0142 until noon.", "(628) 555-0142"),
    Example("social handle", "Pictures are posted by @maple_rivers every week.", "@maple_rivers"),
    Example("url", "The form is at https://example.org/u/okafor?id=7 now.", "https://example.org/u/okafor?id=7"),
    Example("ip address", "The login came from 203.0.113.77 last night.", "203.0.113.77"),
    Example("mac address", "The laptop is 3c:22:fb:9a:01:7e on our network.", "3c:22:fb:9a:01:7e"),
    Example("ssn", "The form shows 219-09-9999 in the first box.", "219-09-9999"),
    Example("ein", "The bakery files under EIN 47-1234567 this year.", "47-1234567"),
    Example("credit card", "It was charged to 5555 5555 5555 4444 twice.", "5555 5555 5555 4444"),
    Example("iban", "Send the rent to GB82WEST12345698765432 please.", "GB82WEST12345698765432"),
    Example("swift bic", "Their SWIFT code is DEUTDEFF500 as before.", "DEUTDEFF500"),
    Example("swift bic", "BIC: NEDSZAJJXXX, then the reference.", "NEDSZAJJXXX"),
    Example("routing number", "Use routing number 021000021 for the deposit.", "021000021"),
    Example("bank account number", "Pay into account number 0045-889120 today.", "0045-889120"),
    Example("passport number", "My passport number is K7391254 and it expires soon.", "K7391254"),
    Example("driver license number", "He showed driver's license B8842219 at the door.", "B8842219"),
    Example("date of birth", "DOB: 03/14/1987, admitted on Monday.", "03/14/1987"),
    Example("date of birth", "She was born on March 14, 1987 in a small town.", "March 14, 1987"),
    Example("age expression", "I'm 23 and new in town.", "23"),
    Example("age expression", "I am 23, so the discount applies.", "23"),
    Example("age expression", "A student, 23 years old, asked for help.", "23"),
    Example("age expression", "Patient, age 23, with a cough.", "23"),
    Example("relationship or private-life detail", "I am single and looking for a flat.", "single"),
    Example("relationship or private-life detail", "I just broke up with my girlfriend.", "girlfriend"),
    Example("single first name in personal context", "I went there with my girlfriend Lily.", "Lily"),
    Example("single first name in personal context", "My sister Anneke lives next door.", "Anneke"),
    Example("single first name", "We hired a plumber named Priya.", "Priya"),
    Example("street address", "Deliver it to 48 Harbor View Road, please.", "48 Harbor View Road"),
    Example("standalone street or place mention", "Is there a pub near Oxford Street that is open?", "Oxford Street"),
    Example("city or place mention", "We stayed with friends in London all week.", "London"),
    Example("zip or postal code", "The parcel went to San Francisco 94110-1234 by mistake.", "94110-1234"),
    Example("license plate", "The car with license plate 7KLM204 was towed.", "7KLM204"),
    Example("medical record number", "MRN: 8830142, second visit.", "8830142"),
    Example("employee or student id", "Employee ID: 48213 has left the company.", "48213"),
    Example("employee or student id", "Please update student number S-20931 in the list.", "S-20931"),
    Example("account or order id", "Where is order 12345678, I paid for it.", "12345678"),
    Example("organization name", "She sold her shares in Brightwater Corp last year.", "Brightwater Corp"),
    Example("person name with title", "Please ask Dr. Osei about the results.", "Osei"),
    Example("full person name", "The keys are with Thandiwe Mokoena until Monday.", "Thandiwe Mokoena"),
    Example("bitcoin wallet", "Send it to 1BoatSLRHtKNngkdXEeobR76b53LETtpyT today.", "1BoatSLRHtKNngkdXEeobR76b53LETtpyT"),
    Example(
        "bitcoin wallet",
        "Send it to bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq today.",
        "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
    ),
    Example(
        "ethereum wallet",
        "Send it to 0x52908400098527886E0F7030069857D2E4169EE7 today.",
        "0x52908400098527886E0F7030069857D2E4169EE7",
    ),
)

# No word says that they are telephone numbers; 555 is the area code, or the exchange of a local number.
PHONES = (
    Example("555", "Jane Doe, 555-123-4567", "555-123-4567"),
    Example("555", "Jane Doe 555-123-4567", "555-123-4567"),
    Example("555", "It is (555) 123-4567, ask for the manager.", "(555) 123-4567"),
    Example("555", "Try 555.123.4567 after six.", "555.123.4567"),
    Example("555", "Try 555 123 4567 after six.", "555 123 4567"),
    Example("555", "Try 5551234567 after six.", "5551234567"),
    Example("555", "Try +1 555 123 4567 after six.", "+1 555 123 4567"),
    Example("555", "Try 1-555-123-4567 after six.", "1-555-123-4567"),
    Example("555", "Jane Doe, 555-0142", "555-0142"),
    Example("555", "Jane Doe, (555) 555-5555", "(555) 555-5555"),
)
