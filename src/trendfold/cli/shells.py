"""Scripts that complete commands, options and their values in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping

Commands = Mapping[str, argparse.ArgumentParser]


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    yield from (
        action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS
    )


def _words(parser: argparse.ArgumentParser) -> str:
    return " ".join(word for action in _options(parser) for word in action.option_strings)


def _choices(action: argparse.Action) -> str:
    return " ".join(str(choice) for choice in action.choices or ())


def _text(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%").replace("'", "")


def bash(commands: Commands) -> str:
    """A script for bash; positions and values without choices are files."""
    cases = []
    for name, parser in commands.items():
        values = "".join(
            f"\n        {'|'.join(action.option_strings)}) "
            f'COMPREPLY=($(compgen -W "{_choices(action)}" -- "$now")); return ;;'
            for action in _options(parser)
            if action.choices
        )
        cases.append(
            f'    {name})\n      options="{_words(parser)}"\n      case $before in{values}\n      esac ;;'
        )
    return f"""\
_trendfold() {{
  local now=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} options=""
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version --config" -- "$now"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{chr(10).join(cases)}
  esac
  if [[ $now == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$now"))
  fi
}}
complete -o default -F _trendfold trendfold
"""


def zsh(commands: Commands) -> str:
    """A script for zsh, to be a file `_trendfold` of its function path, or to be sourced."""
    named = "\n".join(f"    '{name}:{parser.description}'" for name, parser in commands.items())
    cases = "\n".join(
        f"    {name}) _arguments {' '.join(map(_zsh_option, _options(parser)))} '*:file:_files' ;;"
        for name, parser in commands.items()
    )
    return f"""\
#compdef trendfold
_trendfold() {{
  local -a commands
  commands=(
{named}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT -= 1 ))
  case $command in
{cases}
  esac
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _trendfold "$@"; else compdef _trendfold trendfold; fi
"""


def _zsh_option(action: argparse.Action) -> str:
    text = _text(action).replace("[", "(").replace("]", ")").replace(":", ",")
    value = "" if action.nargs == 0 else f":value:({_choices(action)})" if action.choices else ":value:_files"
    return " ".join(f"'*{word}[{text}]{value}'" for word in action.option_strings)


def fish(commands: Commands) -> str:
    """A script for fish."""
    lines = [
        f"complete -c trendfold -n __fish_use_subcommand -xa {name} -d '{parser.description}'"
        for name, parser in commands.items()
    ]
    for name, parser in commands.items():
        seen = f"complete -c trendfold -n '__fish_seen_subcommand_from {name}'"
        for action in _options(parser):
            words = " ".join(
                f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
                for word in action.option_strings
            )
            value = "" if action.nargs == 0 else f" -xa '{_choices(action)}'" if action.choices else " -r"
            lines.append(f"{seen} {words}{value} -d '{_text(action)}'")
    return "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[Commands], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
