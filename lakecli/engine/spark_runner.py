"""The runner on Spark: on an embedded Spark by default, or on any cluster.

Each part is a slice of an RDD. Parts run in small jobs, many at a time: results arrive while later
parts wait, and a slow part delays only the few parts of its job. Large results are written to the
bucket (see `scratch`), and the driver has one of them in memory at a time. Spark retries a part
that fails unexpectedly or whose executor dies. A part that raises a `LakeError` is not retried; the
error is raised immediately, as in the in-process runner.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from lakecli.engine.errors_as_json import dump_error, find_carried, load_error
from lakecli.engine.executors import Notice, StoreToRead, find_lack, prepare_executors
from lakecli.engine.runner import Runner, run_in_pool
from lakecli.engine.scratch import Scratch, keep_value, take_value
from lakecli.engine.session import gist, scala_context, start_session
from lakecli.errors import LakeError, Unreachable

P = TypeVar("P")
R = TypeVar("R")

JOBS_AT_ONCE: Final = 64
"""Maximum number of jobs that run at the same time."""

PARTS_PER_CORE: Final = 8
"""Parts per core that run or wait on the cluster; enough that no core idles at the end of a job."""

BEAT: Final = 5.0
"""Seconds between two reports of the number of finished tasks."""

_GROUPS: Final = count()
"""Numbers of job groups. Once a group is cancelled, Spark refuses later jobs of the group."""


class Unfinished(LakeError):
    """A part failed unexpectedly in all of Spark's attempts."""


class FailedPart(NamedTuple):
    """An error that a part raised, as JSON; an executor returns it instead of the part's result."""

    error: str


def apply(
    task: Callable[[P], R], scratch: Scratch | None, numbered: tuple[int, P]
) -> tuple[int, R | FailedPart]:
    """Apply a task to a numbered part on an executor; return the number and the result."""
    number, part = numbered
    try:
        return number, keep_value(scratch, task(part))
    except LakeError as error:
        return number, FailedPart(dump_error(error))


def parts_per_job(cores: int) -> int:
    """Return the number of parts per job so that all jobs have `PARTS_PER_CORE` parts per core.

    The size of a part does not depend on the number of cores.
    """
    return max(1, PARTS_PER_CORE * cores // JOBS_AT_ONCE)


class SparkRunner(Runner):
    """Runs parts on Spark.

    On a cluster, the constructor waits for executors, and checks each of them.

    Args:
        session: the Spark session to use; ``None`` to start one, or use the active one.
        master: the URL of the master; ``""`` for the default.
        conf: settings of Spark, which override lakecli's own.
        cache: directory for Spark's log and for the script that starts Java.
        quick_start: whether to make the JVM optimise less, which is faster for jobs of seconds.
        stores: the stores that executors must be able to read; see `prepare_executors`.
        notice: called with a line of text from time to time while waiting for executors.
        scratch: the prefix for large results; ``None`` if all results go through Spark.

    Raises:
        NoLakecli: an executor of a cluster has no lakecli, another version, or another Python.
        PermissionDenied: an executor cannot read a store.
        Unreachable: no master answers.
    """

    name = "spark"

    def __init__(
        self,
        session: Any = None,  # noqa: ANN401 - a SparkSession, of a package without types
        *,
        master: str = "",
        conf: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        cache: Path | None = None,
        quick_start: bool = False,
        stores: Sequence[StoreToRead] = (),
        notice: Notice = lambda _line: None,
        scratch: Scratch | None = None,
    ) -> None:
        log = None
        self.scratch = scratch
        if session is None:
            given = conf or {}, environ or {}
            session, log = start_session(master, *given, cache, quick_start=quick_start)
        self._is_ours = log is not None
        self.session = session
        self.context = session.sparkContext
        if not self.shares_disk or self.context.pythonExec != sys.executable:
            try:
                prepare_executors(self.context, stores=stores, notice=notice, log=log)
            except BaseException:
                self.close()
                raise

    @property
    def parallelism(self) -> int:  # type: ignore[override]  # it changes with the executors
        """Number of parts that run at the same time on the present executors."""
        return max(1, int(self.context.defaultParallelism))

    @property
    def shares_disk(self) -> bool:
        """Whether executors run on this machine, so that they see its files."""
        return str(self.context.master).startswith("local") and "cluster" not in self.context.master

    def run(self, task: Callable[[P], R], parts: Iterable[P]) -> Iterator[tuple[P, R]]:
        """Yield (part, result) as parts finish; see `Runner.run`."""

        def job(batch: list[P]) -> Iterator[tuple[P, R | FailedPart]]:
            slices = self.context.parallelize(list(enumerate(batch)), len(batch))
            for number, result in slices.map(partial(apply, task, self.scratch)).collect():
                yield batch[number], result

        with closing(self.run_jobs(job, self.batches(parts))) as results:
            for part, result in results:
                yield part, take_value(self.scratch, opened(result))

    def batches(self, parts: Iterable[P]) -> Iterator[list[P]]:
        """Yield lists of parts; `run_jobs` runs one job for each list."""
        rest = iter(parts)
        return iter(lambda: list(islice(rest, parts_per_job(self.parallelism))), [])

    def run_jobs(
        self, job: Callable[[P], Iterator[R]], batches: Iterable[P], *, nonce: str = ""
    ) -> Generator[R]:
        """Yield the results of jobs, `JOBS_AT_ONCE` at a time; cancel unfinished jobs at the end.

        Args:
            job: runs the job for a batch, and yields its results.
            batches: the parts of each job; taken from the iterable as jobs finish.
            nonce: the nonce of the job, if its executors use `carried`; else ``""``.

        Raises:
            LakeError: a part failed, or Spark failed.
        """
        with closing(self.watch_jobs(job, batches, nonce=nonce)) as watched:
            for seen in watched:
                if not isinstance(seen, int):
                    yield from seen

    def watch_jobs(
        self, job: Callable[[P], Iterator[R]], batches: Iterable[P], *, nonce: str
    ) -> Generator[list[R] | int]:
        """Run jobs as `run_jobs` does; yield each job's results and, meanwhile, progress.

        Progress is the number of finished tasks, yielded every few seconds.
        """
        group = f"lakecli-{os.getpid()}-{next(_GROUPS)}"

        def start(batch: P) -> list[R]:
            self.context.setJobGroup(group, "lakecli", interruptOnCancel=True)
            return list(job(batch))

        most = min(JOBS_AT_ONCE, PARTS_PER_CORE * self.parallelism)
        with ThreadPoolExecutor(most, "spark") as pool:
            try:
                for done in run_in_pool(pool, start, batches, most=most, beat=BEAT):
                    yield self._finished_tasks(group) if done is None else done[1]
            except LakeError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever Spark and Py4J wrap it into
                raise_translated(error, nonce=nonce)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                with suppress(Exception):  # the JVM may have exited
                    # This also cancels the jobs that threads are about to submit.
                    scala_context(self.context).cancelJobGroupAndFutureJobs(group)

    def _finished_tasks(self, group: str) -> int:
        """Return the number of finished tasks in the jobs of a group."""
        tracker = self.context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        found = (tracker.getStageInfo(stage) for stage in stages)
        return sum(stage.numCompletedTasks for stage in found if stage is not None)

    def close(self) -> None:
        """Delete the remaining results, and stop the session if the runner started it.

        Safe to repeat.
        """
        if self.scratch is not None:
            self.scratch.clear()
        if self._is_ours:
            self._is_ours = False
            self.session.stop()


def opened(result: R | FailedPart) -> R:
    """Return the result that an executor sent, or raise the error that it sent instead."""
    if isinstance(result, FailedPart):
        raise load_error(result.error) or Unfinished("a part failed, and its error cannot be read")
    return result


def raise_translated(error: Exception, *, nonce: str = "") -> NoReturn:
    """Raise the error of a failed Spark job as a lakecli error.

    The text of Spark's error quotes untrusted data, so it affects only the wording of the error.

    Args:
        nonce: the nonce of the job, if its executors use `carried`; else ``""``.

    Raises:
        LakeError: the error that an executor raised by `carried`.
        NoLakecli: the executors lack lakecli, or run another Python version.
        Unreachable: executors died, or Spark itself died.
        Unfinished: the job failed for any other reason.
    """
    text = str(error)
    found = find_carried(text, nonce)
    if found is not None:
        raise found from error
    lack = find_lack(text)
    if lack is not None:
        raise lack from error
    dead = ("Python worker exited", "ExecutorLostFailure", "Connection refused", "Answer from Java")
    if any(word in text for word in dead):
        raise Unreachable(
            f"Spark's executors died in all attempts: {gist(text)}",
            hint="give the executors more memory: set spark.executor.memory",
        ) from error
    hint = "see the logs of Spark and of its executors"
    raise Unfinished(f"Spark failed: {gist(text)}", hint=hint) from error
