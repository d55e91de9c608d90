"""Archives of compiled kernels: what is in them, what is taken from them, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ASK = """
import sys
from pathlib import Path
import pyarrow as pa, trendfold as tf
from trendfold.kernel.compiled_files import pack, unpack
from trendfold.kernel.jit import watch_compiling

seen = []
watch_compiling(seen.append)
told = unpack(Path({archive!r})) if {is_unpacked} else ""
events = pa.table({{"type": ["A", "B"], "ts": [1, 2]}})
count = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B+)").run(events, strategy="construct")["q1"]["count"][0]
print(count, len(seen) > 0, pack(Path({archive!r})) if not {is_unpacked} else told)
"""


def ask(folder: Path, archive: Path, is_unpacked: bool) -> list[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    code = ASK.format(archive=str(archive), is_unpacked=is_unpacked)
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return told.stdout.split(maxsplit=2)


@pytest.mark.slow
@pytest.mark.compiled
def test_what_one_process_compiled_another_takes_from_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "kernels.zip"
    count, has_compiled, packed = ask(tmp_path / "one", archive, is_unpacked=False)
    assert (count, has_compiled) == ("1.0", "True")
    with ZipFile(archive) as found:
        assert sum(name.endswith(".nbi") for name in found.namelist()) == int(packed) > 0
    assert ask(tmp_path / "other", archive, is_unpacked=True) == ["1.0", "False"]


@pytest.mark.parametrize("what", ["sources", "python", "numba", "cpu"])
def test_an_archive_from_elsewhere_is_refused(what: str, tmp_path: Path) -> None:
    from trendfold.kernel.compiled_files import identity, unpack

    archive = tmp_path / "kernels.zip"
    with ZipFile(archive, "w") as target:
        target.writestr("identity.json", json.dumps({**identity(), what: "another"}))
        target.writestr("kernel/evil.nbi", b"")
    assert unpack(archive) == f"it was compiled for another {what}"
