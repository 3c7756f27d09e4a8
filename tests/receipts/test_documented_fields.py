"""docs/receipts.md names every field of every kind, and no other."""

import dataclasses
import re
from pathlib import Path

import pytest

from hushvec.receipts import (
    AggregateReceipt,
    AggregateStatistic,
    LabelReceipt,
    Receipt,
    ReportReceipt,
    SelectionReceipt,
    TrainingReceipt,
)
from hushvec.receipts.base import LedgerEntry, rules_of

PAGE = (Path(__file__).parents[2] / "docs" / "receipts.md").read_text(encoding="utf-8")
KINDS = [Receipt, LabelReceipt, ReportReceipt, SelectionReceipt, TrainingReceipt, AggregateReceipt, AggregateStatistic]


@pytest.mark.parametrize("kind", [*KINDS, LedgerEntry])
def test_every_field_is_documented_and_has_a_rule(kind):
    names = [field.name for field in dataclasses.fields(kind)]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
    assert list(rules_of(kind)) == names


def test_the_tables_name_no_other_field():
    tables = re.findall(r"\| field \|.*\n\|[-| ]+\n((?:\|.*\n)+)", PAGE)
    named = {name for table in tables for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert len(tables) == len(KINDS)
    assert named <= {field.name for kind in KINDS for field in dataclasses.fields(kind)}
