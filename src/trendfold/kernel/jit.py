"""The one numba decorator and its flags."""

from __future__ import annotations

import gc
import os
import stat
import tempfile
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import event, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

IS_PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""Whether kernels run as plain Python (`NUMBA_DISABLE_JIT=1`), for debuggers and coverage."""

if IS_PLAIN:  # as in compiled code, whole numbers wrap around and x / 0 is inf
    np.seterr(over="ignore", divide="ignore", invalid="ignore")


def _is_kept() -> bool:
    """Whether numba caches compiled code: beside the source, in the user's cache, or in a temporary folder.

    A container may have a read-only package and no home; numba would then refuse to compile at all.
    """
    has_home = os.path.expanduser("~") != "~" or os.access(os.path.dirname(__file__), os.W_OK)
    if has_home and _can_keep():
        return True
    folder = os.path.join(tempfile.gettempdir(), f"trendfold-{os.getuid()}")
    if not _is_private(folder):
        return False
    os.environ["NUMBA_CACHE_DIR"] = folder  # for workers of Spark, too
    numba.config.reload_config()
    return _can_keep()


def _can_keep() -> bool:
    try:
        numba.njit(cache=True)(_can_keep)
    except RuntimeError:
        return False
    return True


def _is_private(folder: str) -> bool:
    """Make a folder that nobody else can write to, because cached code is executed."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


_compile: Any = partial(numba.njit, cache=IS_PLAIN or _is_kept(), error_model="numpy", nogil=True)


def kernel(function: F) -> F:
    """Compile once, keep on disk. `error_model="numpy"`: a division by zero is inf, not a branch.

    Names that begin with `_` are private to kernels: they skip the CPython wrapper, which is slow to compile.
    """
    return _kernel(function, function.__name__.startswith("_"))


def inner(function: F) -> F:
    """A kernel that only other kernels call, of any module: it skips the CPython wrapper too."""
    return _kernel(function, is_inner=True)


def _kernel(function: F, is_inner: bool) -> F:
    if IS_PLAIN:
        return cast(F, _noted(function))
    compiled = _compile(no_cpython_wrapper=is_inner, no_cfunc_wrapper=True)(function)
    _forget_literals(compiled)
    return cast(F, compiled)


PLAIN: dict[str, int] = {}
"""In plain Python: the number of calls of each kernel, by name."""


def _noted(function: Callable[..., Any]) -> Callable[..., Any]:
    name = f"{function.__module__}.{function.__qualname__}"
    PLAIN[name] = 0

    @wraps(function)
    def run(*args: Any) -> Any:
        PLAIN[name] += 1
        return function(*args)

    return run


def _forget_literals(compiled: Any) -> None:
    """Type literal arguments as int64: numba would compile a version per literal in a call."""
    find = compiled.get_call_template

    def find_plain(args: Any, kws: Any) -> Any:
        return find(tuple(map(types.unliteral, args)), {k: types.unliteral(v) for k, v in kws.items()})

    compiled.get_call_template = find_plain


def inlined(function: F) -> F:
    """Compile into every caller: for the few lines inside the hottest loops."""
    return cast(F, _compile(inline="always")(function))


def phase(function: F) -> F:
    """Compile on its own, but into its caller's code: for parts of a long loop that read many arrays."""
    if IS_PLAIN:
        return function
    compiled = _compile(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    _forget_literals(compiled)
    return cast(F, compiled)


def reassociated(function: F) -> F:
    """Compile with sums in any order, so that a loop over columns becomes vector instructions."""
    return cast(F, _compile(fastmath={"reassoc"})(function))


def _lent(_context, arrays):
    """A tuple of arrays, or of tuples of them, as views that own nothing; the caller keeps the arrays alive.

    numba counts references to every array that a function is handed or takes out of a tuple, with atomic
    instructions, which takes longer than the work that most events need. Views that own nothing are not
    counted.
    """

    def generate(_target, builder, signature, args):
        return _disowned(builder, signature.args[0], args[0])

    return arrays(arrays), generate


def _disowned(builder, kinds, found):
    """The tuple without the owners of its arrays. Every level: what is left counted would be released."""
    for i, kind in enumerate(kinds):
        if isinstance(kind, types.BaseTuple):
            inner = _disowned(builder, kind, builder.extract_value(found, i))
            found = builder.insert_value(found, inner, i)
        elif isinstance(kind, types.Array):
            view = builder.extract_value(found, i)
            for owner in (0, 1):  # the memory, and the Python object it belongs to
                nothing = ir.Constant(view.type.elements[owner], None)
                view = builder.insert_value(view, nothing, owner)
            found = builder.insert_value(found, view, i)
    return found


def vector_step(generate: Any, plain: Callable[..., Any]) -> Any:
    """A step written in LLVM instructions, or its plain Python twin where nothing is compiled."""
    return plain if IS_PLAIN else intrinsic(generate)


def _as_it_is(arrays: Any) -> Any:
    return arrays


lent: Any = vector_step(_lent, _as_it_is)


class _CollectsLater(event.Listener):
    """Pauses the garbage collector while kernels compile: it takes a tenth of that time, and frees little.

    numba compiles under a lock, so one thread at a time is here.
    """

    def __init__(self) -> None:
        self.depth, self.was_on = 0, False

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.was_on = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0 and self.was_on:
            gc.enable()


event.register("numba:compile", _CollectsLater())


def watch_compiling(tell: Callable[[int], None]) -> None:
    """Call `tell` when a kernel that is not on disk begins to compile, with the number compiled before."""
    event.register("numba:compile", _Watcher(tell))


class _Watcher(event.Listener):
    """Counts our own kernels; numba also compiles functions of its own, which are not counted."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self.tell, self.seen = tell, 0

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith(f"{__package__.partition('.')[0]}."):
            self.tell(self.seen)
            self.seen += 1

    def on_end(self, event: Any) -> None:
        pass


def has_compiled(compiled: Any) -> bool:
    """Whether an earlier process has cached the code of a kernel on disk."""
    if IS_PLAIN:
        return True
    folder = compiled._cache.cache_path  # None where nothing is kept
    return folder is not None and any(Path(folder).glob(f"*.{compiled.py_func.__name__}-*.nbi"))
