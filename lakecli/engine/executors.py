"""Wait for the executors of a cluster, and check that each can run lakecli, before the first part.

The probe function is pickled by value, so it also runs on executors that lack lakecli.
"""

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, NamedTuple, NoReturn

import lakecli
from lakecli.engine.session import gist, scala_context
from lakecli.errors import LakeError, PermissionDenied, Unreachable, Unsupported

SILENCE: Final = 2.0
"""Seconds of waiting before the wait is first reported."""

INTERVAL: Final = 15.0
"""Seconds between two reports of the wait."""

PATIENCE: Final = 30.0
"""Seconds to wait for the other executors once the first one has started."""

ROUNDS: Final = 3
"""Maximum number of jobs that try to reach every executor with the probe."""

_POLL: Final = 0.2
_LOG_TAIL: Final = 65_536
_CLUSTER: Final = re.compile(r"local-cluster\[\s*(\d+)\s*,")
_WARNING: Final = re.compile(
    r"^\d\d/\d\d/\d\d [\d:]+ (?:WARN|ERROR) (?!(?:NativeCodeLoader|Utils):)\w+: (.+)$", re.MULTILINE
)
"""A warning about the cluster in Spark's log; warnings about this machine do not match."""
_LOST: Final = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\S+)\)")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]+)".*?: error=\d+, ([^\n]+)')
_VERSIONS: Final = re.compile(r"different version: ([\d.]+) than that in driver: ([\d.]+)")
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")

MODULES: Final = (
    "lakecli",
    "lakecli.stores.registry",
    "lakecli.errors",
    "lakecli.base.model",
    "lakecli.imports.import_part",
    "pyarrow",
)
"""Modules that the probe imports; together they need all packages that parts need."""

CREDENTIALS: Final = {
    "s3": "set spark.executorEnv.AWS_ACCESS_KEY_ID and spark.executorEnv.AWS_SECRET_ACCESS_KEY, "
    "or give the executors' machines a role that may read the bucket",
    "gs": "set spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS to a file of the executors, "
    "or give the executors' machines a service account that may read the bucket",
    "az": "set spark.executorEnv.AZURE_STORAGE_ACCOUNT and spark.executorEnv.AZURE_STORAGE_KEY, "
    "or give the executors' machines an identity that may read the container",
    "local": "keep the namespace in a bucket, or on a file system that all executors have at the "
    "same path",
}
_OTHER_STORE: Final = "give the executors what this process has, by spark.executorEnv settings"


Notice = Callable[[str], None]
"""A function that shows a line of text."""

Context = Any
"""A SparkContext; PySpark is not typed."""

StoreToRead = tuple[str, str, *tuple[Any, ...]]
"""The URI and the region of a store, followed by the fields of its account, if any."""


class NoLakecli(Unsupported):
    """The executors cannot run lakecli."""


class ExecutorProblem(NamedTuple):
    """The result of the probe on one executor: plain values, as the executor may lack lakecli.

    Attributes:
        executor: the executor's ID; ``""`` if the cluster does not give it to Python processes.
        directory: the executor's working directory; no other executor of the machine has the same.
        lack: the reason why the executor cannot work; ``""`` if it can work.
        store: the store that the executor cannot read; ``""`` if `lack` is another reason.
    """

    host: str
    executor: str
    directory: str
    lack: str
    store: str

    @property
    def name(self) -> str:
        """The executor's name for error messages."""
        return f"executor {self.executor or '?'} on {self.host}"


def environment_hint() -> str:
    """Return the hint that explains how to install lakecli on executors."""
    python = "{}.{}".format(*sys.version_info)
    return (
        f"give the executors an environment with Python {python} and lakecli "
        f"{lakecli.__version__}: set spark.archives to ENVIRONMENT.tar.gz#environment and "
        "spark.pyspark.python to ./environment/bin/python"
    )


def hint_for_executors(error: LakeError) -> LakeError:
    """Return the error of a task; a `PermissionDenied` gets a hint about executors' credentials."""
    if isinstance(error, PermissionDenied):
        error.hint = (
            "give the executors credentials, too, for example by the settings "
            "spark.executorEnv.AWS_ACCESS_KEY_ID and spark.executorEnv.AWS_SECRET_ACCESS_KEY"
        )
    return error


def prepare_executors(
    context: Context, *, stores: Sequence[StoreToRead], notice: Notice, log: Path | None
) -> None:
    """Wait for executors, and check that each can run lakecli and read the given stores.

    Args:
        notice: called with a line of text from time to time during the wait.
        log: Spark's log, which may explain the wait; ``None`` if its path is unknown.

    Raises:
        NoLakecli: an executor has no lakecli, another version, or another Python.
        PermissionDenied: an executor cannot read a store.
        Unreachable: an executor runs no Python.
    """
    group = f"lakecli-probe-{os.getpid()}-{id(context)}"
    with ThreadPoolExecutor(1, "spark-probe") as pool:
        try:
            _wait(context, pool.submit(_touch, context, group), notice, log)
            findings = _probe(context, group, stores)
        finally:
            with suppress(Exception):  # the JVM may have exited
                context.cancelJobGroup(group)
    _check(findings)


def _touch(context: Context, group: str) -> None:
    """Run a job with one task, which needs no Python.

    With dynamic allocation, Spark requests executors only for a job.
    """
    context.setJobGroup(group, "lakecli waits for executors", interruptOnCancel=True)
    scala_context(context).range(0, 1, 1, 1).count()


def _wait(context: Context, job: Future[None], notice: Notice, log: Path | None) -> None:
    """Wait for the first executor without a limit, then up to `PATIENCE` for the other executors.

    Args:
        job: the job that `_touch` runs.
    """
    expected = expected_executors(context)
    reported = monotonic() - INTERVAL + SILENCE
    since: float | None = None
    while True:
        present = sum(1 for _ in _executors(context))
        if job.done():
            since = since or monotonic()
            job.result()
            if expected is None or present >= expected or monotonic() - since > PATIENCE:
                return
        if monotonic() - reported >= INTERVAL:
            reported = monotonic()
            notice(f"{describe_wait(present, expected)} ({context.master}){_warning(log)}")
        if job.done():
            sleep(_POLL)
        else:
            wait([job], timeout=_POLL)


def describe_wait(present: int, expected: int | None) -> str:
    """Return the message to show while waiting for executors to start, or to begin to work."""
    if expected is not None:
        return f"waiting for executors: {present} of {expected}"
    if present:
        return f"waiting for {present} executor{'s' * (present > 1)} to begin"
    return "waiting for executors: 0 of at least 1"


def expected_executors(context: Context) -> int | None:
    """Return how many executors the settings request; ``None`` if the settings give no number."""
    conf = context.getConf()
    if str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        return None
    found = _CLUSTER.match(str(context.master))
    wanted = found[1] if found else str(conf.get("spark.executor.instances", ""))
    return int(wanted) if wanted.isdigit() else None


def _executors(context: Context) -> Iterator[int]:
    """Yield the number of cores of each executor that is connected."""
    found = scala_context(context).statusStore().executorList(True)  # noqa: FBT003 - Java's
    for at in range(found.size()):
        executor = found.apply(at)
        if executor.id() != "driver":
            yield int(executor.totalCores())


def _warning(log: Path | None) -> str:
    """Return a colon and the last warning in Spark's log; ``""`` if there is no warning."""
    if log is None:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LOG_TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    found = _WARNING.findall(text)
    return f": {found[-1].strip()}" if found else ""


def _probe(context: Context, group: str, stores: Sequence[StoreToRead]) -> list[ExecutorProblem]:
    """Run the probe in every slot, up to `ROUNDS` times, until each executor has answered."""
    probe = _make_probe(lakecli.__version__, list(stores))
    found: dict[tuple[str, str], ExecutorProblem] = {}
    for _ in range(ROUNDS):
        cores = list(_executors(context))
        slots = max(1, sum(cores), len(cores))
        context.setJobGroup(group, "lakecli probes executors", interruptOnCancel=True)
        try:
            answers = context.parallelize(range(slots), slots).mapPartitions(probe).collect()
        except Exception as error:  # noqa: BLE001 - whatever Spark and Py4J wrap it into
            _raise_lost(error)
        for answer in answers:
            finding = ExecutorProblem(*answer)
            if finding.lack or (finding.host, finding.directory) not in found:
                found[finding.host, finding.directory] = finding
        if len(found) >= len(cores) or any(finding.lack for finding in found.values()):
            break
    return list(found.values())


def _make_probe(version: str, stores: Sequence[StoreToRead]) -> Callable[[Any], list[Any]]:
    """Return the probe function, which is pickled by value since it is local to this function."""
    modules = MODULES

    def probe(_numbers: Any) -> list[Any]:  # noqa: ANN401
        variables = os.environ
        logged = re.search(r"executorId=(\w+)", variables.get("SPARK_LOG_URL_STDERR", ""))
        executor = variables.get("SPARK_EXECUTOR_ID") or variables.get("CONTAINER_ID")
        if logged is not None:
            executor = logged[1]
        answer = [socket.gethostname(), executor or "", os.getcwd()]  # noqa: PTH109
        try:
            here, registry, errors, model, *_ = map(import_module, modules)
        except ImportError as error:
            return [(*answer, f"lacks the Python module {error.name or error}", "")]
        if here.__version__ != version:
            return [(*answer, f"has lakecli {here.__version__} instead of {version}", "")]
        for uri, region, *account in stores:
            path = uri.removeprefix("local://")
            if path != uri:
                if not os.access(path, os.R_OK | os.X_OK):
                    return [(*answer, f"cannot read the directory {path}", uri)]
                continue
            try:
                how = model.Account(*account)
                next(iter(registry.open_store(uri, region=region, account=how).list()), None)
            except errors.LakeError as error:
                return [(*answer, f"cannot read {uri}: {error.message}", uri)]
        return [(*answer, "", "")]

    return probe


def _raise_lost(error: Exception) -> NoReturn:
    """Raise an error that explains why the probe did not start in an executor's Python."""
    text = str(error)
    raise find_lack(text) or Unreachable(
        f"{_lost_executor(text)} does not run Python: {gist(text)}",
        hint="see the executor's log; spark.pyspark.python names its Python",
    ) from error


def find_lack(text: str) -> NoLakecli | None:
    """Return the error for an executor that cannot run lakecli, from the text of Spark's error.

    Returns:
        The error; ``None`` if the text describes another problem.
    """
    program, versions, module = (
        pattern.search(text) for pattern in (_NO_PROGRAM, _VERSIONS, _NO_MODULE)
    )
    if program is not None:
        what = f"cannot run the Python at {program[1]}: {program[2].strip()}"
    elif versions is not None:
        what = f"has Python {versions[1]} instead of {versions[2]}"
    elif module is not None:
        what = f"lacks the Python module {module[1]}"
    else:
        return None
    return NoLakecli(f"{_lost_executor(text)} {what}", hint=environment_hint())


def _lost_executor(text: str) -> str:
    lost = _LOST.search(text)
    return f"executor {lost[2]} on {lost[1]}" if lost else "an executor"


def _check(findings: Sequence[ExecutorProblem]) -> None:
    """Raise an error for the first executor that cannot work."""
    lacking = sorted(finding for finding in findings if finding.lack)
    if not lacking:
        return
    first = lacking[0]
    more = len(lacking) - 1
    others = f"; {more} more executor{'s' * (more > 1)} cannot work either" if more else ""
    message = f"{first.name} {first.lack}{others}"
    if first.store:
        scheme = first.store.partition("://")[0]
        raise PermissionDenied(message, hint=CREDENTIALS.get(scheme, _OTHER_STORE))
    raise NoLakecli(message, hint=environment_hint())
