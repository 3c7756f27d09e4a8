"""The TAB key, by scripts that shtab makes from `hushvec.cli.whole_parser`."""

import subprocess

import pytest

from hushvec.cli import whole_parser

# What the shell offers for the last of the words.
CASES = [
    (["hushvec", "bud"], {"budget"}),
    (["hushvec", ""], {"demo", "recommend", "verify", "retrieve", "backends"}),
    (["hushvec", "budget", ""], {"create", "show", "verify", "reset", "export"}),
    (["hushvec", "budget", "create", "--on"], {"--on-exhausted"}),
    (["hushvec", "privatize", "--mechanism", "pri"], {"privunit"}),
    (["hushvec", "retrieve", "build", "--store", "fl"], {"flat"}),
    (["hushvec", "sigma", "--eps"], {"--epsilon"}),
]


@pytest.mark.parametrize(("words", "offered"), CASES)
def test_bash(words, offered):
    script = pytest.importorskip("shtab").complete(whole_parser(), shell="bash")
    asks = "_shtab_hushvec; printf '%s\\n' \"${COMPREPLY[@]}\""
    code = f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n{asks}"
    found = subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True)
    assert offered <= set(found.stdout.split())
    if words[-1]:
        assert all(word.startswith(words[-1]) for word in found.stdout.split())
