"""Defaults of options, from `trendfold.toml`: they join the words of the command line, which always win."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trendfold.errors import InputError, nearest

FILE = "trendfold.toml"
"""The file that is read if it is in the working folder."""
_OF_THE_PROGRAM = {"--help", "--version", "--config", "--debug", "--verbose", "--quiet"}

Commands = Mapping[str, argparse.ArgumentParser]


def with_defaults(words: Sequence[str], commands: Commands) -> tuple[list[str], str]:
    """The words with the defaults of their command, and a line that says what was added, or nothing.

    Defaults are added as words, so they are checked like words; one for an option that is given is left out.
    """
    path, named = _file(words)
    command = next((word for word in _without_config(words) if word in commands), None)
    if path is None or command is None:
        return list(words), ""
    written = _read(path, named)
    if written is None:
        return list(words), ""
    given = {word.partition("=")[0] for word in words}
    added = [
        word
        for action, value in _of_command(written, command, commands, path)
        if not given & set(action.option_strings)
        for word in _words(action, value, path)
    ]
    at = words.index(command) + 1
    return [
        *words[:at],
        *added,
        *words[at:],
    ], f"defaults of {path}: {' '.join(added) or 'none for this command'}"


def _file(words: Sequence[str]) -> tuple[str | None, bool]:
    """The file to read, and whether --config names it."""
    for word, after in zip(words, [*words[1:], None], strict=False):
        if word == "--config":
            return after, True
        if word.startswith("--config="):
            return word.partition("=")[2], True
    return FILE, False


def _without_config(words: Sequence[str]) -> Iterator[str]:
    yield from (word for before, word in zip(["", *words], words, strict=False) if before != "--config")


def _read(path: str, is_named: bool) -> dict[str, Any] | None:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        if is_named:
            raise InputError(f"there is no file {path!r}, which --config names") from None
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _of_command(
    written: Mapping[str, Any], command: str, commands: Commands, path: str
) -> Iterator[tuple[argparse.Action, Any]]:
    """The options of a command that have a default; those of its own table count first."""
    found: dict[str, Any] = {}
    for key, value in written.items():
        if isinstance(value, dict):
            if key not in commands:
                hint = nearest(key, list(commands)) or f"commands are {', '.join(commands)}"
                raise InputError(f"{path} has a table [{key}], and there is no such command; {hint}")
            for name in value:
                _require_option(name, commands[key], f"[{key}] of {path}")
        elif all(_option(name, parser) is None for name in [key] for parser in commands.values()):
            known = sorted({name for parser in commands.values() for name in _options(parser)})
            raise InputError(f"{path} sets {key!r}, and no command has such an option; {_hint(key, known)}")
        else:
            found[key] = value
    for key, value in (found | written.get(command, {})).items():
        action = _option(key, commands[command])
        if action is not None:
            yield action, value


def _require_option(name: str, parser: argparse.ArgumentParser, where: str) -> None:
    if _option(name, parser) is None:
        raise InputError(f"{where} sets {name!r}, which is no option; {_hint(name, _options(parser))}")


def _hint(name: str, known: Sequence[str]) -> str:
    return nearest(name, known) or f"options are {', '.join(known)}"


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Names of options without their dashes, as they stand in the file."""
    return [
        word[2:]
        for word in parser._option_string_actions
        if word.startswith("--") and word not in _OF_THE_PROGRAM
    ]


def _option(name: str, parser: argparse.ArgumentParser) -> argparse.Action | None:
    return parser._option_string_actions.get(f"--{name}") if name in _options(parser) else None


def _words(action: argparse.Action, value: Any, path: str) -> list[str]:
    option = action.option_strings[0]
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise InputError(f"{path} sets {option[2:]} to {value!r}; write true or false")
        return [option] if value else []
    values = value if isinstance(value, list) else [value]
    if any(isinstance(each, bool | list | dict) for each in values):
        raise InputError(f"{path} sets {option[2:]} to {value!r}; write a text, a number, or a list of them")
    return [f"{option}={each}" for each in values]
