"""Writes docs/reference.md, docs/command-line.md and docs/api.md from the code: `make reference`.

Words, units, functions, limits, options and names are read from the package and its grammar. What they mean is said here,
once; a word of the grammar without a meaning here, or a meaning without a word, is an error.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import groupby
from pathlib import Path

import trendfold as tf
from trendfold.cli import parser as command_parser
from trendfold.query import columns
from trendfold.query.builder import FUNCTION_HINTS, FUNCTIONS, SEMANTICS, TAKES
from trendfold.query.names import RESERVED
from trendfold.query.split import UNITS_US
from trendfold.runtime.limits import Limits

DOCS = Path(__file__).parents[1] / "docs"
GRAMMAR = (DOCS.parent / "src" / "trendfold" / "query" / "grammar.lark").read_text(encoding="utf-8")
WRITTEN = "<!-- written by `make reference` from the code; change tools/reference.py instead -->\n\n"

CLAUSES = {
    "return_clause": ("aggregates and grouping attributes, or MATCHES; AGG is another word for it", "RETURN city, COUNT(*) AS n, AVG(T.speed) PATTERN T+ GROUP BY city"),
    "pattern_clause": ("which events, in which order", "RETURN COUNT(*) PATTERN SEQ(A, B+, NOT C, D)"),
    "semantics_clause": ("which events may lie between two events of a trend; without it, any", "RETURN COUNT(*) PATTERN SEQ(A, B) SEMANTICS next"),
    "where_clause": ("conditions, joined by AND", "RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE [user] AND B.x > 1"),
    "group_clause": ("a row for each value of these attributes", "RETURN COUNT(*) PATTERN SEQ(A, B+) GROUP BY city"),
    "having_clause": ("which rows to keep", "RETURN COUNT(*) AS n PATTERN SEQ(A, B) HAVING n > 10"),
    "within_clause": ("the length of windows; without it, all events are one window", "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 h SLIDE 5 min"),
    "slide_clause": ("how far apart windows begin; without it, one window ends at each event", "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1000 events SLIDE 100 events"),
    "every_clause": ("WITHIN bounds the time from a trend's first event to its last; a trend counts once, in the period of this length that holds its last event", "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 h EVERY 1 d"),
    "once_clause": ("the same, in one row for all events", "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 h ONCE"),
    "limit_clause": ("of RETURN MATCHES: stop after so many", "RETURN MATCHES PATTERN SEQ(A, B) WITHIN 1 h LIMIT 100"),
    "include_clause": ("windows and groups without trends have rows too", "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 h SLIDE 1 h INCLUDE EMPTY"),
}  # fmt: skip

PATTERNS = {
    "event": ("`A`, `A a`", "one event of type A; `a` names it for the other clauses"),
    "any_type": ("`ANY a`", "one event of any type"),
    "any_of": ("`ANY(A, B) a`", "one event of one of these types"),
    "sequence": ("`SEQ(P, Q)`", "P, and later Q"),
    "plus": ("`P+`", "P, once or more"),
    "star": ("`P*`", "P, any number of times"),
    "maybe": ("`P?`", "P, or nothing"),
    "exactly": ("`P{3}`", "P, three times"),
    "times": ("`P{2,5}`, `P{2,}`", "P, two to five times; at least twice"),
    "either": ("`P \\| Q`, `OR(P, Q)`", "one of them"),
    "both": ("`P & Q`, `AND(P, Q)`", "a trend of each; outermost, or in a SEQ of RETURN MATCHES"),
    "negated": ("`NOT P`, `!P`", "no P here"),
}

SEMANTICS_MEAN = {
    "skip-till-any-match": "any event may lie between two events of a trend: every way to choose events counts",
    "skip-till-next-match": "only events that do not fit: an event that can follow is not skipped",
    "contiguous": "nothing: the next event of the partition must fit",
}

CONDITIONS = {
    "compare": ("`A.x < 5`", "comparisons: `=`, `!=` or `<>`, `<`, `<=`, `>`, `>=`; nothing compares with null"),
    "chain": ("`A.x = B.x = C.x`", "short for comparisons joined by AND"),
    "is_null": ("`A.x IS NULL`, `A.x IS NOT NULL`", "whether there is a value"),
    "in_": ("`A.x IN (1, 2)`, `A.x NOT IN (1, 2)`", "one of several values"),
    "between": ("`A.x BETWEEN 1 AND 5`, `NOT BETWEEN`", "both ends included"),
    "like": ("`A.x LIKE 'W\\_%'`, `NOT LIKE`", "`%` is any text, `_` one character, `\\` makes either ordinary"),
    "equivalence": ("`[user, city]`", "all events of a trend have the same values, none of them null"),
    "binary": ("`A.x + 2 * B.y`, `A.x % 7`", "arithmetic: `+ - * / %`; x / 0 is null"),
    "minus": ("`-A.x`", "the negative"),
    "not_": ("`NOT (A.x > 5)`", "three-valued, as in SQL: NOT of unknown is unknown, which is not true"),
    "next_attribute": ("`NEXT(B).x`", "of the event directly after, in the trend: `A.x < NEXT(B).x`"),
    "attribute": ("`A.x`", "an attribute of the events at A"),
    "number": ("`5`, `0.5`, `1e6`", "a number"),
    "string": ("`'Paris'`, `'it''s'`", "a text"),
    "duration": ("`10 min`", "a duration"),
    "timestamp": ("`TIMESTAMP '2024-01-31 12:00:00'`", "a time, in UTC if it has no offset"),
    "true": ("`TRUE`", "true"),
    "false": ("`FALSE`", "false"),
    "null": ("`NULL`", "no value"),
}  # fmt: skip

FUNCTIONS_MEAN = {
    "COUNT": "the number of trends, of events at an alias over all trends, or of values of partitions with a trend",
    "SUM": "the sum over all those events, or over all trends",
    "MIN": "the least",
    "MAX": "the greatest",
    "AVG": "the mean",
    "LOG2": "the logarithm of a count, for counts beyond the range of doubles",
    "ABS": "without its sign; in conditions",
    "TIME": "when the event at an alias, or the one directly after it, happened; in conditions",
}

RETURNED = ["COUNT(*)", "COUNT(T)", "COUNT(DISTINCT user)", "SUM(T.x)", "AVG(DURATION)", "MAX(LENGTH)", "LOG2(COUNT(*))", "city"]  # fmt: skip


def agree(what: str, told: Iterable[str], there: Iterable[str]) -> None:
    """Fail if the grammar and this file do not have the same words."""
    if different := set(told) ^ set(there):
        raise SystemExit(f"tools/reference.py and the code differ in {what}: {sorted(different)}")


# ---------------------------------------------------------------- the grammar


def part_of_grammar(begin: str, end: str) -> str:
    """The rules between two rulers."""
    return GRAMMAR.split(begin)[1].split(end)[0]


def named_alternatives(part: str) -> set[str]:
    """What `-> name` calls the alternatives of some rules."""
    return set(re.findall(r"->\s*(\w+)", part))


def rule(name: str) -> str:
    """A rule of the grammar as a person writes it: `RETURN item ("," item)*`."""
    found = re.search(rf"^{name}:(.*(?:\n +\|.*)*)", GRAMMAR, re.MULTILINE)
    assert found is not None, name
    lines = [line.split("//")[0].split("->")[0].strip(" |") for line in found[1].splitlines()]
    return " | ".join(readable(line) for line in lines)


def readable(expansion: str) -> str:
    """An expansion without the marks that only the parser needs."""
    for mark, text in {
        "LPAR": "(",
        "RPAR": ")",
        "LSQB": "[",
        "RSQB": "]",
        "LBRACE": "{",
        "GROUP_BY": "GROUP BY",
        "SEMANTICS_WORD": "word",
    }.items():
        expansion = re.sub(rf"\b{mark}\b", text, expansion)
    expansion = re.sub(r"\b_(?=[A-Za-z])", "", expansion)
    return re.sub(r"\s+", " ", expansion.replace('"', "")).strip()


# ---------------------------------------------------------------- the language reference


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown."""
    names = head.split(" | ")
    lines = [f"| {head} |", "|" + " --- |" * len(names)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def code(text: str) -> str:
    """Code in a cell of a table."""
    return f"`{text.replace('|', chr(92) + '|')}`"


def clauses() -> str:
    """Every clause with its rule and an example, which is parsed."""
    agree("clauses", CLAUSES, re.findall(r"^(\w+_clause):", GRAMMAR, re.MULTILINE))
    for _, example in CLAUSES.values():
        tf.parse(example)
    return table(
        "clause | meaning | example",
        ((code(rule(name)), text, code(example)) for name, (text, example) in CLAUSES.items()),
    )


def patterns() -> str:
    """Every operator of patterns."""
    part = part_of_grammar("- patterns", "- expressions")
    agree("patterns", PATTERNS, named_alternatives(part))
    return table("pattern | meaning", PATTERNS.values())


def semantics() -> str:
    """The semantics, with their short forms."""
    agree("semantics", SEMANTICS_MEAN, (each.value for each in SEMANTICS.values()))
    short = {value.value: word for word, value in SEMANTICS.items() if word != value.value}
    rows = (
        (code(name), code(short[name]) if name in short else "", text)
        for name, text in SEMANTICS_MEAN.items()
    )
    return table("SEMANTICS | short | what may lie between", rows)


def conditions() -> str:
    """Everything a condition consists of."""
    agree("conditions", CONDITIONS, named_alternatives(part_of_grammar("- expressions", "- words and signs")))
    return table("written | meaning", CONDITIONS.values())


def functions() -> str:
    """Functions, what they take and what they give."""
    agree("functions", FUNCTIONS_MEAN, FUNCTIONS)
    return table(
        "function | takes | gives", ((code(name), TAKES[name], FUNCTIONS_MEAN[name]) for name in FUNCTIONS)
    )


def column_names() -> str:
    """What the columns of a result are called, as the package names them."""

    def column(item: str) -> str:
        text = f"RETURN {item} PATTERN T+ WHERE [user] GROUP BY city"
        return columns(tf.parse(text).queries[0])[-1]

    return table("RETURN | column", ((code(item), code(column(item))) for item in RETURNED))


def units() -> str:
    """The units of durations, by length."""
    rows = []
    for size, words in groupby(UNITS_US, UNITS_US.__getitem__):
        rows.append((", ".join(code(word) for word in words), f"{size / 1_000_000:,g} s"))
    return table("unit | length", [*rows, ("`events`, `event`", "a number of events, in WITHIN and SLIDE")])


def limits() -> str:
    """The limits of a run and their defaults."""
    return table("limit | default", ((code(each.name), f"{each.default:,}") for each in fields(Limits)))


def language_reference() -> str:
    """docs/reference.md."""
    rules = GRAMMAR.strip().replace("```", "")
    sections = {
        "Clauses": "RETURN and PATTERN are required; clauses come in any order, each at most once.\n\n" + clauses(),
        "Patterns": patterns(),
        "Semantics": semantics(),
        "Conditions": "WHERE and HAVING; from the outside in: OR, AND, NOT, comparisons, `+ -`, `* / %`.\n\n" + conditions(),
        "Functions": functions() + "\nDURATION is the time from a trend's first event to its last, in seconds; LENGTH its number of events.\n",
        "Columns of the result": "After `window_start` and `window_end`, and the attributes of GROUP BY:\n\n" + column_names()
        + "\n`AS name` gives another name.\n",
        "Units": units(),
        "Parameters": "`:name` stands for a literal or a duration; its value is given beside the text "
        "([guide](language.md#parameters)).\n",
        "Reserved words": "Never bare names, in any case; in double quotes they are names: "
        + ", ".join(code(word) for word in sorted(RESERVED)) + ".\n",
        "Functions of other languages": table(
            "function | here", ((code(name), hint) for name, hint in FUNCTION_HINTS.items())
        ),
        "Limits": limits() + "\n[Limits](limits.md) says what each bounds, and how to change it.\n",
        "Grammar": "`query/grammar.lark`, which the parser reads:\n\n```text\n" + rules + "\n```\n",
    }  # fmt: skip
    begin = (
        "# Language reference\n\n"
        + WRITTEN
        + "Every word of the language, from the grammar and the code that the parser runs. "
        "[The guide](language.md) explains them, with examples and errors.\n\n"
    )
    return begin + "\n".join(f"## {title}\n\n{text}" for title, text in sections.items())


# ---------------------------------------------------------------- the command line


def command_line() -> str:
    """docs/command-line.md."""
    top = command_parser()
    [commands] = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    begin = (
        "# Command line\n\n"
        + WRITTEN
        + "`trendfold COMMAND --help` prints the same. Exit codes: 0 success, 1 failed while running, "
        "2 bad query, option or input, 130 interrupted.\n\n"
    )
    text = f"{begin}## Options of all commands\n\n{options(top)}\n{CONFIGURATION}"
    for name, command in commands.choices.items():
        examples = re.sub(r"^ +", "", (command.epilog or "").removeprefix("examples:\n"), flags=re.MULTILINE)
        text += f"\n## trendfold {name}\n\n{sentence(command.description)}\n\n```sh\n{examples.strip()}\n```\n\n{options(command)}"
    return text


CONFIGURATION = """
## Defaults in a file

`trendfold.toml` in the working folder, or the file of `--config`, holds defaults of options, for all commands or for one. An option on
the command line counts instead, also where it may be repeated.

```toml
time-column = "at"       # of every command that has the option
time-unit = "ms"

[run]                    # of `trendfold run`
engine = "local"
limit = ["groups=1000"]

[stream]
watermark = "10 min"
```

An option that no command has is an error. `-v` prints which file was read and what it set.

## Completion

`trendfold completion bash`, `zsh` or `fish` prints a script for your shell:

```sh
trendfold completion bash > ~/.local/share/bash-completion/completions/trendfold
trendfold completion zsh > "${fpath[1]}/_trendfold"
trendfold completion fish > ~/.config/fish/completions/trendfold.fish
```
"""


def sentence(text: str | None) -> str:
    """A description as a sentence."""
    return f"{(text or '')[:1].upper()}{(text or '')[1:]}."


def options(parser: argparse.ArgumentParser) -> str:
    """The options of a command as a table."""
    return table(
        "option | meaning", (row for action in parser._actions if (row := option(action)) is not None)
    )


def option(action: argparse.Action) -> tuple[str, str] | None:
    """An option, and what it does."""
    if (
        isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
        or action.help == argparse.SUPPRESS
    ):
        return None
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    written = ", ".join(action.option_strings) or str(value)
    if action.option_strings and action.nargs != 0:
        written += f" {value}"
    text = (action.help or "").replace("%%", "%").replace("|", "\\|")
    has_default = action.default not in (None, False, "", argparse.SUPPRESS) and action.default != []
    if has_default and "default" not in text and action.nargs != 0:
        text = f"{text}; default: {action.default}".removeprefix("; ")
    return code(written), text + ("; required" if action.required and action.option_strings else "")


# ---------------------------------------------------------------- names of the package

SECTIONS: dict[str, tuple[str, ...]] = {
    "Queries": ("parse", "read", "query", "funnel", "Workload"),
    "Results": ("trendfold.runtime.result.Result", "trendfold.explain.funnel.Funnel"),
    "Streams": ("trendfold.runtime.spark.stream.Handle",),
    "Patterns in Python": ("event", "events", "any_event", "any_of", "seq", "matches", "same", "next", "time", "col", "jointly"),
    "Aggregates in Python": ("count", "count_distinct", "sum", "mean", "min", "max", "log2", "DURATION", "LENGTH"),
    "Generated data": ("datasets",),
    "Errors": ("TrendfoldError", "QueryError", "InputError", "RejectError", "LimitError", "UnsupportedError"),
    "Testing": ("testing",),
}  # fmt: skip


def api_reference() -> str:
    """docs/api.md: where mkdocstrings puts the docstrings of the public names."""
    public = {*tf.__all__, *tf.NAMED_AS_BUILTINS}
    agree("public names", (name for names in SECTIONS.values() for name in names if "." not in name), public)
    text = "# API\n\n" + WRITTEN + "```python\nimport trendfold as tf\n```\n\n"
    return text + "\n".join(f"## {title}\n\n{''.join(entries(names))}" for title, names in SECTIONS.items())


def entries(names: Iterable[str]) -> Iterator[str]:
    """A directive for each name, under the place where it is defined."""
    for name in names:
        if "." in name:
            yield f"::: {name}\n\n"
            continue
        found = getattr(tf, name)
        if name in ("DURATION", "LENGTH"):
            yield f"::: trendfold.query.in_python.{name}\n{headed(name)}"
        elif hasattr(found, "__path__") or type(found).__name__ == "module":
            yield f"::: {found.__name__}\n    options:\n      show_root_toc_entry: false\n\n"
        else:
            yield f"::: {found.__module__}.{found.__qualname__}\n{headed(name)}"


def headed(name: str) -> str:
    """The name that users write, in place of that of the definition."""
    return f"    options:\n      heading: tf.{name}\n      toc_label: {name}\n\n"


PAGES: dict[str, Callable[[], str]] = {
    "reference.md": language_reference,
    "command-line.md": command_line,
    "api.md": api_reference,
}

if __name__ == "__main__":
    for page, written in PAGES.items():
        (DOCS / page).write_text(written(), encoding="utf-8")
        sys.stdout.write(f"docs/{page}\n")
