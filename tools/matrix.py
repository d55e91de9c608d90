"""Tries a small selection of tests on other versions of Python and PySpark: `make test-matrix`.

    python tools/matrix.py [3.11 3.12 ...]     only these versions of Python

Each pair has an environment of its own under .matrix, with the locked versions of all else. A Python that
is not on this machine is skipped, and said so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".matrix"
PYTHONS = "3.11", "3.12", "3.13"
OLDEST = "4.0.0"
"""The oldest PySpark that the extras allow; the newest is the locked one."""
WITHOUT_SPARK = "tests/query/test_parser.py", "tests/testing", "tests/contract/test_regressions.py"
ON_SPARK = "tests/spark/test_row_types.py", "tests/spark/test_walks.py"
THROUGH_CONNECT = ("tests/spark/test_row_types.py",)


def interpreter(version: str) -> str | None:
    """A Python of this version that runs: on the path, of pyenv, or of uv."""
    for candidate in candidates(version):
        asked = [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        try:
            if subprocess.run(asked, capture_output=True, text=True).stdout.strip() == version:
                return candidate
        except OSError:
            continue
    return None


def candidates(version: str) -> Iterator[str]:
    """Where a Python of this version may be."""
    if found := shutil.which(f"python{version}"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))
    if shutil.which("uv"):
        yield subprocess.run(["uv", "python", "find", version], capture_output=True, text=True).stdout.strip()


def locked() -> dict[str, str]:
    """The locked version of every package."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))


def environment(python: str, version: str, spark: str) -> Path:
    """An environment with this package, its tests' needs, and this PySpark."""
    folder = FOLDER / f"python{version}-pyspark{spark}"
    done = folder / ".made"
    if done.exists():
        return folder / "bin" / "python"
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    fixed = locked() | {"pyspark": spark}
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(f"{name}=={number}" for name, number in fixed.items()) + "\n")
    needs = ["pytest", "hypothesis", "pandas", "polars"]
    own = str(folder / "bin" / "python")
    pip = [own, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "-c", str(constraints)]
    subprocess.run([*pip, *needs], check=True)
    subprocess.run([*pip, "-e", f"{ROOT}[spark,connect]"], check=True)
    done.touch()
    return folder / "bin" / "python"


def passes(python: Path, tests: tuple[str, ...], **variables: str) -> bool:
    """Whether tests pass; what fails is shown."""
    command = [str(python), "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    surroundings = {**os.environ, "PYSPARK_PYTHON": str(python), **variables}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=surroundings)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-2000:], sep="\n", flush=True)
    return done.returncode == 0


def main(versions: list[str]) -> int:
    """Print a line per pair; 1 if any of them fails."""
    supported = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    failed = False
    for version in versions:
        assert f"Programming Language :: Python :: {version}" in supported, version
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: skipped, it is not on this machine", flush=True)
            continue
        for spark in (OLDEST, locked()["pyspark"]):
            own = environment(python, version, spark)
            told = {
                "without Spark": passes(own, WITHOUT_SPARK),
                "Spark": passes(own, ON_SPARK),
                "Spark Connect": passes(own, THROUGH_CONNECT, TRENDFOLD_TEST_REMOTE="local[2]"),
            }
            results = ", ".join(f"{what} {'passed' if good else 'FAILED'}" for what, good in told.items())
            print(f"Python {version}, PySpark {spark}: {results}", flush=True)
            failed |= not all(told.values())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(PYTHONS)))
