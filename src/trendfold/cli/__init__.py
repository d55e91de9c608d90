"""The command line: words to a command, and errors to messages and exit codes."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import NamedTuple

from trendfold import __version__, interrupt
from trendfold.cli import arguments, commands
from trendfold.cli.show import located, say
from trendfold.errors import QueryError, TrendfoldError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 success, 1 failed while running, 2 bad query, option or input, 130 interrupted.
    """
    if argv is None:
        interrupt.listen()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # the terminal may not be able to encode names and values
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else argv
    try:
        args = _parser().parse_args(words)
    except SystemExit as done:  # --help, --version, or an option that is wrong
        return int(done.code or 0)
    try:
        args.is_own_process = argv is None
        return _command(args)
    except BaseException as error:
        if interrupt.is_asked() or isinstance(error, KeyboardInterrupt):
            say("interrupted")
            return interrupt.EXIT_CODE
        if args.debug and not isinstance(error, BrokenPipeError):
            raise
        return _say_failure(error, args)


def _command(args: argparse.Namespace) -> int:
    code = args.command(args)
    sys.stdout.flush()
    if interrupt.is_asked():  # some library swallowed the interrupt
        raise KeyboardInterrupt
    return int(code or 0)


def _say_failure(error: BaseException, args: argparse.Namespace) -> int:
    """Print what went wrong, and return the exit code."""
    match error:
        case BrokenPipeError():
            # The reader of the output is gone. Python flushes again at exit: send that to nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        case QueryError():
            say(located(error, getattr(args, "queries", None)))
            return error.exit_code
        case TrendfoldError():
            say(f"error: {error}")
            return error.exit_code
        case _ if _is_out_of_memory(error):
            say("error: out of memory; take fewer events or queries at a time")
            return 1
        case Exception():
            told = f"{type(error).__name__}: {error}".partition("\n")[0]
            say(f"error: {told} (unexpected: run again with --debug and report the traceback)")
            return 1
    raise error


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, possibly while loading a library."""
    is_unloadable = isinstance(error, ImportError) and "failed to map segment" in str(error)
    return isinstance(error, MemoryError) or is_unloadable or getattr(error, "errno", None) == errno.ENOMEM


class _Described(NamedTuple):
    """A command: what it does, its options, and the function that runs it."""

    text: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


_COMMANDS = {
    "run": _Described("answer the queries of a file over events", arguments.add_run, commands.run),
    "stream": _Described(
        "answer the queries of a file over a stream, window by window", arguments.add_stream, commands.stream
    ),
    "check": _Described(
        "report every error of a query file, with line, column and caret", arguments.add_check, commands.check
    ),
    "explain": _Described("show how each query would be computed", arguments.add_explain, commands.explain),
    "why": _Described(
        "tell why a query has no rows, or fewer than expected", arguments.add_why, commands.why
    ),
    "funnel": _Described(
        "count how many keys got through each of several steps", arguments.add_funnel, commands.funnel
    ),
    "generate": _Described(
        "write a seeded stream of synthetic events", arguments.add_generate, commands.generate
    ),
    "bench": _Described(
        "run benchmarks side by side; fails if a promised figure is missed",
        arguments.add_bench,
        commands.bench,
    ),
    "console": _Described(
        "open a page on this machine to look at data, write queries and see results",
        arguments.add_console,
        commands.console,
    ),
    "demo": _Described(
        "queries over generated rides, and a report with pictures", arguments.add_demo, commands.demo
    ),
}


def _parser() -> argparse.ArgumentParser:
    parser = arguments.StrictParser(
        prog="trendfold", description="Aggregates event trends without building them."
    )
    parser.add_argument("--version", action="version", version=f"trendfold {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    added = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (text, add_options, run) in _COMMANDS.items():
        own = added.add_parser(name, help=text, description=text)
        own.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        own.set_defaults(command=run)
        add_options(own)
    return parser
