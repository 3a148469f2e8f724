"""lakeFS without the server: Git for the objects of a data lake.

Layers, each importing only those below it (a test checks this)::

    cli                          prints, reads the environment, exits; typer and rich only here
    spark | filesystem | serving DataFrames; pyspark only here and in engine | fsspec | S3 and
                                 lakeFS's API for other programs; Starlette only here
    gc | fsck | exports          garbage collection | checks of all data | files copied out
    imports                      import of objects and of listings
    engine                       bulk work as plans of partitions, run in-process or on Spark
    opening | blocks | worktree  opening lakes in Python | ``with`` blocks, each of which becomes
                                 one commit | directories linked with a path
    repository                   one module per verb; commit_attempts.py moves branches
    committed | refs | staging   ranges and trees | names and history | uncommitted changes
    remote | doctor              refs, commit packs and reflog in the bucket | checks of a store
                                 (beside committed, refs and staging)
    sstable | kv | stores        the file format | LMDB | buckets; cloud SDKs only here
    settings                     sources of settings, directories on a machine (beside sstable,
                                 kv and stores)
    base                         records, IDs, URIs, keys in a bucket, and common helpers
    errors                       the error tree
    native | proto               bulk work in C | varints, and lakeFS's protobuf messages

How a commit flows: ``cli/commands/commit.py`` → ``repository/commit.py`` →
``repository/commit_attempts.py`` seals the branch's staging area → ``staging/area.py`` gives the
sealed changes as one sorted stream → ``committed/writer.py`` rewrites only the ranges that change →
``stores`` stores the new ranges and the metarange → ``commit_attempts.py`` moves the branch: in one
LMDB transaction or, with ``sync = auto``, in the bucket first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lakecli.repository.check import CheckedCommit, TreeCheck
    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import LocalRepository
    from lakecli.repository.run import OpenRun

__version__ = "0.1.0"


def open(  # noqa: A001 - lakecli.open
    uri: str, *, home: str | Path | None = None, sync: Literal["auto", "manual"] | None = None
) -> LocalRepository:
    """Open a repository of this machine; the verbs of `lakecli.repository` take the result.

    The repository is safe to share between threads. Close it by using it as a context manager::

        with lakecli.open("lakefs://sales") as sales:
            commit(sales, "main", message="Orders", committer="etl")

    If `sync` is ``auto``, here or in the settings, refs are shared as on the command line. Opening
    the repository fetches, and fast-forwards local branches. A commit or merge moves its branch in
    the bucket first. Refs moved by other verbs are pushed when the ``with`` block ends without an
    error. If the bucket cannot be reached, `Repository.notices` has a message, and a commit raises
    `Unreachable` and leaves its changes staged. Refs that could not be pushed are pushed by the
    next command.

    Args:
        uri: ``lakefs://REPOSITORY``.
        home: the home directory of lakecli, as in ``LAKECLI_HOME``; by default that variable, or
            the platform's directories.
        sync: ``auto`` or ``manual``; by default the setting ``sync`` of the repository.

    Raises:
        UsageError: `uri` is not the URI of a repository, or a setting is malformed.
        NotFound: there is no such repository on this machine.
        PermissionDenied: the home cannot be written or, if `sync` is ``auto``, the bucket cannot be
            read.
    """
    from lakecli.base.uri import parse_repository
    from lakecli.opening import open_lake, open_repository

    name = parse_repository(uri).repository
    lake = open_lake(home)
    try:
        return open_repository(lake, name, home=home, sync=sync)
    except BaseException:
        lake.close()
        raise


def open_remote(storage_namespace: str, *, home: str | Path | None = None) -> LocalRepository:
    """Open the repository of a storage namespace for reading, without a clone.

    This needs only credentials. Nothing is written to the bucket, and only the cache is written on
    this machine. A ref is read when a verb first uses it, and its commit is then cached; open the
    repository again to see newer commits. A verb that would write raises `Refused`::

        with lakecli.open_remote("s3://bucket/sales") as sales, sales.reader("main") as reader:
            entry = reader.find(b"orders.csv")

    Args:
        storage_namespace: a URI or an absolute path, such as ``s3://bucket/sales``.
        home: the home directory of lakecli, whose cache is used, as in ``LAKECLI_HOME``; by default
            that variable, or the platform's directories.

    Raises:
        UsageError: the namespace is not valid, or a setting is malformed.
        NotFound: there is no repository in that namespace.
        Refused: the repository belongs to lakeFS, or needs a newer lakecli.
        PermissionDenied: the bucket may not be read.
    """
    from lakecli import opening

    return opening.open_remote(storage_namespace, home=home)


def publishing(
    repository: Repository,
    destination: str,
    *,
    checks: Sequence[TreeCheck | Callable[[CheckedCommit], object]] = (),
    committer: str = "",
    message: str = "",
    branch: str = "",
) -> AbstractContextManager[OpenRun]:
    """Publish what a block writes, all of it or nothing: write, audit, publish.

    The block writes to a branch of its own. At the end of the block, staged changes are committed.
    If every check passes on the tree that the destination would get, the branch is merged into the
    destination, the destination is pushed, and the branch is removed. After an error in the block
    or in a check, the destination is unchanged, and the branch is kept: `lakecli run list` shows
    it::

        def check(candidate):
            with candidate.repository.reader(candidate.commit.id) as reader:
                assert reader.find(b"raw/orders.parquet") is not None

        with lakecli.publishing(sales, "main", checks=[check]) as branch:
            frame.to_parquet(f"{branch}/raw/orders.parquet")  # fsspec

    Args:
        repository: as `lakecli.open` returns it.
        destination: the name of a branch.
        checks: functions that get the `lakecli.repository.check.CheckedCommit` to check; a check
            fails if it raises an error or returns ``False``. If a
            `lakecli.repository.check.TreeCheck` with a name passes, a statement of this is written
            to the bucket.
        committer: ``Name <email>``; by default the committer of the settings.
        message: the message of the commits; by default it names the run.
        branch: the name of the branch; by default a new name. If an earlier run with this branch
            has failed or was killed, its branch is removed first.

    Yields:
        The run: ``str(run)`` is the URI of its branch, ``lakefs://REPOSITORY/BRANCH``, and
        ``run.name`` is the name of the branch. After the block, ``run.commit`` is the merge commit
        on the destination, or ``None`` if there was no new data.

    Raises:
        LakeError: see `lakecli.repository.run.running`.
    """
    from lakecli import opening
    from lakecli.repository.check import TreeCheck
    from lakecli.repository.run import RunOptions, running

    who = committer or opening.default_committer()
    named = [each if isinstance(each, TreeCheck) else TreeCheck(each) for each in checks]
    return running(repository, RunOptions(destination, who, branch, message), named)
