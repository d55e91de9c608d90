"""Peak memory, and the machine and versions a benchmark ran on."""

from __future__ import annotations

import os
import platform
import resource
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("trendfold", "numpy", "numba", "pyarrow")


def begin_peak() -> int:
    """Reset the peak if the operating system allows it, and return the memory in use now.

    If it does not, later peaks only count beyond the old one, so `peak_bytes` is a lower bound.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return peak_bytes()
    return _status_bytes("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    """The peak memory of the process, or since the peak was reset."""
    peak = _status_bytes("VmHWM")
    if peak is not None:
        return peak
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status_bytes(field: str) -> int | None:
    value = _field("/proc/self/status", field)
    return int(value.removesuffix("kB")) * 1024 if value else None


def _cpu() -> str:
    return _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def _field(path: str, name: str) -> str:
    """The value of the first `name: value` line in a file that only exists on Linux."""
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            pairs = (line.partition(":") for line in lines)
            return next((value.strip() for key, _, value in pairs if key.strip() == name), "")
    except OSError:
        return ""


def versions() -> dict[str, str]:
    """Interpreter, libraries, processor and system."""
    return {
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
        "cpu": f"{_cpu()} ({os.cpu_count()} cores)",
        "system": f"{platform.system()} {platform.machine()}",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
