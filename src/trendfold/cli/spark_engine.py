"""Engine choice for commands, a Spark session while one runs, and Spark's errors in one line."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trendfold import errors, interrupt
from trendfold.cli.show import note, progress
from trendfold.errors import InputError, TrendfoldError

if TYPE_CHECKING:
    from trendfold.events.sources import Files

_GRACE_S = 10.0
"""How long Spark may take to stop after Ctrl-C."""

_MASTER = re.compile(r"local(-cluster)?(\[.*\])?|yarn|(spark|k8s|sc)://.+")


def choose_engine(asked: str | None, master: str | None, events: Files | None = None) -> str:
    """The requested engine; otherwise the one suited to these events, or Spark if they are unknown."""
    from trendfold.runtime import NO_SPARK, engine_for, has_spark

    if master is not None and asked == "local":
        raise InputError("--master is for --engine spark; leave it out")
    if master is not None and not _MASTER.fullmatch(master):
        raise InputError(
            f"unknown master {master!r}; use local[N], spark://HOST:PORT, yarn, k8s://URL or sc://HOST:PORT"
        )
    if asked is not None or master is not None:
        return asked or "spark"
    if not has_spark():
        note(NO_SPARK)
        return "local"
    if events is None:
        return "spark"
    chosen, notices = engine_for(events)
    for notice in notices:
        note(f"{notice} (--engine spark for Spark)")
    return chosen


def is_elsewhere(path: str, master: str | None) -> bool:
    """Whether Spark has to resolve a path, because this process may not see it."""
    return "://" in path or (master or "").startswith("sc://") or "SPARK_REMOTE" in os.environ


@contextmanager
def progress_on(engine: str) -> Iterator[Callable[[str, int, int], None] | None]:
    """A progress display for queries; None on Spark, which shows its stages itself."""
    if engine == "spark":
        yield None
        return
    with progress() as tell:
        yield tell


@contextmanager
def session_for(
    engine: str, master: str | None, debug: bool, settings: Mapping[str, str] | None = None
) -> Iterator[None]:
    """On Spark, a session: an existing one, or a new one that is stopped at the end."""
    if engine != "spark":
        yield
        return
    from trendfold.runtime import runtime

    runtime(engine)  # says what to install if pyspark is missing
    from trendfold.runtime.spark.session import has_session, session

    if not debug:
        _keep_quiet()
    is_ours = not has_session()
    if is_ours:
        note("starting Spark")
    try:
        spark = session(master, settings)
    except Exception as error:
        told = readable(error)
        if told is None:
            raise
        raise TrendfoldError(f"Spark did not start: {told} (--debug shows more)") from error
    try:
        # Not earlier: an exception while Java starts would leave it running; a process exit does not.
        with interrupt.gracefully(_GRACE_S):
            yield
    except Exception as error:
        told = readable(error)
        if told is None:
            raise
        raise told from error
    finally:
        if is_ours:
            with suppress(Exception):  # after a JVM crash there is nothing left to stop
                spark.stop()


def _keep_quiet() -> None:
    """Silence Spark's startup lines and stack traces, which would bury a command's output."""
    settings = Path(__file__).with_name("log4j2.properties")
    if settings.exists() and not {"SPARK_CONF_DIR", "SPARK_HOME", "SPARK_SUBMIT_OPTS"} & set(os.environ):
        os.environ["SPARK_SUBMIT_OPTS"] = f"-Dlog4j2.configurationFile={settings.as_uri()}"
    # Both log what is raised as well; Py4J logs to the root logger.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


# ---------------------------------------------------------------- failures


def readable(error: Exception) -> TrendfoldError | None:
    """An exception of Spark as a short error; None for any other exception."""
    if isinstance(error, ConnectionError):
        return TrendfoldError("Spark's Java process has ended; see its last lines, if any, above")
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    text = str(error)
    if found := re.search(r"^trendfold\.errors\.(\w+): (.*)", text, re.MULTILINE):
        kind = getattr(errors, found[1], TrendfoldError)  # raised by trendfold in a task
        return kind(found[2]) if kind is not errors.QueryError else TrendfoldError(found[2])
    for sign, told in _OUT_OF_MEMORY.items():
        if re.search(sign, text, re.MULTILINE):
            return TrendfoldError(told)
    if "Traceback (most recent call last)" in text:
        return TrendfoldError(f"a Spark task failed: {_end_of_traceback(text)}")
    told = _first_line(text)
    if type(error).__name__ == "AnalysisException":
        return InputError(told)
    return TrendfoldError(told)


_FEWER = "run fewer tasks at once, or on a cluster raise spark.executor.memoryOverhead"
_OUT_OF_MEMORY = {
    r"^(?:[\w.]+\.)?_?\w*MemoryError\b": f"a Spark task ran out of memory; {_FEWER}",
    r"java\.lang\.OutOfMemoryError": (
        "Spark ran out of memory; raise spark.driver.memory, and on a cluster spark.executor.memory"
    ),
    r"Python worker exited unexpectedly": (
        f"a Python worker of Spark died, usually because it ran out of memory; {_FEWER}"
    ),
    r"ExecutorLostFailure.*(?:exceeding memory limits|exit code 137|OOM)": (
        "a Spark executor was killed because it ran out of memory; raise spark.executor.memoryOverhead"
    ),
}
"""Patterns in Spark's messages that mean it ran out of memory, and the message to show."""


def _end_of_traceback(text: str) -> str:
    """The exception below the last frame of a traceback."""
    lines = text.splitlines()
    last = max((i for i, line in enumerate(lines) if line.startswith("  File ")), default=0)
    return next((line.strip() for line in lines[last:] if line and not line[0].isspace()), lines[-1])


_NOISE = re.compile(
    r"^An error occurred while calling [^\n]*\n: "  # Py4J
    r"|^.*most recent failure: [^\n]*?\): "  # the scheduler
    r"|^Job aborted due to stage failure: "
    r"|^(?:[\w$]+\.)+[\w$]+(?:Exception|Error): "  # the class
    r"|^\[[A-Z_.0-9]+\] "  # Spark's name for it
)


def _first_line(text: str) -> str:
    while (cut := _NOISE.sub("", text.strip(), count=1)) != text:
        text = cut
    return re.sub(r" SQLSTATE: \w+$", "", text.partition("\n")[0])
