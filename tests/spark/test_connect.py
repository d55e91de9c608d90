"""The same cases through a Spark Connect server, in a process of its own: a client has no JVM beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark.conftest import REMOTE

HERE = Path(__file__).parent


@pytest.mark.xdist_group("connect")
@pytest.mark.parametrize(
    ("module", "which"),
    [
        ("test_agreement.py", "conditions_of_every_kind"),
        pytest.param("test_agreement.py", "test", marks=pytest.mark.slow),
        pytest.param("test_stream.py", "random_workloads and 100", marks=pytest.mark.slow),
        pytest.param("test_stream_identity.py", "delivered or only_stopped", marks=pytest.mark.slow),
    ],
)
@pytest.mark.skipif(REMOTE in os.environ, reason="this is that process")
def test_the_same_cases_through_a_connect_server(module: str, which: str) -> None:
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", which]
    done = subprocess.run(
        [*suite, str(HERE / module)],
        cwd=HERE.parents[1],
        env={**os.environ, REMOTE: "local[2]"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1_800,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
