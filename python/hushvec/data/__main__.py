"""`python -m hushvec.data`: the records that ship, one object per line."""

import sys

from hushvec._util.lines import SHIPPED_RECORDS, shipped_texts


def main() -> None:
    sys.stdout.buffer.writelines(f"{line}\n".encode() for line in shipped_texts(SHIPPED_RECORDS))


if __name__ == "__main__":
    main()
