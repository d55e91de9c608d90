"""What a run that is killed leaves in its folder, and what the next one makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trendfold.runtime import outputs

KILLED = """
import json, os, shutil, signal, sys
from pathlib import Path
from trendfold.runtime import outputs
from trendfold.runtime.outputs import claimed, write_together
from trendfold.runtime.ownership import Owner

def write(text, *names):
    owner = Owner("run", text, "g.tql", ("q",), names)
    with claimed("out", owner) as claim:
        write_together([(claim, {name: lambda file: file.write(text.encode()) for name in names})])

def mortal(function):
    def call(*args, **kwargs):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call

def held():
    return {path.name: path.read_text() for path in Path("out").iterdir() if path.suffix != ".json"}

for fatal in range(1, 1000):
    shutil.rmtree("out", ignore_errors=True)
    write("old", "a", "b", "c")
    child = os.fork()
    if child == 0:
        left = fatal
        for name in ("replace", "fsync", "open", "close"):
            setattr(os, name, mortal(getattr(os, name)))
        for name in ("open", "unlink"):
            setattr(Path, name, mortal(getattr(Path, name)))
        write("new", "b", "c", "d")
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    after = held()
    with claimed("out", Owner("run", "", "g.tql", ("q",))) as claim:
        pass
    recovered = held()
    write("last", "c")
    print(json.dumps([after, recovered, list(claim.earlier), held()]))
    if not os.WIFSIGNALED(ended):
        break
"""
OLD = {"a": "old", "b": "old", "c": "old"}
NEW = {"b": "new", "c": "new", "d": "new"}


def test_a_run_that_is_killed_at_any_step_is_finished_or_undone_by_the_next(tmp_path: Path) -> None:
    """Each rename, open, close, sync and unlink is the last one in turn."""
    command = [sys.executable, "-c", KILLED]
    source = str(Path(outputs.__file__).parents[2])
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(steps) > 30
    for after, recovered, files, last in steps:
        data = {name: text for name, text in after.items() if not name.startswith((".", "_"))}
        assert set(data.values()) <= {"old", "new"}  # each file is whole
        assert recovered in (OLD, NEW)
        assert files == sorted(recovered)
        assert last == {"c": "last"}
    assert steps[0][1] == OLD
    assert steps[-1][1] == NEW
    assert any(after not in (OLD, NEW) for after, *_ in steps)


def test_what_cannot_be_finished_is_told(tmp_path: Path) -> None:
    (tmp_path / "_trendfold.json.next").write_text("[]")
    owner = outputs.Owner("run", "1", "g.tql", ("q",), ("a",))
    with (
        pytest.raises(outputs.InputError, match="cannot complete the writes of an earlier run"),
        outputs.claimed(str(tmp_path), owner),
    ):
        pass
