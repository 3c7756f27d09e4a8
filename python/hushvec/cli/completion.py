"""This installation. `hushvec completion SHELL`: a script for the shell's TAB key, made from the parsers of all commands;
`hushvec backends`: which instruction sets this build has, this machine runs, and are in use, and how keys in memory are protected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import hushvec
from hushvec._native import _core
from hushvec.cli import add_own
from hushvec.cli._map import COMMANDS
from hushvec.cli._output import answered, facts
from hushvec.cli._parser import Command, CommandParser, argument
from hushvec.secure_memory import status

SHELLS = ("bash", "zsh", "fish")


class _Command(NamedTuple):
    """Words that lead to a command, and what may come after them."""

    words: tuple[str, ...]
    next_words: tuple[str, ...]
    options: tuple[str, ...]
    choices: dict[str, tuple[str, ...]]


class Completion(
    Command,
    name="completion",
    examples=(
        ("bash, in ~/.bashrc", "source <(hushvec completion bash)"),
        ("zsh, in ~/.zshrc after compinit", "source <(hushvec completion zsh)"),
        ("fish", "hushvec completion fish > ~/.config/fish/completions/hushvec.fish"),
    ),
):
    """Print a script that lets the TAB key complete commands, options and their values; files where neither fits.
    It is made once and starts no program at the TAB key: after an update of hushvec, make it again."""

    shell: str = argument("bash, zsh or fish", "SHELL", choices=SHELLS)

    def run(self) -> int:
        commands = list(_commands())
        script = _fish(commands) if self.shell == "fish" else _bash(commands)
        if self.shell == "zsh":  # it runs completions of bash
            script = f"autoload -U +X bashcompinit && bashcompinit\n{script}"
        return answered(self, {"shell": self.shell, "script": script}, script.removesuffix("\n"))


def _commands() -> Iterator[_Command]:
    yield _Command((), tuple(COMMANDS), ("--help", "--version"), {})
    for name in COMMANDS:
        subparsers = CommandParser(prog="hushvec").add_subparsers()
        add_own(subparsers, name)
        below: list[tuple[tuple[str, ...], CommandParser]] = [((name,), subparsers.choices[name])]
        for words, parser in below:  # which grows
            choices = parser.choices()
            yield _Command(words, choices.pop("", ()), tuple(parser.option_names()), choices)
            below += [((*words, one), inner) for one, inner in parser.commands().items()]


# No variable is called `words`, `path` or `options`, which zsh has for itself.
_BASH = """\
_hushvec() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} chain='' offered='' flags='' place
  for ((place = 1; place < COMP_CWORD; place++)); do
    case "$chain ${{COMP_WORDS[place]}}" in
      {known}) chain="$chain ${{COMP_WORDS[place]}}" ;;
      *) break ;;
    esac
  done
  case "$chain $previous" in
{values}
  esac
  if [[ -z $offered ]]; then
    case "$chain" in
{commands}
    esac
    [[ $current == -* ]] && offered=$flags
  fi
  COMPREPLY=()
  [[ -n $offered ]] && COMPREPLY=($(compgen -W "$offered" -- "$current"))
}}
complete -o bashdefault -o default -F _hushvec hushvec
"""


def _bash(commands: Sequence[_Command]) -> str:
    return _BASH.format(
        known=" | ".join(_path(command) for command in commands if command.words),
        values="\n".join(
            f"    {_path(command, option)}) offered='{' '.join(values)}' ;;"
            for command in commands
            for option, values in command.choices.items()
        ),
        commands="\n".join(
            f"    {_path(command)}) offered='{' '.join(command.next_words)}' flags='{' '.join(command.options)}' ;;"
            for command in commands
        ),
    )


def _path(command: _Command, *more: str) -> str:
    return "'" + "".join(f" {word}" for word in (*command.words, *more)) + "'"


def _fish(commands: Sequence[_Command]) -> str:
    lines = []
    for command in commands:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.words) or "__fish_use_subcommand"
        first = seen
        if command.words and command.next_words:
            first += f"; and not __fish_seen_subcommand_from {' '.join(command.next_words)}"
        for word in command.next_words:
            about = "" if command.words else " -d '" + COMMANDS[word].replace("'", "\\'") + "'"
            lines.append(f"complete -c hushvec -n '{first}' -f -a {word}{about}\n")
        for option in command.options:
            values = command.choices.get(option)
            taken = f" -x -a '{' '.join(values)}'" if values else ""
            lines.append(f"complete -c hushvec -n '{seen}' -l {option[2:]}{taken}\n")
    return "".join(lines)


class Backends(
    Command,
    name="backends",
    examples=(
        ("what this machine runs", "hushvec backends"),
        ("the same without AVX-512", "HUSHVEC_BACKEND=avx2 hushvec backends"),
    ),
):
    """Show the instruction sets and the AES implementations of this build, and how this system protects keys in memory.
    HUSHVEC_BACKEND and HUSHVEC_AES force one, HUSHVEC_NUM_THREADS sets the threads."""

    def run(self) -> int:
        report = {
            **hushvec.backends(),
            "threads": _core.get_num_threads(),
            "version": hushvec.__version__,
            "format_versions": _core.format_versions,
            "memory": status()["protections"],
        }
        flat = {**report, **{f"{name} {one}": of for name in ("aes", "memory") for one, of in report[name].items()}}
        return answered(self, report, facts([(name, _text(value)) for name, value in flat.items() if name not in ("aes", "memory")]))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
