"""The command line: words to a command, and errors to messages and exit codes."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from typing import NamedTuple

from trendfold import __version__, interrupt
from trendfold.cli import arguments, commands
from trendfold.cli.defaults import with_defaults
from trendfold.cli.show import located, log, log_to_stderr, say
from trendfold.errors import InputError, QueryError, TrendfoldError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 success, 1 failed while running, 2 bad query, option or input, 130 interrupted.
    """
    if argv is None:
        interrupt.listen()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # the terminal may not be able to encode names and values
            stream.reconfigure(errors="backslashreplace")
    top = parser()
    try:
        words, told = with_defaults(sys.argv[1:] if argv is None else argv, subcommands(top))
    except InputError as error:
        say(f"error: {error}")
        return error.exit_code
    try:
        args = top.parse_args(words)
    except SystemExit as done:  # --help, --version, or an option that is wrong
        if done.code and told:
            say(told)
        return int(done.code or 0)
    with log_to_stderr(args.verbose, args.quiet):
        if told:
            log.info(told)
        return _run(args, is_own_process=argv is None)


def _run(args: argparse.Namespace, is_own_process: bool) -> int:
    """Run a command; what it raises becomes a message and an exit code."""
    try:
        args.is_own_process = is_own_process
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
    """A command: what it does, its options, the function that runs it, and examples."""

    text: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: tuple[str, ...]


_COMMANDS = {
    "run": _Described(
        "answer the queries of a file over events",
        arguments.add_run,
        commands.run,
        (
            "trendfold run rides.tql --input rides.parquet",
            "trendfold run rides.tql --input 'logs/*.csv' --time-unit ms --output results --report page.html",
            "trendfold run rides.tql --input rides/ --master 'local[4]' --param \"city='Paris'\"",
        ),
    ),
    "stream": _Described(
        "answer the queries of a file over a stream, window by window",
        arguments.add_stream,
        commands.stream,
        (
            "trendfold stream rides.tql --source parquet:arriving --watermark '10 min' --checkpoint state "
            "--output results",
            "trendfold stream rides.tql --source json:arriving --watermark '1 min' --checkpoint state "
            "--trigger available-now --flush --format json",
        ),
    ),
    "check": _Described(
        "report every error of a query file, with line, column and caret",
        arguments.add_check,
        commands.check,
        ("trendfold check rides.tql", "trendfold check rides.tql --input rides.parquet"),
    ),
    "explain": _Described(
        "show how each query would be computed",
        arguments.add_explain,
        commands.explain,
        (
            "trendfold explain rides.tql",
            "trendfold explain rides.tql --input rides.parquet --analyze",
            "trendfold explain rides.tql --format html",
        ),
    ),
    "why": _Described(
        "tell why a query has no rows, or fewer than expected",
        arguments.add_why,
        commands.why,
        ("trendfold why rides.tql --input rides.parquet --query slow",),
    ),
    "funnel": _Described(
        "count how many keys got through each of several steps",
        arguments.add_funnel,
        commands.funnel,
        (
            "trendfold funnel --steps 'view, cart, pay' --by user --within '7 d' --input clicks.parquet",
            "trendfold funnel --steps 'view, pay p' --where 'p.amount > 10' --by user --within '1 h' "
            "--input clicks.csv --svg funnel.svg",
        ),
    ),
    "generate": _Described(
        "write a seeded stream of synthetic events",
        arguments.add_generate,
        commands.generate,
        (
            "trendfold generate ridesharing --events 20000 --seed 7 --output rides.parquet",
            "trendfold generate stock --types ACME,BOLT --rate 100 --output trades.csv",
        ),
    ),
    "bench": _Described(
        "run benchmarks side by side; fails if a promised figure is missed",
        arguments.add_bench,
        commands.bench,
        ("trendfold bench kernel", "trendfold bench sharing windows --scale 0.1 --repeats 3 --report page"),
    ),
    "console": _Described(
        "open a page on this machine to look at data, write queries and see results",
        arguments.add_console,
        commands.console,
        ("trendfold console", "trendfold console data/ --port 8080 --no-browser"),
    ),
    "warm": _Described(
        "compile ahead what queries need, so that the first one does not: for images and cluster drivers",
        arguments.add_warm,
        commands.warm,
        ("trendfold warm", "trendfold warm --spark --papers"),
    ),
    "demo": _Described(
        "queries over generated rides, and a report with pictures",
        arguments.add_demo,
        commands.demo,
        ("trendfold demo", "trendfold demo --engine local --events 100000 --output here"),
    ),
    "completion": _Described(
        "print a script that completes commands and options in a shell",
        arguments.add_completion,
        commands.completion,
        (
            "trendfold completion bash > ~/.local/share/bash-completion/completions/trendfold",
            "trendfold completion fish > ~/.config/fish/completions/trendfold.fish",
        ),
    ),
}


def parser() -> argparse.ArgumentParser:
    """The parser of the command line, with a parser for every command."""
    top = arguments.StrictParser(
        prog="trendfold", description="Answers pattern questions over events, without building the matches."
    )
    top.add_argument("--version", action="version", version=f"trendfold {__version__}")
    arguments.add_common(top)
    added = top.add_subparsers(metavar="COMMAND", required=True)
    for name, described in _COMMANDS.items():
        own = added.add_parser(
            name,
            help=described.text,
            description=described.text,
            epilog="\n  ".join(["examples:", *described.examples]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        arguments.add_common(own, again=True)
        own.set_defaults(command=described.run, commands=lambda: subcommands(top))
        described.add_options(own)
    return top


def subcommands(top: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command, by name."""
    [added] = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    found: Mapping[str, argparse.ArgumentParser] = added.choices
    return found
