"""The guides name every option of the commands that they are about, and every argument of the functions."""

import inspect
import re

import pytest

from cli.command import hushvec_here
from docs.blocks import text_of
from hushvec import privatize
from hushvec.text import Redactor, Rewriter, redact, rewrite

COMMANDS = {
    ("rewrite",): "docs/rewriting.md",
    ("redact",): "docs/redaction.md",
    ("retrieve", "build"): "docs/retrieval.md",
}
FUNCTIONS = {
    privatize: "docs/mechanisms.md",
    redact: "docs/redaction.md",
    Redactor: "docs/redaction.md",
    rewrite: "docs/rewriting.md",
    Rewriter: "docs/rewriting.md",
}
# Options that all commands have, and other names of options (`-o` is in the examples).
COMMON = {"--help", "--json", "--output", "--clip", "--seed", "--rounds"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_option_is_in_the_guide(command):
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", hushvec_here(*command, "--help").out)) - COMMON
    assert len(options) > 10
    assert options - set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text_of(COMMANDS[command]))) == set()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_argument_is_in_the_guide(function):
    arguments = set(inspect.signature(function).parameters) - {"text"}
    assert {argument for argument in arguments if f"`{argument}`" not in text_of(FUNCTIONS[function])} == set()
