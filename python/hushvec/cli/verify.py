"""`hushvec verify RECEIPT`: recompute what a receipt promises."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import print_json, receipt_lines
from hushvec.errors import ReceiptError
from hushvec.receipts import DOES_NOT_HOLD, HOLDS, NOT_A_CLAIM, Receipt, verify_receipt

EXIT_CODES = {HOLDS: 0, DOES_NOT_HOLD: 1, NOT_A_CLAIM: 2}
LARGEST_FILE = 1 << 22


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "verify",
        run,
        help="recompute the guarantee of a receipt",
        description=(
            "Recompute the guarantee of a receipt from its parameters.\n\n"
            "exit code 0  holds\n"
            "          1  does not hold: a stated number does not follow from the others\n"
            "          2  not a DP claim (seeded key, float grade), or no readable receipt\n\n"
            "It checks the receipt's numbers. It cannot know whether given values were made that way."
        ),
    )
    parser.add_argument("receipt", help="a receipt file, or - for standard input")


def run(options: argparse.Namespace) -> int:
    try:
        receipt = Receipt.from_json(_read(options.receipt))
    except (ReceiptError, UnicodeDecodeError) as error:
        raise ReceiptError(f"{options.receipt}: {error}") from None
    status, reasons = verify_receipt(receipt)
    if options.json:
        print_json({"status": status, "reasons": list(reasons), "receipt": receipt.to_dict()})
    else:
        print(status)
        for reason in reasons:
            print(f"  {reason}")
        print()
        print(receipt_lines(receipt))
    return EXIT_CODES[status]


def _read(name: str) -> str:
    if name == "-":
        content = sys.stdin.buffer.read(LARGEST_FILE + 1)
    else:
        with Path(name).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ReceiptError(f"receipt must have at most {LARGEST_FILE} bytes")
    return content.decode("utf-8")
