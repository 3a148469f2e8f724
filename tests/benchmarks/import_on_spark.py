"""A process that imports manifests on an embedded Spark, and reports its cost.

Arguments: home, directory for Spark's own files, URI of a repository, manifests. For each it prints
a line of JSON: wall seconds, processor seconds of this process and its descendants, and the peak
memory of the driver so far, which is the JVM and this process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from lakecli.cli.context import random_id, system_now
from lakecli.pipeline.imports.job import import_objects
from lakecli.pipeline.imports.report import ImportOptions
from lakecli.pipeline.imports.sources import open_source
from lakecli.pipeline.imports.verify import Verify
from lakecli.pipeline.spark_runner import SparkRunner
from lakecli.repository import branch
from lakecli.repository.core.lake import Home, Lake, Runtime
from lakecli.repository.core.walk import LinkPolicy

TICKS = os.sysconf("SC_CLK_TCK")


def processes() -> dict[int, tuple[int, float]]:
    """Return the parent of every process and its processor seconds, including reaped children."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
    return found


def processor_seconds(root: int) -> float:
    """Return the processor seconds of a process and its descendants."""
    known = processes()
    total = 0.0
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        total += known[pid][1]
        waiting += [child for child, (parent, _) in known.items() if parent == pid]
    return total


def resident(pid: int) -> int:
    """Return the peak memory of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError


def main() -> None:
    home, cache, uri, *manifests = sys.argv[1:]
    runtime = Runtime(system_now, random_id, "benchmark")
    paths = Home(Path(home, "store"), Path(home, "cache"))
    with (
        Lake.open(paths, runtime) as lake,
        SparkRunner(master="local[2]", environ=os.environ, cache=Path(cache)) as runner,
    ):
        repository = lake.repository(uri.removeprefix("lakefs://"))
        assert list(runner.run(abs, [1])) == [(1, 1)]  # the session is up
        jvm = runner.session._jvm.java.lang.ProcessHandle.current().pid()
        for number, manifest in enumerate(manifests):
            name = f"spark-{number}"
            branch.create(repository, name, source="main")
            start, before = time.perf_counter(), processor_seconds(os.getpid())
            import_objects(
                repository,
                name,
                b"",
                source=open_source(repository, manifest, links=LinkPolicy.FAIL),
                runner=runner,
                committer="benchmark",
                options=ImportOptions(verify=Verify.NONE),
            )
            told = {
                "seconds": time.perf_counter() - start,
                "cpu": processor_seconds(os.getpid()) - before,
                "memory": resident(jvm) + resident(os.getpid()),
            }
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
