"""hushvec completion: scripts that the shells themselves run."""

import shutil
import subprocess

import pytest

from cli.command import assert_one_line, hushvec_here

# What the shell offers for the last of the words.
CASES = [
    (["hushvec", "bud"], {"budget"}),
    (["hushvec", ""], {"demo", "recommend", "verify", "retrieve", "completion"}),
    (["hushvec", "budget", ""], {"create", "show", "verify", "reset", "export"}),
    (["hushvec", "budget", "create", "--on"], {"--on-exhausted"}),
    (["hushvec", "privatize", "--mechanism", "pri"], {"privunit"}),
    (["hushvec", "retrieve", "build", "--store", "fl"], {"flat"}),
    (["hushvec", "completion", ""], {"bash", "zsh", "fish"}),
    (["hushvec", "sigma", "--eps"], {"--epsilon"}),
]


def script(shell):
    finished = hushvec_here("completion", shell)
    assert finished.code == 0, finished.err
    return finished.out


def needs(shell):
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed: apt-get install {shell}")


@needs("bash")
@pytest.mark.parametrize(("words", "offered"), CASES)
def test_bash(words, offered):
    asks = "_hushvec; printf '%s\\n' \"${COMPREPLY[@]}\""
    code = f"{script('bash')}\nCOMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n{asks}"
    found = subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True)
    assert found.stderr == ""
    assert offered <= set(found.stdout.split())
    if words[-1]:
        assert all(word.startswith(words[-1]) for word in found.stdout.split())


@needs("bash")
def test_bash_leaves_files_to_the_shell():
    code = f"{script('bash')}\nCOMP_WORDS=(hushvec verify ''); COMP_CWORD=2; _hushvec; echo ${{#COMPREPLY[@]}}"
    assert subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True).stdout == "0\n"
    assert "complete -o bashdefault -o default -F _hushvec hushvec" in script("bash")


@needs("zsh")
@pytest.mark.parametrize(("words", "offered"), CASES)
def test_zsh(words, offered, tmp_path):
    """As bashcompinit runs a completion of bash: in the emulation of sh."""
    loads = f"autoload -U +X compinit && compinit -u\n{script('zsh')}"
    listed = " ".join(repr(word) for word in words)
    asks = "_hushvec; printf '%s\\n' \"${COMPREPLY[@]}\""
    code = f"{loads}\nask() {{ emulate -L sh; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; {asks}; }}; ask"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    found = subprocess.run(["zsh", "-f", "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert found.stderr == ""
    assert offered <= set(found.stdout.split())


@needs("fish")
@pytest.mark.parametrize(("words", "offered"), CASES)
def test_fish(words, offered, tmp_path):
    (tmp_path / "hushvec.fish").write_text(script("fish"))
    code = f"source {tmp_path}/hushvec.fish; complete -C '{' '.join(words)}'"
    found = subprocess.run(["fish", "--no-config", "-c", code], check=True, capture_output=True, text=True)
    assert found.stderr == ""
    assert offered <= {line.split("\t")[0] for line in found.stdout.splitlines()}


def test_bad_input():
    assert_one_line(hushvec_here("completion", "tcsh"), "invalid choice: 'tcsh'")
    assert_one_line(hushvec_here("completion"), "the following arguments are required: SHELL")
    assert '"shell": "fish"' in hushvec_here("completion", "fish", "--json").out
