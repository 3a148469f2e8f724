"""Run a job on its own branch, then check and publish the whole result or nothing.

The branch stays on this machine. A run has a row in the local store, which is written before the
branch is created and deleted with the run. The process and the job of the run hold a lock. So if a
row has no lock, the run was killed, or its branch was kept::

    META       run/REPOSITORY ID -> the run, in JSON
    runs/UUID-ID, in the local store's directory: the lock

`lakecli.repository.publish` moves the destination once, so it gets all changes of the job or none.
If the job ended without an error, the run can be resumed, and finished steps are not repeated.
Otherwise the data may be incomplete, and the run can only be aborted.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from lakecli.base.directories import make_private
from lakecli.base.model import Commit
from lakecli.errors import LakeError, LostRace, NotFound, NothingToDo, Refused
from lakecli.kv.local_store import Table
from lakecli.refs.ref_store import RUNS
from lakecli.repository import branch as branches
from lakecli.repository.check import TreeCheck
from lakecli.repository.commit import commit
from lakecli.repository.contract import Repository
from lakecli.repository.merge import MergeOptions
from lakecli.repository.publish import moving_first, publish, with_mover
from lakecli.repository.reading.view import view_of_branch
from lakecli.repository.staged.changes import check_clean

_MOST_TRIES: Final = 100
_BETWEEN_TRIES: Final = 0.01
"""How long to wait for processes that list runs, in seconds."""


class Keep(StrEnum):
    """Whether the branch of a run is kept after the end of the run."""

    ALWAYS = "always"
    ON_FAILURE = "on-failure"
    NEVER = "never"


class Stage(StrEnum):
    """The progress of a run."""

    JOB = "job"
    """The job has not ended, or has failed."""
    PUBLISH = "publish"
    """The job has ended without an error."""
    PUBLISHED = "published"


class JobRun(NamedTuple):
    """A job on its own branch, and how far it has come.

    Attributes:
        id: 32 hex digits.
        branch: the branch on which the job works.
        destination: the branch that gets the result.
        began: when the run began.
        committer: the committer of both commits.
        message: the message of both commits.
        job: program and arguments of the job; empty if the job is a block of Python.
        checks: the checks as they were given to the command line.
        keep: always, on-failure or never.
        stage: job, publish or published.
        failure: the error that ended the run; empty if the run has not failed.
        is_running: whether the process of the run is alive.
    """

    id: str
    branch: str
    destination: str
    began: datetime
    committer: str
    message: str
    job: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    keep: Keep = Keep.ON_FAILURE
    stage: Stage = Stage.JOB
    failure: str = ""
    is_running: bool = False


class RunOptions(NamedTuple):
    """Options of a run; `JobRun` describes the other fields.

    Attributes:
        branch: the name of the run's branch; ``""``: a new name with the ID of the run.
        message: the message of both commits; ``""``: a message with the ID of the run.
    """

    destination: str
    committer: str
    branch: str = ""
    message: str = ""
    job: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    keep: Keep = Keep.ON_FAILURE


class OpenRun:
    """A run that this process has begun or resumed; it holds the lock of the run.

    Attributes:
        run: the present state of the run.
        name: the name of the run's branch.
        lock: the file descriptor of the lock. A job in another process inherits it: the run counts
            as running while any process has it open.
        commit: the merge commit that published the run; ``None``: the run is not published, or had
            no new data.
    """

    def __init__(self, repository: Repository, run: JobRun, lock: int) -> None:
        self.run = run
        self.name = run.branch
        self.lock = lock
        self.commit: Commit | None = None
        self._repository = repository

    def __str__(self) -> str:
        """Return the URI of the run's branch, below which the job writes."""
        return f"{self._repository.uri}/{self.name}"

    def set(self, **changed: object) -> None:
        """Change fields of the run, and write the run to the local store.

        A row that was deleted with the branch is not written again.
        """
        self.run = self.run._replace(**changed)  # type: ignore[arg-type]
        fields = self.run._asdict() | {"began": int(self.run.began.timestamp())}
        key = _key(self._repository, self.run)
        with self._repository.lake.kv.write() as txn:
            if not changed or txn.get(Table.META, key) is not None:
                txn.put(Table.META, key, json.dumps(fields).encode())


@contextmanager
def running(
    repository: Repository, options: RunOptions, checks: Sequence[TreeCheck] = ()
) -> Iterator[OpenRun]:
    """Run the block as a job; commit, check and publish its changes, then remove the branch.

    If the block, a check or the publication fails, the destination gets none of the changes. A job
    that has changed nothing is not an error.

    Args:
        repository: the repository.
        options: the options of the run.
        checks: the checks that the result must pass; see `lakecli.repository.publish.publish`.

    Raises:
        NotFound: no such destination.
        DirtyBranch: the destination has uncommitted changes.
        AlreadyExists: the branch exists, and belongs to no earlier run.
        LostRace: another process runs a job on that branch.
        LakeError: any error of `publish`.
    """
    runtime = repository.lake.runtime
    run_id = runtime.new_id().hex()
    own = with_mover(repository, None)
    moving_first(repository, options.destination, who=options.committer)
    with repository.lake.kv.read() as txn:
        check_clean(view_of_branch(repository, txn, options.destination))
    _remove_left(repository, options.branch)
    given = options._asdict()
    given["branch"] = options.branch or f"run-{run_id[:12]}"
    given["message"] = options.message or f"Run {run_id}"
    run = JobRun(id=run_id, began=runtime.now(), **given)
    with repository.lake.kv.read() as txn:
        # Before the row exists: if the run is killed, the branch of its row is deleted.
        branches.check_free(repository.refs(txn), run.branch)
    with _locked(own, run, is_new=True) as (run, lock):
        opened = OpenRun(own, run, lock)
        opened.set()
        try:
            runtime.on_step("run: branch")
            branches.create(own, run.branch, source=run.destination)
        except BaseException:
            _forget(own, run)
            raise
        with _ending(repository, opened):
            runtime.on_step("run: job")
            yield opened
            opened.set(stage=Stage.PUBLISH)
            _finish(repository, opened, checks)


def resume(repository: Repository, branch: str, checks: Sequence[TreeCheck] = ()) -> OpenRun:
    """Check and publish the result of a run whose job ended without an error, and end the run.

    Args:
        repository: the repository.
        branch: the branch of the run.
        checks: the checks that the result must pass.

    Raises:
        NotFound: no run has that branch.
        LostRace: the run is still in progress.
        Refused: the job failed or was killed, so its data may be incomplete.
        LakeError: any error of `publish`.
    """
    own = with_mover(repository, None)
    with _locked(own, find(repository, branch)) as (run, lock):
        if run.stage == Stage.JOB:
            raise Refused(
                f"the job of the run on {branch} did not end well, so its data may not be whole",
                hint=f"remove it, then run the job again: `run abort {repository.uri}/{branch}`",
            )
        opened = OpenRun(own, run, lock)
        with _ending(repository, opened):
            _finish(repository, opened, checks)
        return opened


def abort(repository: Repository, branch: str) -> JobRun:
    """Remove a run and its branch; undo restores the branch.

    Raises:
        NotFound: no run has that branch.
        LostRace: the run is still in progress.
    """
    with _locked(repository, find(repository, branch)) as (run, _):
        _discard(repository, run)
        return run


def iter_runs(repository: Repository) -> Iterator[JobRun]:
    """Yield the runs of a repository that were not removed, oldest first."""
    with repository.lake.kv.read() as txn:
        rows = [_load(data) for _, data in txn.scan(Table.META, prefix=RUNS + repository.key)]
    for run in sorted(rows, key=lambda each: each.began):
        try:
            with _locked(repository, run, how=fcntl.LOCK_SH) as (found, _):
                pass
        except LostRace:
            found = run._replace(is_running=True)
        except NotFound:
            continue
        yield found


def find(repository: Repository, branch: str) -> JobRun:
    """Return the run on a branch.

    Raises:
        NotFound: no run has that branch.
    """
    run = next((each for each in iter_runs(repository) if each.branch == branch), None)
    if run is None:
        hint = f"list them: `run list {repository.uri}`"
        raise NotFound(f"no run has the branch {branch} in {repository.uri}", hint=hint)
    return run


def _finish(repository: Repository, opened: OpenRun, checks: Sequence[TreeCheck]) -> None:
    """Commit the changes that the job has staged, and publish the branch.

    Raises:
        NotFound: the branch was deleted, so a present branch of its name is somebody else's.
    """
    run, step = opened.run, repository.lake.runtime.on_step
    if _find_row(repository, run) is None:
        what = f"the branch of the run was deleted meanwhile: {opened}"
        raise NotFound(what, hint=f"see what was done: `op log {repository.uri}`")
    message, metadata = run.message, {"lakecli.run": run.id}
    step("run: commit")
    with suppress(NothingToDo):
        own = with_mover(repository, None)
        commit(own, run.branch, message=message, committer=run.committer, metadata=metadata)
    step("run: publish")
    options = MergeOptions(run.committer, message=message, metadata=metadata)
    with suppress(NothingToDo):
        opened.commit = publish(repository, run.branch, run.destination, options, checks)
    step("run: published")
    opened.set(stage=Stage.PUBLISHED, failure="")


@contextmanager
def _ending(repository: Repository, opened: OpenRun) -> Iterator[None]:
    """Keep or remove the run's branch at the end of the block; if the run failed, record why."""
    try:
        yield
    except BaseException as error:
        if opened.run.keep == Keep.NEVER:
            with suppress(LakeError):  # the next run tries again
                _discard(repository, opened.run)
        else:
            opened.set(failure=str(error) or type(error).__name__)
            if isinstance(error, LakeError) and error.hint is None:
                error.hint = f"its data is kept: `diff {repository.at(opened.name).rstrip('/')}`"
        raise
    if opened.run.keep != Keep.ALWAYS:
        repository.lake.runtime.on_step("run: remove")
        _discard(repository, opened.run)


def _remove_left(repository: Repository, branch: str) -> None:
    """Remove killed runs that are not to be kept, and an earlier run on the same branch.

    Raises:
        LostRace: another process runs a job on that branch.
    """
    for run in list(iter_runs(repository)):
        if run.branch == branch or (run.keep == Keep.NEVER and not run.is_running):
            with _locked(repository, run):
                _discard(repository, run)


def _discard(repository: Repository, run: JobRun) -> None:
    """Delete a run's row and its branch, also in the bucket if the job has pushed the branch."""
    if _find_row(repository, run) is not None:  # else a present branch of its name is another one
        with suppress(NotFound):
            branches.delete(repository, run.branch)
    _forget(repository, run)


def _forget(repository: Repository, run: JobRun) -> None:
    with repository.lake.kv.write() as txn:
        txn.delete(Table.META, _key(repository, run))
    with suppress(OSError):
        _lock_path(repository, run).unlink()


def _key(repository: Repository, run: JobRun) -> bytes:
    return RUNS + repository.key + bytes.fromhex(run.id)


def _find_row(repository: Repository, run: JobRun) -> bytes | None:
    with repository.lake.kv.read() as txn:
        return txn.get(Table.META, _key(repository, run))


def _load(data: bytes) -> JobRun:
    fields = json.loads(data)
    known = {name: fields[name] for name in JobRun._fields if name in fields}
    known |= {name: tuple(fields[name]) for name in ("job", "checks")}
    return JobRun(**known | {"began": datetime.fromtimestamp(fields["began"], UTC)})


def _lock_path(repository: Repository, run: JobRun) -> Path:
    return Path(repository.lake.home.store) / "runs" / f"{repository.record.uuid}-{run.id}"


@contextmanager
def _locked(
    repository: Repository, run: JobRun, *, is_new: bool = False, how: int = fcntl.LOCK_EX
) -> Iterator[tuple[JobRun, int]]:
    """Lock a run during the block; yield its present state, and the descriptor of the lock.

    Args:
        repository: the repository.
        run: the run as it was read.
        is_new: whether the run has no row yet.
        how: ``LOCK_EX``, or ``LOCK_SH`` to see for a moment whether another process has the lock.

    Raises:
        LostRace: another process has the lock.
        NotFound: the run was removed meanwhile.
    """
    path = _lock_path(repository, run)
    make_private(path.parent)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for _ in range(_MOST_TRIES):
            if _try_lock(descriptor, how):
                break
            if not _try_lock(descriptor, fcntl.LOCK_SH):
                what = f"the run on {run.branch} is under way in another process"
                raise LostRace(what, hint=f"see: `run list {repository.uri}`")
            # The lock is shared by processes that list runs; they release it at once.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            repository.lake.runtime.sleep(_BETWEEN_TRIES)
        else:
            raise LostRace(f"other processes look at the run on {run.branch}", hint="try again")
        row = _find_row(repository, run)
        if row is None and not is_new:
            _forget(repository, run)
            raise NotFound(f"the run on {run.branch} has ended")
        yield run if row is None else _load(row), descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
