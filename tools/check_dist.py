"""Builds wheel and sdist into dist/, and tries the wheel in empty environments, one per extra: `make dist`.

python tools/check_dist.py [EXTRA ...]     only these extras; `none` is the package alone
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
NEEDED = (
    "trendfold/py.typed",
    "trendfold/query/grammar.lark",
    "trendfold/demo.tql",
    "trendfold/report/report.js",
)
"""Files besides Python that the package does not work without."""

TRY = """
import sys, warnings
warnings.simplefilter("ignore")
import trendfold as tf
from importlib import resources
import pyarrow as pa

assert "site-packages" in tf.__file__, tf.__file__
assert tf.__version__ == sys.argv[1], tf.__version__
for name in ("py.typed", "query/grammar.lark", "demo.tql"):
    assert resources.files("trendfold").joinpath(name).is_file(), name
events = pa.table({"type": ["A", "B", "B"], "ts": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
result = tf.parse("RETURN COUNT(*), AVG(B.x) PATTERN SEQ(A, B+)").run(events)
assert result["q1"]["count"].to_pylist() == [3.0], result["q1"]
extra = sys.argv[2]
if extra in ("pandas", "spark", "connect"):
    assert len(tf.parse("RETURN COUNT(*) PATTERN A").run(events.to_pandas()).to_pandas()["q1"]) == 1
if extra == "polars":
    import polars
    assert tf.parse("RETURN COUNT(*) PATTERN A").run(polars.from_arrow(events)).to_polars()["q1"].height == 1
if extra in ("report", "console"):
    result.report("page.html")
    assert "<html" in open("page.html", encoding="utf-8").read()
if extra == "console":
    import trendfold.console.served
if extra in ("spark", "connect"):
    import trendfold.runtime.spark.engine, trendfold.runtime.spark.stream
if extra == "connect":
    import pyspark.sql.connect.session
if extra == "none":
    for name in ("pyspark", "pandas", "polars", "altair", "nicegui"):
        try:
            __import__(name)
        except ModuleNotFoundError:
            continue
        raise SystemExit(f"{name} is there although nothing asks for it")
"""


def run(*command: str | Path, **options: object) -> str:
    """Run a command, and return what it prints; its errors are shown."""
    return subprocess.run(
        [*map(str, command)], check=True, stdout=subprocess.PIPE, text=True, **options
    ).stdout  # type: ignore[call-overload]


def build() -> tuple[Path, Path]:
    """The wheel and the sdist, and that a wheel made from the sdist has the same files."""
    for old in DIST.glob("trendfold-*"):
        old.unlink()
    run(sys.executable, "-m", "hatchling", "build", "-d", DIST, cwd=ROOT)
    [wheel], [sdist] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = set(NEEDED) - names
    assert not missing, f"the wheel lacks {sorted(missing)}"
    with tempfile.TemporaryDirectory() as folder:
        pip = sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel"
        run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sdist)
        [again] = Path(folder).glob("*.whl")
        assert set(zipfile.ZipFile(again).namelist()) == names, "the wheel of the sdist has other files"
    say(f"{wheel.name} and {sdist.name}: {len(names)} files, the same from the sdist")
    return wheel, sdist


def constraints(folder: Path) -> Path:
    """The locked versions without their hashes, which pip would demand of the wheel too."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    path = folder / "constraints.txt"
    path.write_text("\n".join(re.findall(r"^[\w.-]+==\S+", lock, re.MULTILINE)) + "\n", encoding="utf-8")
    return path


def check(wheel: Path, extra: str, version: str) -> None:
    """Install into an empty environment and use it from an empty folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "venv", folder / "env")
        python = folder / "env" / "bin" / "python"
        asked = str(wheel) if extra == "none" else f"{wheel}[{extra}]"
        run(
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
            "install",
            "-c",
            constraints(folder),
            asked,
        )
        run(python, "-m", "pip", "--disable-pip-version-check", "check")
        here = folder / "empty"
        here.mkdir()
        # Plain Python: three rows take longer to compile for than to answer.
        environment = {"PATH": "/usr/bin:/bin", "HOME": name, "NUMBA_DISABLE_JIT": "1"}
        run(python, "-c", TRY, version, extra, cwd=here, env=environment)
        (here / "q.tql").write_text("RETURN COUNT(*) PATTERN SEQ(A, B+)", encoding="utf-8")
        (here / "e.csv").write_text("type,ts\nA,1\nB,2\nB,3\n", encoding="utf-8")
        command = folder / "env" / "bin" / "trendfold"
        assert version in run(command, "--version", cwd=here, env=environment)
        assert "1 query is fine" in run(command, "check", "q.tql", cwd=here, env=environment)
        words = "run", "q.tql", "--input", "e.csv", "--engine", "local", "--format", "json"
        assert '"count": 3' in run(command, *words, cwd=here, env=environment)
    say(f"trendfold[{extra}]: installed, imported, answered a query, and on the command line")


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ["none", *(name for name in project["optional-dependencies"] if name != "dev")]
    built, _ = build()
    for each in sys.argv[1:] or extras:
        check(built, each, project["version"])
