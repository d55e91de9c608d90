"""Who may import whom: data flows downstream, imports point upstream."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "trendfold"
MODULES = sorted(SOURCE.rglob("*.py"))
ROOMS = (
    "interrupt errors events datasets query automaton plan kernel detect runtime papers explain why "
    "report api testing bench console cli"
).split()
DOORS = {"__init__", "__main__"}
"""The package's own front: may import every room, belongs to none."""

ONLY_IN = {
    "numba": {"kernel", "detect", "bench"},
    "pyspark": {"runtime", "bench"},
    "lark": {"query"},
    "altair": {"report"},
    "vl_convert": {"report"},
    "nicegui": {"console"},
    "prometheus_client": {"runtime"},
    "opentelemetry": {"runtime"},
    "starlette": {"console"},
}
NOT_IN = {"pyarrow": {"query", "automaton", "plan", "kernel"}}

PAPERS_HAVE = {"plan.py", "lower.py", "kernel.py", "run.py"}
"""Every package in papers has these files; everywhere else a file name stands once."""

LOADED_LATE = ["pyspark", "py4j", "pandas", "polars", "numba"]
IMPORT_AND_TELL = """
import json, sys
started = []
sys.addaudithook(lambda event, args: started.append(event) if event in {
    "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"} else None)
import trendfold
print(json.dumps({"modules": list(sys.modules), "started": started}))
"""


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Every import of a module as (top, inner): ("trendfold", "plan") or ("numba", "")."""
    package = ("trendfold", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = list(imported_from(node, package))
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            yield top, rest.partition(".")[0]


def imported_from(node: ast.ImportFrom, package: tuple[str, ...]) -> Iterator[str]:
    """Full names: `from trendfold import plan` and `from .. import plan` both name trendfold.plan."""
    before = package[: len(package) - node.level + 1] if node.level else ()
    module = ".".join((*before, *([node.module] if node.module else [])))
    if module == "trendfold":
        yield from (f"{module}.{alias.name}" for alias in node.names)
    else:
        yield module


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_is_in_a_room(path: Path) -> None:
    assert room_of(path) in {*ROOMS, *DOORS}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_upstream(path: Path) -> None:
    room = room_of(path)
    if room in DOORS:
        return
    for top, inner in imports(path):
        if top == "trendfold" and inner in ROOMS:
            assert ROOMS.index(inner) <= ROOMS.index(room), f"{room} may not import {inner}"


@pytest.mark.parametrize("path", sorted((SOURCE / "papers").rglob("*.py")), ids=name_of)
def test_no_paper_imports_another(path: Path) -> None:
    others = {each.name for each in (SOURCE / "papers").iterdir()} - set(path.relative_to(SOURCE).parts)
    written = path.read_text(encoding="utf-8")
    for other in others:
        assert f"trendfold.papers.{other}" not in written


def test_the_oracle_shares_no_code_with_the_package() -> None:
    for path in (SOURCE / "testing").glob("oracle*.py"):
        written = path.read_text(encoding="utf-8")
        own = re.findall(r"^(?:from|import) trendfold\S*.*$", written, re.MULTILINE)
        assert all(line.startswith("from trendfold.testing") and "oracle_syntax" in line for line in own), own
        assert "import_module" not in written


def test_the_core_names_the_papers_in_one_table_only() -> None:
    core = {path for path in MODULES if room_of(path) in ROOMS[: ROOMS.index("papers")]}
    named = {name_of(path) for path in core if "trendfold.papers" in path.read_text(encoding="utf-8")}
    assert named == {"plan/papers.py"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_library_stays_in_its_rooms(path: Path) -> None:
    room = room_of(path)
    for top, _ in imports(path):
        assert room in ONLY_IN.get(top, {room}), f"{top} belongs to {sorted(ONLY_IN[top])}"
        assert room not in NOT_IN.get(top, set()), f"{top} is not for {room}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_is_evaluated_from_text(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"eval", "exec"}, f"line {node.lineno}"


def test_no_public_class_name_is_defined_twice() -> None:
    names = Counter(
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == set()


def test_no_file_name_stands_in_two_rooms() -> None:
    names = Counter(
        path.name
        for path in MODULES
        if path.name != "__init__.py" and not (room_of(path) == "papers" and path.name in PAPERS_HAVE)
    )
    assert {name for name, count in names.items() if count > 1} == set()


def test_importing_trendfold_loads_no_engine_and_starts_no_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_AND_TELL],
        capture_output=True,
        text=True,
        check=True,
        cwd=SOURCE.parent,
    )
    seen = json.loads(done.stdout)
    assert [name for name in LOADED_LATE if name in seen["modules"]] == []
    assert seen["started"] == []


def test_relative_and_package_imports_are_seen_for_what_they_are() -> None:
    written = ast.parse(
        "from ..plan import cost\nfrom .. import api\nfrom . import nodes\nfrom trendfold import cli"
    )
    found = [
        name
        for node in written.body
        if isinstance(node, ast.ImportFrom)
        for name in imported_from(node, ("trendfold", "query"))
    ]
    assert found == ["trendfold.plan", "trendfold.api", "trendfold.query", "trendfold.cli"]


@pytest.mark.parametrize("word", ["_jvm", ".rdd", "_jsc", "expr(", "selectExpr", ".sql("])
def test_spark_is_asked_only_what_connect_can_answer_and_never_in_text(word: str) -> None:
    for path in (SOURCE / "runtime" / "spark").glob("*.py"):
        assert word not in path.read_text(encoding="utf-8"), path.name
