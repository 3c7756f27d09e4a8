"""`python -m hushvec.data`: the records that ship, one object per line."""

import sys

from hushvec._util.lines import SHIPPED_RECORDS, shipped_texts

sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
for line in shipped_texts(SHIPPED_RECORDS):
    print(line)
