#!/usr/bin/env python3
"""Exit code 0 if an address answers within some seconds: `make demo` asks for the index of PyTorch.

    python scripts/reachable.py https://download.pytorch.org/whl/cpu/
"""

import sys
import urllib.request

SECONDS = 5


def main():
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=SECONDS):
            return 0
    except (OSError, ValueError):
        return 1


if __name__ == "__main__":
    sys.exit(main())
