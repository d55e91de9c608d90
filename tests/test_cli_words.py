"""Words around the commands: defaults from a file, how much is told, examples, and completion in shells."""

from __future__ import annotations

import logging
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import trendfold as tf
from trendfold.cli import main, parser, subcommands
from trendfold.cli.shells import SHELLS

COMMANDS = subcommands(parser())
QUERY = "QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 2 s"
EVENTS = "kind,at,user\nA,1,ann\nB,2,ann\nB,3,bob\n"
RUN = ("run", "pairs.tql", "--input", "events.csv")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, whose events need two options to be read."""
    monkeypatch.chdir(tmp_path)
    Path("pairs.tql").write_text(QUERY)
    Path("events.csv").write_text(EVENTS)
    return tmp_path


def set_defaults(text: str, name: str = "trendfold.toml") -> None:
    Path(name).write_text(text)


# ---------------------------------------------------------------- trendfold.toml


def test_options_come_from_the_file_of_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--engine", "local"]) == 2
    assert "no column 'type'" in capsys.readouterr().err
    set_defaults('type-column = "kind"\ntime-column = "at"\n[run]\nengine = "local"\nformat = "json"\n')
    assert main(RUN) == 0
    assert '"count": 2' in capsys.readouterr().out


def test_the_command_line_counts_before_the_file_also_where_options_repeat(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_defaults(
        'type-column = "no"\ntime-column = "at"\n[run]\nengine="local"\nlimit = ["groups=1", "windows=1"]\n'
    )
    assert main([*RUN, "--type-column=kind"]) == 1
    assert "over limits windows=1" in capsys.readouterr().err
    assert main([*RUN, "--type-column", "kind", "--limit", "groups=5"]) == 0


def test_a_table_of_the_command_counts_before_what_is_for_all(folder: Path) -> None:
    set_defaults('type-column = "no"\ntime-column = "at"\n[run]\ntype-column = "kind"\nengine = "local"\n')
    assert main(RUN) == 0
    assert main(["check", "pairs.tql", "--input", "events.csv"]) == 2


def test_config_names_another_file_and_v_tells_of_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_defaults("engine = 5")
    set_defaults('engine = "local"\ntype-column = "kind"\ntime-column = "at"', "other.toml")
    assert main(["--config", "other.toml", *RUN, "-v"]) == 0
    told = capsys.readouterr().err
    assert "defaults of other.toml: --engine=local --type-column=kind --time-column=at" in told
    assert main([*RUN, "--config=none.toml"]) == 2
    assert "there is no file 'none.toml'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("engine = ", "cannot read trendfold.toml"),
        ('engin = "local"', "'engin', and no command has such an option; did you mean 'engine'?"),
        ('[rum]\nengine = "local"', "no such command; did you mean 'run'?"),
        ('[run]\ntrigger = "5 s"', "[run] of trendfold.toml sets 'trigger', which is no option"),
        ("overwrite = 1", "overwrite to 1; write true or false"),
        ("engine = true", "engine to True; write a text, a number, or a list"),
        ('[run]\nengine = "flink"', "invalid choice: 'flink'"),
        ("debug = true", "'debug', and no command has such an option"),
    ],
)
def test_a_default_that_cannot_be_is_an_error_that_says_where(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    set_defaults(text)
    assert main(RUN) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "trendfold.toml" in told


def test_defaults_stay_out_of_commands_that_have_no_such_option(folder: Path) -> None:
    set_defaults('engine = "local"\noverwrite = true\n[stream]\nwatermark = "1 min"\n')
    assert main(["check", "pairs.tql"]) == 0


# ---------------------------------------------------------------- how much is told


def test_q_leaves_out_all_but_results_warnings_and_errors(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("events.csv").write_text(EVENTS + "B,never,bob\n" * 9)
    words = [*RUN, "--engine", "local", "--type-column", "kind", "--time-column", "at"]
    assert main(words) == 0
    loud = capsys.readouterr()
    assert main([*words, "-q"]) == 0
    quiet = capsys.readouterr()
    assert quiet.out == loud.out
    assert "12 events" in loud.err
    assert "12 events" not in quiet.err
    assert "warning: 9 of 12 rows are rejected" in quiet.err
    assert main(["-q", "run", "none.tql", "--input", "events.csv"]) == 2
    assert "error: " in capsys.readouterr().err


def test_v_tells_how_queries_are_computed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "-v", "--engine=local", "--type-column=kind", "--time-column=at"]) == 0
    assert "trendfold.steps: pairs: Vectors(why='" in capsys.readouterr().err
    assert logging.getLogger("trendfold").level == logging.NOTSET


def test_the_library_logs_and_prints_nothing_by_itself(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(Request R, Travel T) WHERE R.price < NEXT(R).price")
    with caplog.at_level(logging.DEBUG, logger="trendfold"):
        result = workload.run(tf.datasets.ridesharing(events=100))
    logged = {(record.levelname, record.message) for record in caplog.records}
    assert ("INFO", str(result.summary).splitlines()[0]) in logged
    assert {level for level, _ in logged} == {"DEBUG", "INFO", "WARNING"}
    caplog.clear()
    workload.run(tf.datasets.ridesharing(events=100))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert all("compiling" in line for line in printed.err.splitlines())
    assert any(isinstance(each, logging.NullHandler) for each in logging.getLogger("trendfold").handlers)


# ---------------------------------------------------------------- help and completion


def test_every_command_shows_examples_that_it_would_accept() -> None:
    for name, command in COMMANDS.items():
        examples = (command.epilog or "").splitlines()
        assert examples[0] == "examples:"
        assert len(examples) > 1
        for example in examples[1:]:
            program, *words = shlex.split(re.sub(r" > \S+$", "", example))
            assert program == "trendfold"
            assert words[0] == name
            assert parser().parse_args(words)


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_names_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert name in script
        for word in command._option_string_actions:
            shown = f"-l {word[2:]}" if shell == "fish" and word.startswith("--") else word
            assert shown in script or word in {
                "--debug",
                "--config",
                "-v",
                "--verbose",
                "-q",
                "--quiet",
                "-h",
            }


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_its_script(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    subprocess.run([shell, "-n", str(script)], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("trendfold ex", "explain"),
        ("trendfold run --arith", "--arithmetic"),
        ("trendfold run --engine l", "local"),
        ("trendfold explain --format ht", "html"),
        ("trendfold stream --watermark 5", ""),
    ],
)
def test_bash_completes(
    words: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    state = f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}"
    done = subprocess.run(
        ["bash", "-c", f"source {script}; {state}; _trendfold; echo ${{COMPREPLY[@]}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected
