"""Starting Spark: what it is told, what it finds in its environment, and where its talk goes."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakecli.directories import make_private
from lakecli.distribution import install_command
from lakecli.errors import Unreachable, Unsupported, UsageError
from lakecli.pipeline.java import java_settings

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

EMBEDDED: Final = "local[*]"
"""The master where none is named: all cores of this machine, in this process's care."""

ATTEMPTS: Final = 4
"""Times that a part of an embedded Spark is tried; on a cluster ``spark.task.maxFailures`` says."""

_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "WARN",
}
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_GONE: Final = "JAVA_GATEWAY_EXITED"
_UNCAUGHT: Final = re.compile(r'Exception in thread "main" [\w.$]+: (.+)')
_CHATTER: Final = re.compile(
    r"WARNING: |Using Spark's default|\d\d/\d\d/\d\d [\d:]+ (WARN|INFO) |\s+at "
)
_RAISED: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
"""What Python raised on an executor: the line after its traceback."""

_THROWN: Final = re.compile(r"^: [\w.$]+: (.+)$", re.MULTILINE)
"""What Java threw: a line that begins with a colon, behind the name of its class."""


def start_session(
    *,
    master: str,
    conf: Mapping[str, str],
    environ: Mapping[str, str],
    cache: Path | None,
    quick_start: bool,
) -> tuple[Any, bool]:
    """Return a session of Spark and whether it was started here: one that is active is taken.

    Raises:
        Unsupported: pyspark, pandas, pyarrow or Java is missing.
        Unreachable: no Spark answers.
        UsageError: Spark refuses the master or a setting.
    """
    try:
        import pandas as pd  # noqa: F401 - Spark asks for both only when it needs them
        import pyarrow as pa  # noqa: F401
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise Unsupported(
            f"Spark is not installed: {error}", hint=install_command("spark")
        ) from error
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - there is no other way
        return SparkSession.builder.getOrCreate(), False
    master = with_attempts(master or conf.get("spark.master", "") or EMBEDDED)
    is_embedded = master.startswith("local")
    settings = {"spark.app.name": "lakecli", **_DEFAULTS, **conf, "spark.master": master}
    if is_embedded and quick_start:
        settings[_JAVA_OPTIONS] = f"{_QUICK} {settings.get(_JAVA_OPTIONS, '')}".strip()
    directory = cache or _private_directory()
    variables = java_settings(environ, directory)
    variables["PYSPARK_PYTHON"] = environ.get("PYSPARK_PYTHON") or sys.executable
    if is_embedded:
        # Not to look up what this machine is called saves seconds, and works without a network.
        variables |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
        settings.setdefault("spark.driver.host", "localhost")
    log = directory / "spark.log"
    with _set(variables), _own_interrupts():
        return _launch(settings, log), True


def _launch(settings: Mapping[str, str], log: Path) -> Any:  # noqa: ANN401
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    try:
        if SparkContext._gateway is None:  # noqa: SLF001 - a JVM of an earlier session goes on
            make_private(log.parent)
            with log.open("wb") as output:
                # Its standard output is nobody's either: an answer of ours may be JSON.
                streams = {"stdout": output, "stderr": output}
                with _uninterrupted() as started:
                    gateway = launch_gateway(conf, popen_kwargs=streams)  # type: ignore[no-untyped-call]
                    started.append(gateway.proc)
        else:
            gateway = None
        return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except (PySparkException, OSError, ValueError) as error:
        if isinstance(error, PySparkException) and error.getCondition() == _GONE:
            # Java is there and new enough, so it is what it was told that it does not like.
            raise UsageError(
                f"Spark does not start: {_last_words(log)}", hint=f"see --master, --conf and {log}"
            ) from error
        raise Unsupported(f"Spark does not start: {gist(str(error))}", hint=f"see {log}") from error
    except Exception as error:
        master = settings["spark.master"]
        told = gist(str(error))
        if "stopped SparkContext" in told or "master" in told.lower():
            raise Unreachable(
                f"no Spark answers at {master}", hint=f"see --master and {log}"
            ) from (error)
        raise UsageError(
            f"Spark does not start: {told}", hint=f"see --master, --conf and {log}"
        ) from error


def _last_words(log: Path) -> str:
    """Return the line of Spark's log that says why it did not even begin."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    raised = [found[1] for line in lines if (found := _UNCAUGHT.match(line))]
    told = [line for line in lines if line.strip() and not _CHATTER.match(line)]
    return next(iter(raised + told), "Java ended without a word").strip()


def with_attempts(master: str) -> str:
    """Return a master that tries parts again, as clusters do; an embedded one would not."""
    if master == "local":
        return f"local[1,{ATTEMPTS}]"
    inside = master.removeprefix("local[").removesuffix("]")
    if master == f"local[{inside}]" and "," not in inside:
        return f"local[{inside},{ATTEMPTS}]"
    return master


def _private_directory() -> Path:
    """Make a directory that only this user can enter; it goes when the process ends."""
    import atexit
    import shutil
    import tempfile

    directory = tempfile.mkdtemp(prefix="lakecli-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


@contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, which PySpark reads nowhere else; ``""`` takes one away."""
    before = {name: os.environ.get(name) for name in variables}
    try:
        _update(variables)
        yield
    finally:
        _update({name: text or "" for name, text in before.items()})


def _update(variables: Mapping[str, str]) -> None:
    for name, text in variables.items():
        if text:
            os.environ[name] = text
        else:
            os.environ.pop(name, None)


@contextmanager
def _uninterrupted() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Let an interrupt wait until Java answers, and end the Java that is in the list with it.

    PySpark forgets a Java that has not answered yet, which then would never end. Who cannot wait
    interrupts once more.
    """
    import signal
    import threading

    started: list[subprocess.Popen[bytes]] = []
    if threading.current_thread() is not threading.main_thread():
        yield started
        return
    before = signal.getsignal(signal.SIGINT)
    came = False

    def note(_number: int, _frame: object) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    signal.signal(signal.SIGINT, note)
    try:
        yield started
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException:
            for process in started:
                process.kill()
                process.wait()
            raise


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep what an interrupt does: Spark would have it cancel everybody's jobs."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def gist(text: str) -> str:
    """Return the line of an error of Spark that says what happened."""
    for pattern in (_RAISED, _THROWN):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
