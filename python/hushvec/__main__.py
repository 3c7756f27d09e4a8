"""`python -m hushvec` is the command `hushvec`."""

from hushvec.cli import main

raise SystemExit(main())
