"""Check digits and allotted ranges of numbers."""

from __future__ import annotations

from hushvec.text.pii.wordlists import word_list

# Leading digits of card numbers: (first, last, lengths), compared at the length of `first`.
_ISSUERS = (
    (34, 34, (15,)),  # American Express
    (37, 37, (15,)),
    (4, 4, (13, 16, 19)),  # Visa
    (51, 55, (16,)),  # Mastercard
    (2221, 2720, (16,)),
    (6011, 6011, (16, 17, 18, 19)),  # Discover
    (644, 649, (16, 17, 18, 19)),
    (65, 65, (16, 17, 18, 19)),
    (300, 305, (14, 16, 17, 18, 19)),  # Diners Club
    (3095, 3095, (14, 16, 17, 18, 19)),
    (36, 36, (14, 15, 16, 17, 18, 19)),
    (38, 39, (14, 16, 17, 18, 19)),
    (3528, 3589, (16, 17, 18, 19)),  # JCB
    (1800, 1800, (15,)),
    (2131, 2131, (15,)),
    (62, 62, (16, 17, 18, 19)),  # UnionPay
    (81, 81, (16, 17, 18, 19)),
    (50, 50, (12, 13, 14, 15, 16, 17, 18, 19)),  # Maestro
    (56, 58, (12, 13, 14, 15, 16, 17, 18, 19)),
    (60, 61, (12, 13, 14, 15, 16, 17, 18, 19)),
    (63, 63, (12, 13, 14, 15, 16, 17, 18, 19)),
    (66, 69, (12, 13, 14, 15, 16, 17, 18, 19)),
    (2200, 2204, (16, 17, 18, 19)),  # Mir
    (9792, 9792, (16,)),  # Troy
)

_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def luhn_holds(digits: str) -> bool:
    """The check digit of card numbers (ISO/IEC 7812-1, annex B)."""
    values = [ord(digit) - 48 for digit in reversed(digits)]
    return (sum(values[::2]) + sum(_DOUBLED[value] for value in values[1::2])) % 10 == 0


def is_card(digits: str) -> bool:
    """Leading digits and length of an issuer, and the check digit."""
    length = len(digits)
    if is_repeated(digits):
        return False
    for first, last, lengths in _ISSUERS:
        if length in lengths and first <= int(digits[: len(str(first))]) <= last:
            return luhn_holds(digits)
    return False


def is_repeated(digits: str) -> bool:
    """The same digit throughout, as in examples and in forms."""
    return len(set(digits)) == 1


# Length of an IBAN in each country of the register (SWIFT, IBAN registry).
IBAN_LENGTHS = {
    "ad": 24, "ae": 23, "al": 28, "at": 20, "az": 28, "ba": 20, "be": 16, "bg": 22, "bh": 22, "bi": 27, "br": 29, "by": 28,
    "ch": 21, "cr": 22, "cy": 28, "cz": 24, "de": 22, "dj": 27, "dk": 18, "do": 28, "ee": 20, "eg": 29, "es": 24, "fi": 18,
    "fk": 18, "fo": 18, "fr": 27, "gb": 22, "ge": 22, "gi": 23, "gl": 18, "gr": 27, "gt": 28, "hn": 28, "hr": 21, "hu": 28,
    "ie": 22, "il": 23, "iq": 23, "is": 26, "it": 27, "jo": 30, "kw": 30, "kz": 20, "lb": 28, "lc": 32, "li": 21, "lt": 20,
    "lu": 20, "lv": 21, "ly": 25, "mc": 27, "md": 24, "me": 22, "mk": 19, "mn": 20, "mr": 27, "mt": 31, "mu": 30, "ni": 28,
    "nl": 18, "no": 15, "om": 23, "pk": 24, "pl": 28, "ps": 29, "pt": 25, "qa": 29, "ro": 24, "rs": 22, "ru": 33, "sa": 24,
    "sc": 31, "sd": 18, "se": 24, "si": 19, "sk": 24, "sm": 27, "so": 23, "st": 25, "sv": 28, "tl": 23, "tn": 24, "tr": 26,
    "ua": 29, "va": 22, "vg": 24, "xk": 20, "ye": 30,
}  # fmt: skip


def iban_holds(iban: str) -> bool:
    """ISO 7064 mod 97-10 over the letters and digits of an IBAN in lower case, without spaces."""
    turned = iban[4:] + iban[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


def is_ssn(area: str, group: str, serial: str) -> bool:
    """Outside the ranges that the Social Security Administration never issues."""
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000"


def is_itin(area: str, group: str) -> bool:
    """The groups of the US individual taxpayer number."""
    number = int(group)
    return area[0] == "9" and (50 <= number <= 65 or 70 <= number <= 88 or 90 <= number <= 92 or 94 <= number <= 99)


# First two digits of employer identification numbers that the Internal Revenue Service has not given out.
_UNUSED_EIN = frozenset(("00", "07", "08", "09", "17", "18", "19", "28", "29", "49", "69", "70", "78", "79", "89", "96", "97"))


def is_ein(prefix: str) -> bool:
    """First two digits of an employer identification number of the US that are in use."""
    return prefix not in _UNUSED_EIN


# ISO 3166-1, two letters, and xk, which banks use for Kosovo.
COUNTRY_CODES = word_list("country_codes")


def nhs_number_holds(digits: str) -> bool:
    """The mod 11 check digit of an NHS number of ten digits."""
    total = sum((10 - place) * int(digit) for place, digit in enumerate(digits[:9]))
    return (11 - total % 11) % 11 == int(digits[9])
