"""The runner that applies functions on Spark: one embedded here by default, or any cluster.

Parts go out as RDDs of one slice each, in small jobs of which two are under way at a time: results
come back while later parts wait their turn, and no more of them are in memory than two jobs hold.
An executor that dies, or a part that fails in an unexpected way, is Spark's to repeat; what
lakecli itself has to say (a `LakeError`) is said at once, as it would be in this process.
"""

from __future__ import annotations

import os
import re
from collections import deque
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, NoReturn, Self, TypeVar

from lakecli.errors import LakeError, Unreachable, Unsupported
from lakecli.pipeline.errors_as_json import dump_error, find_carried, load_error
from lakecli.pipeline.session import gist, start_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

P = TypeVar("P")
R = TypeVar("R")

JOBS_AT_ONCE: Final = 2
SLICES_PER_CORE: Final = 2

_NO_LAKECLI: Final = re.compile(r"^ModuleNotFoundError: No module named 'lakecli", re.MULTILINE)
_OTHER_PYTHON: Final = re.compile(r"\[PYTHON_VERSION_MISMATCH\]")


class Unfinished(LakeError):
    """A part failed in a way that nobody foresaw, as often as Spark tried it."""


class NoLakecli(Unsupported):
    """The executors cannot run lakecli."""


class Failed(NamedTuple):
    """What a part raised, on its way to the driver: an error as JSON."""

    error: str


class Apply(Generic[P, R]):
    """Applies a task to a numbered part on an executor."""

    def __init__(self, task: Callable[[P], R]) -> None:
        self._task = task

    def __call__(self, numbered: tuple[int, P]) -> tuple[int, R | Failed]:
        """Return the part's number and its result."""
        number, part = numbered
        try:
            return number, self._task(part)
        except LakeError as error:
            return number, Failed(dump_error(error))


class SparkRunner:
    """Runs parts on Spark. Close it, or use it as a context manager.

    Args:
        session: an existing one, which stays the caller's; without it one is started.
        master: of Spark; `EMBEDDED` by default.
        conf: settings of Spark, over lakecli's own.
        environ: of this process, where Java is looked for.
        cache: directory for what starting Spark needs, and for its log.
        quick_start: have the JVM compile less thoroughly: right for jobs of some seconds.
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
    ) -> None:
        self._is_ours = session is None
        if session is None:
            session, self._is_ours = start_session(
                master=master,
                conf=conf or {},
                environ=environ or {},
                cache=cache,
                quick_start=quick_start,
            )
        self.session = session
        self.context = session.sparkContext
        self._jobs = 0

    @property
    def parallelism(self) -> int:
        """Parts that run at one time, on the executors that there are now."""
        return max(1, int(self.context.defaultParallelism))

    @property
    def shares_disk(self) -> bool:
        """Whether executors see the files of this process: they are in the same machine's care."""
        return str(self.context.master).startswith("local") and "cluster" not in self.context.master

    def run(self, task: Callable[[P], R], parts: Iterable[P]) -> Iterator[tuple[P, R]]:
        """Yield (part, result) as parts finish, as `Runner` has it."""
        apply = Apply(task)

        def job(batch: list[P]) -> Iterator[tuple[P, R]]:
            slices = self.context.parallelize(list(enumerate(batch)), len(batch))
            for number, result in slices.map(apply).collect():
                yield batch[number], opened(result)

        rest = iter(parts)
        batches = iter(lambda: list(islice(rest, SLICES_PER_CORE * self.parallelism)), [])
        yield from self.run_jobs(job, batches)

    def run_jobs(
        self, job: Callable[[P], Iterator[R]], batches: Iterable[P], *, nonce: str = ""
    ) -> Iterator[R]:
        """Yield what jobs return, two of which run at one time; all are cancelled on the way out.

        Args:
            job: starts one job of Spark for a batch, and waits for it.
            batches: taken one after the other as jobs finish.
            nonce: of `carried` errors, where the executors raise such.

        Raises:
            LakeError: what a part raised, or what became of Spark.
        """
        self._jobs += 1
        group = f"lakecli-{os.getpid()}-{id(self)}-{self._jobs}"

        def start(batch: P) -> list[R]:
            self.context.setJobGroup(group, "lakecli", interruptOnCancel=True)
            return list(job(batch))

        with ThreadPoolExecutor(JOBS_AT_ONCE, "spark") as pool:
            waiting: deque[Future[list[R]]] = deque()
            try:
                for batch in batches:
                    waiting.append(pool.submit(start, batch))
                    if len(waiting) > JOBS_AT_ONCE:
                        yield from _first_done(waiting)
                while waiting:
                    yield from _first_done(waiting)
            except LakeError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever Spark and Py4J wrap it into
                raise_translated(error, nonce=nonce)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                with suppress(Exception):  # a JVM that is gone has no jobs
                    self.context.cancelJobGroup(group)

    def close(self) -> None:
        """Stop the session if the runner started it; safe to repeat."""
        if self._is_ours:
            self._is_ours = False
            self.session.stop()

    def __enter__(self) -> Self:
        """Return the runner itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


def _first_done(waiting: deque[Future[list[R]]]) -> list[R]:
    """Wait for one of several jobs, take it out and return its results."""
    done = next(iter(wait(waiting, return_when=FIRST_COMPLETED).done))
    waiting.remove(done)
    return done.result()


def opened(result: R | Failed) -> R:
    """Return a result that came from an executor.

    Raises:
        LakeError: what was raised there instead.
    """
    if isinstance(result, Failed):
        raise load_error(result.error) or Unfinished("a part failed, and its error is unreadable")
    return result


def raise_translated(error: Exception, *, nonce: str = "") -> NoReturn:
    """Say what Spark says of a job that failed, in one line.

    The text quotes data of the job, so it decides nothing but how the failure is worded.

    Args:
        error: what PySpark raised.
        nonce: of the job, where its executors use `carried`.

    Raises:
        LakeError: what was `carried`.
        NoLakecli: executors miss lakecli, or run another Python.
        Unreachable: they died, or Spark itself did.
        Unfinished: anything else.
    """
    text = str(error)
    found = find_carried(text, nonce)
    if found is not None:
        raise found from error
    lacks = _NO_LAKECLI.search(text)
    if lacks or _OTHER_PYTHON.search(text):
        what = "lacks lakecli" if lacks else "is another version than here"
        raise NoLakecli(
            f"the Python of Spark's executors {what}",
            hint="install lakecli there and name its Python: --conf spark.pyspark.python=PATH; "
            "or hand it over: --conf spark.submit.pyFiles=lakecli.zip",
        ) from error
    dead = ("Python worker exited", "ExecutorLostFailure", "Connection refused", "Answer from Java")
    if any(word in text for word in dead):
        raise Unreachable(
            f"Spark's executors died, as often as they were tried: {gist(text)}",
            hint="give them more memory (--conf spark.executor.memory=4g), or --engine local",
        ) from error
    raise Unfinished(
        f"Spark failed: {gist(text)}", hint="run it again with --verbose, or --engine local"
    ) from error
