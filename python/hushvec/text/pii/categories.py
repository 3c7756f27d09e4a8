"""The kinds of personal data: names, placeholders, and accepted short names."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Category:
    """A kind of personal data: its placeholder, and other names for it."""

    name: str
    placeholder: str
    short_names: tuple[str, ...]


CATEGORIES = (
    Category("email address", "[EMAIL]", ("email", "email_address", "mail")),
    Category("phone number", "[PHONE]", ("phone", "phone_number", "telephone")),
    Category("social security number", "[SSN]", ("ssn", "us_ssn")),
    Category("tax number", "[TAX_ID]", ("tax_id", "itin", "us_itin", "ein", "us_ein")),
    Category("card number", "[CARD]", ("card", "credit_card", "credit card")),
    Category("bank account number", "[IBAN]", ("iban", "iban_code")),
    Category("bank code", "[BIC]", ("bic", "swift", "swift_bic")),
    Category("account number", "[ACCOUNT]", ("account",)),
    Category("wallet address", "[WALLET]", ("wallet", "crypto", "crypto_wallet")),
    Category("reference number", "[REFERENCE]", ("reference", "order_number", "employee_id", "student_id", "case_number")),
    Category("medical record number", "[MRN]", ("mrn", "medical_record")),
    Category("identity document number", "[ID]", ("id", "passport", "driver_license", "us_driver_license", "us_passport")),
    Category("credential", "[CREDENTIAL]", ("credentials", "secret", "password", "api_key")),
    Category("social handle", "[HANDLE]", ("handle", "social_handle", "username")),
    Category("web address", "[URL]", ("url", "domain", "domain_name")),
    Category("ip address", "[IP]", ("ip", "ip_address")),
    Category("hardware address", "[MAC]", ("mac", "mac_address")),
    Category("full person name", "[PERSON]", ("person", "name", "per")),
    Category("title", "[TITLE]", ()),
    Category("relationship", "[RELATIONSHIP]", ("relationship_detail", "marital_status")),
    Category("organization", "[ORG]", ("org", "organisation")),
    Category("street address", "[ADDRESS]", ("address", "street_address")),
    Category("postal code", "[ZIP]", ("zip", "zip_code", "postcode")),
    Category("location", "[LOCATION]", ("place", "gpe", "loc")),
    Category("date", "[DATE]", ("date_time", "dob")),
    Category("age", "[AGE]", ()),
    Category("nationality", "[NATIONALITY]", ("nrp",)),
    Category("amount of money", "[AMOUNT]", ("amount", "money")),
)

_BY_NAME = {name: category for category in CATEGORIES for name in (category.name, *category.short_names)}

PLACEHOLDER = re.compile(r"\[[A-Z][A-Z0-9_]{0,62}\]")
_NAME = re.compile(r"[^\W\d_][\w -]{0,47}")


def canonical(name: str) -> str:
    """The name of a category that may be written short, with underscores or in capitals; other names in lower case."""
    plain = " ".join(name.lower().split())
    written = (plain, plain.replace("_", " "), plain.replace("-", " "), plain.replace(" ", "_"))
    found = next((_BY_NAME[name] for name in written if name in _BY_NAME), None)
    return found.name if found else plain


def is_known(name: str) -> bool:
    return canonical(name) in _BY_NAME


def default_placeholder(category: str) -> str:
    """`[EMAIL]` for "email address"; `[STAFF_NUMBER]` for a category of the caller's own, "staff number"."""
    known = _BY_NAME.get(category)
    if known is not None:
        return known.placeholder
    letters = "".join(character if character.isascii() and character.isalnum() else "_" for character in category.upper())
    return f"[{letters if letters[0].isalpha() else 'X_' + letters}]"


def require_category_name(argument: str, name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{argument} must name categories by strings, got {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{argument}: a category must be 1 to 48 letters, digits, spaces, '_' or '-', got {name!r:.80}")
    return canonical(name)


def short_names() -> list[str]:
    return list(_BY_NAME)
