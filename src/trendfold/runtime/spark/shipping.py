"""Compiled kernels travel with a job: executors on other machines need not compile what the driver has.

driver      ship_compiled(spark)    once per session: an archive of the driver's compiled kernels
executor    adopt_compiled()        once per Python worker, before its first task
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import shutil
import tempfile
from functools import cache
from pathlib import Path

from pyspark import SparkFiles, TaskContext
from pyspark.sql import SparkSession

from trendfold.kernel.compiled_files import compiled, identity, pack, unpack

_LOG = logging.getLogger("trendfold.compiling")
_NAME = "trendfold-compiled-"


@cache
def ship_compiled(spark: SparkSession) -> None:
    """Send the driver's compiled kernels to all executors, unless they run on the driver's machine."""
    if _is_local(spark) or not (kernels := [name for name, _ in compiled()]):
        return
    digest = hashlib.sha256(json.dumps([identity(), kernels]).encode()).hexdigest()[:16]
    # Executors fetch the archive when they first run a task, so it stays until the driver ends.
    folder = tempfile.mkdtemp(prefix=_NAME)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = Path(folder) / f"{_NAME}{digest}.zip"
    pack(archive)
    try:
        spark.addArtifacts(str(archive), file=True)
    except Exception as error:
        # Some services take no files. Executors compile then, and answers are the same.
        _LOG.warning("compiled kernels cannot be sent to the executors, which will compile: %s", error)


def _is_local(spark: SparkSession) -> bool:
    master = spark.conf.get("spark.master", "") or ""
    return master == "local" or master.startswith("local[")


@cache
def adopt_compiled() -> None:
    """Keep the kernels that came with the job, if this machine can run them and lacks them."""
    if TaskContext.get() is None:  # the driver sets stateful operators up in a worker that has no files
        return
    for archive in Path(SparkFiles.getRootDirectory()).glob(f"{_NAME}*.zip"):
        if reason := unpack(archive):
            _LOG.warning("kernels that came with the job are not used, and are compiled here: %s", reason)
