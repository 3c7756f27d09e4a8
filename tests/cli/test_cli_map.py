"""hushvec as a whole: the map of the commands, help with examples, what was meant, colors, and what a start costs."""

import argparse
import importlib
import io
import os
import re
import shlex
import subprocess
import sys

import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec, hushvec_here
from hushvec.cli import _style, add_own
from hushvec.cli._map import COMMANDS, module_of
from hushvec.cli._parser import CommandParser, number_or_infinity

ESCAPE = "\x1b["


def parser_of(command):
    parser = CommandParser(prog="hushvec")
    add_own(parser.add_subparsers(), command)
    return parser


def leaves(words, parser):
    """(words, parser) of every command that does something itself."""
    inner = parser.commands()
    if not inner:
        return [(words, parser)]
    return [leaf for name, below in inner.items() for leaf in leaves((*words, name), below)]


ALL = [leaf for command in COMMANDS for leaf in leaves((command,), parser_of(command).commands()[command])]


NUMBERS = [
    ((*words, option), action.type)
    for words, parser in ALL
    for action in parser._actions
    for option in action.option_strings[-1:]
    if action.type in (float, number_or_infinity)
]


@pytest.mark.parametrize(("words", "kind"), NUMBERS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_no_option_takes_what_is_not_a_number(words, kind):
    """NaN compares as false with everything: a claim of epsilon nan would hold."""
    values = ["nan", "-nan", "NaN", *(["inf", "-inf", "1e999"] if kind is float else [])]
    for value in values:
        finished = hushvec_here(*words[:-1], f"{words[-1]}={value}")
        assert_one_line(finished, f"{words[-1]}: must be ")
        assert finished.err.endswith(f", got {value}\n")


def test_hushvec_alone_prints_the_map():
    finished = hushvec_here()
    assert (finished.code, finished.err) == (0, "")
    lines = finished.out.splitlines()
    assert lines[0].split()[:2] == ["hushvec", hv.__version__]
    assert lines[-1] == "Next  hushvec demo, or hushvec COMMAND --help for examples and options"
    named = {line.split()[0] for line in lines if re.match(r"  \S", line)}
    assert {*COMMANDS, "study"} <= named
    assert max(map(len, lines)) <= 80
    help_text = hushvec_here("--help").out
    assert help_text.startswith(finished.out) and "NO_COLOR" in help_text


def test_every_module_of_a_command_is_on_the_map():
    from pathlib import Path

    import hushvec.cli

    modules = {path.stem for path in Path(hushvec.cli.__file__).parent.glob("*.py") if not path.stem.startswith("_")}
    assert {module_of(command) for command in COMMANDS} == modules
    for command in COMMANDS:
        importlib.import_module(f"hushvec.cli.{module_of(command)}")


@pytest.mark.parametrize(("words", "parser"), ALL, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_examples_of_help_are_commands(words, parser):
    """Each parses, and at least one is of the command itself."""
    commands = [line.strip() for line in (parser.epilog or "").splitlines() if not line.strip().startswith("#")][1:]
    assert commands
    own = 0
    for line in commands:
        command = shlex.split(line.removeprefix("source <(").removesuffix(")").rpartition(" | ")[2].partition(" > ")[0])
        while "=" in command[0]:
            command.pop(0)
        assert command.pop(0) == "hushvec"
        parser_of(command[0]).parse_args(command)
        own += tuple(command[: len(words)]) == words
    assert own


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_the_terminal(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = hushvec_here(command, "--help").out
    before_examples = text.partition("\nexamples:\n")[0]
    assert "\nexamples:\n" in text
    assert max(map(len, before_examples.splitlines())) <= 80
    assert text.startswith(f"usage: hushvec {command} ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["sgima"], "hushvec: invalid choice: 'sgima', did you mean 'sigma'? (hushvec alone lists the commands)"),
        (["xyzzy"], "hushvec: invalid choice: 'xyzzy' (hushvec alone lists the commands)"),
        (["--verson"], "hushvec: unrecognized arguments: --verson, did you mean '--version'?"),
        (["sigma", "--epsiln", "8"], "hushvec sigma: unrecognized arguments: --epsiln, did you mean '--epsilon'?"),
        (["sigma", "--frobnicate"], "hushvec sigma: unrecognized arguments: --frobnicate"),
        (["budget", "show", "notes"], "hushvec budget show: unrecognized arguments: notes"),
        (["codebook", "x", "-o", "y", "--code=8"], "hushvec codebook: the following arguments are required: --epsilon"),
        (["codebook", "x", "-o", "y", "--cods=8"], "hushvec codebook: unrecognized arguments: --cods=8, did you mean '--codes'?"),
    ],
)
def test_what_was_meant(arguments, text):
    finished = hushvec_here(*arguments)
    assert_one_line(finished)
    assert finished.err == f"{text}\n"


def test_what_was_meant_by_a_choice():
    for arguments, meant in ((["budget", "shw"], "show"), (["audit", "mechanism", "--mechanism", "gausian"], "gaussian")):
        finished = hushvec_here(*arguments)
        assert_one_line(finished, "invalid choice", f", did you mean '{meant}'?")
    assert "did you mean" not in hushvec_here("recommend", "--epsilon", 1, "--task", "zzz").err


def test_short_and_hidden_options_and_values_with_hyphens_are_known():
    """-o; --max-len is short for --max-length; "-- x" is a value, as it has a space."""
    options = parser_of("rewrite").parse_args(["rewrite", "--text", "-- x", "--max-len", "3", "-o", "out", "--eps", "2"])
    assert (options.text, options.max_length, options.epsilon) == ("-- x", 3, 2.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "stream", "colored"),
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"NO_COLOR": ""}, Terminal(), True),
        ({"FORCE_COLOR": "1"}, io.StringIO(), True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, Terminal(), False),
    ],
)
def test_when_colors_are_written(monkeypatch, environment, stream, colored):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert _style.is_colored(stream) is colored
    assert _style.paint("good", "holds", stream) == ("\x1b[38;5;28mholds\x1b[0m" if colored else "holds")


def luminance(color):
    """Relative luminance, WCAG 2, of a color of the 6 x 6 x 6 cube among the 256."""
    levels = [(0, 95, 135, 175, 215, 255)[(color - 16) // step % 6] / 255 for step in (36, 6, 1)]
    linear = [level / 12.92 if level <= 0.03928 else ((level + 0.055) / 1.055) ** 2.4 for level in levels]
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear))


def contrasts(color):
    """On black and on white."""
    return (luminance(color) + 0.05) / 0.05, 1.05 / (luminance(color) + 0.05)


def test_colors_can_be_read_on_black_and_on_white():
    colors = {style: int(code.rpartition("38;5;")[2]) for style, code in _style._CODES.items() if "38;5;" in code}
    assert colors.keys() == _style._CODES.keys() - {"bold", "dim"}
    assert all(16 <= color < 232 and min(contrasts(color)) >= 4 for color in colors.values())
    assert min(contrasts(21)) < 2.5 and min(contrasts(51)) < 1.5  # pure blue, pure cyan


def test_colors_change_nothing_but_colors():
    forced = {"FORCE_COLOR": "1", "NO_COLOR": ""}
    for arguments in ((), ("sigma", "--help"), ("sigma", "--epsilon", "8"), ("sigma", "--epsiln")):
        plain, colored = hushvec(*arguments), hushvec(*arguments, environment=forced)
        assert ESCAPE not in plain.out + plain.err
        assert ESCAPE in colored.out + colored.err
        assert plain.code == colored.code
        assert [re.sub(r"\x1b\[[0-9;]*m", "", text) for text in (colored.out, colored.err)] == [plain.out, plain.err]
    assert ESCAPE not in hushvec("sigma", "--epsilon", "8", "--json", environment=forced).out


def test_a_start_imports_nothing_heavy():
    code = "import sys; from hushvec.cli import main; main(['--version']); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"numpy", "rich", "typer", "torch", "hushvec.mechanisms", "hushvec.cli.demo"} & set(loaded)


@pytest.mark.alone
def test_the_version_is_there_at_once():
    """Processor time beyond the start of Python itself, which is measured in turn with it. Load only adds to a time, so the best
    of the processes so far counts, of at most 25 each."""

    def seconds(*arguments):
        before = os.times()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    pairs = []
    for _ in range(25):
        pairs.append((seconds("-c", "pass"), seconds("-m", "hushvec", "--version")))
        bare, version = (min(column) for column in zip(*pairs, strict=True))
        if len(pairs) >= 3 and version - bare < 0.15:
            return
    pytest.fail(f"Python took {bare:.3f} s to start, hushvec --version {version:.3f} s")


def test_parsers_of_python_314_do_not_color_themselves():
    assert CommandParser(prog="x").color is False
    assert isinstance(CommandParser(prog="x"), argparse.ArgumentParser)
