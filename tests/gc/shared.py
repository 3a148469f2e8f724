"""Machines that share a namespace in memory, with one clock that a test sets for all."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Self

from lakecli.base.progress import NO_PROGRESS
from lakecli.committed.values import decode_entry
from lakecli.engine.runner import LocalRunner
from lakecli.gc.run import Action, GcOptions, GcReport, prepare, take
from lakecli.repository import push as pushing
from lakecli.repository.commit import commit
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.view import open_view
from lakecli.repository.upload import UploadOptions, upload_stream
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.support.clones import Clones
from tests.support.lakes import START, through
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.base.progress import Progress
    from lakecli.engine.runner import Runner
    from lakecli.repository.contract import Repository

GRACE = timedelta(days=2)
LONG = GRACE + timedelta(hours=4)
"""Time after which garbage can be condemned, and condemned objects can be swept."""


class Time:
    """The present everywhere."""

    def __init__(self) -> None:
        self.now = START
        self._monotonic = 0.0

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def monotonic(self) -> float:
        return (self.now - START).total_seconds()

    def pass_by(self, duration: timedelta) -> None:
        self.now += duration


class Shared:
    """The machines; use them as a context manager.

    Attributes:
        time: the present.
        store: the namespace.
        clones: the repository on each machine.
    """

    def __init__(self, directory: Path, *names: str, store: MemoryStore | None = None) -> None:
        self.time = Time()
        self.bucket = MemoryBucket(clock=self.time)
        self.store = store or MemoryStore(self.bucket, "ns/")
        self._stack = ExitStack()
        made = Clones.make(directory, *(names or ("ada",)))
        self._stack.enter_context(made)
        on_disk = DirectoryStore(str(directory / "namespace"))
        for info in on_disk.list():
            self.store.put(info.key, on_disk.get(info.key), ANY)
        self.clones = tuple(
            through(
                each,
                self.store,
                clock=self.time,
                elapsed=self.time.monotonic,
                sleep=lambda _seconds: None,
            )
            for each in made.repositories
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def data(self) -> set[str]:
        """The keys of data objects."""
        return {info.key for info in self.store.list("data/")}

    @property
    def tables(self) -> set[str]:
        """The keys of ranges and metaranges."""
        return {info.key for info in self.store.list("_lakefs/")} - {"_lakefs/dummy"}

    def collect(
        self,
        repository: Repository | None = None,
        *,
        confirm: Callable[[str], None] = lambda _question: None,
        progress: Progress = NO_PROGRESS,
        **options: object,
    ) -> GcReport:
        """Take one step, once a question is answered, as the command does."""
        given = GcOptions(grace=GRACE)._replace(**options)  # type: ignore[arg-type]
        step = prepare(repository or self.clones[0], LocalRunner(), given)
        if step.question:
            confirm(step.question)
        return take(step, progress=progress)

    def collect_all(self, repository: Repository | None = None) -> GcReport:
        """Wait until all garbage is old, condemn it, wait, and sweep."""
        self.time.pass_by(LONG)
        report = self.collect(repository)
        if report.action is Action.FOUND_NOTHING:
            return report
        self.time.pass_by(LONG)
        return self.collect(repository)


def advance(
    repository: Repository, runner: Runner, options: GcOptions, *, progress: Progress = NO_PROGRESS
) -> GcReport:
    """Take one step without asking a person."""
    return take(prepare(repository, runner, options), progress=progress)


def upload(repository: Repository, path: bytes, contents: bytes, branch: str = "main") -> None:
    """Upload one object."""
    upload_stream(repository, branch, path, source=BytesIO(contents), options=UploadOptions())


def make_commit(
    repository: Repository, contents: dict[bytes, bytes], branch: str = "main"
) -> Commit:
    """Upload objects and commit them."""
    for path, body in contents.items():
        upload(repository, path, body, branch)
    return commit(repository, branch, message="commit", committer="me")


def push(repository: Repository, name: str = "main") -> None:
    """Push a branch."""
    pushing.push(repository, name, options=pushing.PushOptions(who="me"))


def force(repository: Repository, name: str = "main") -> None:
    """Force a branch in the bucket to its local commit."""
    options = pushing.PushOptions(who="me", lease=pushing.PushLease())
    pushing.push(repository, name, options=options)


def read_all(repository: Repository, ref: str) -> dict[bytes, bytes]:
    """Read every object of a ref."""
    repository.forget_trees()
    with open_view(repository, ref) as view:
        return {
            path: b"".join(read_object(repository, decode_entry(value)))
            for path, value in view.scan()
        }
