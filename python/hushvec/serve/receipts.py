"""Receipts on the wire: in the body, and in a header for clients that read no extension fields."""

from __future__ import annotations

import json
from typing import Any

HEADER = "Hushvec-Receipt"


def receipt_headers(receipt: Any) -> dict[str, str]:
    """The receipt as one line of ASCII JSON."""
    return {HEADER: json.dumps(receipt.to_dict(), separators=(",", ":"), ensure_ascii=True)}
