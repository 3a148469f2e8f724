"""Write a DataFrame to a branch: executors upload files, the driver commits them atomically.

Uploaded files are invisible until one transaction moves the branch. The commit contains the files
that successful tasks reported; files of tasks that failed or ran twice are left to garbage
collection.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.errors import AlreadyExists, LakeError, UsageError
from lakecli.pipeline.store_location import StoreLocation
from lakecli.repository.core.view import branch_at, open_view, view_of_branch
from lakecli.spark.options import option_text
from lakecli.spark.shape import arranged, shape_of
from lakecli.spark.snapshot import opened
from lakecli.uri import check_path, parse_path, ref_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from lakecli.model import Commit
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.transaction import Draft
    from lakecli.repository.core.view import View
    from lakecli.spark.sink import Shape, Sink
    from lakecli.staging.area import ClaimedValue

    Change = tuple[bytes, ClaimedValue | None]

MODES: Final = ("error", "append", "overwrite", "overwrite_partitions", "ignore")


class Written(NamedTuple):
    """What a write did.

    Attributes:
        files: number of files added.
        rows: number of rows in them.
        size: bytes of them.
        commit: the commit that added them; ``None`` if they are only staged, or nothing was done.
    """

    files: int
    rows: int
    size: int
    commit: Commit | None


class TableExists(AlreadyExists):
    """There are already objects below the table's path."""


def write_table(
    frame: DataFrame,
    uri: str,
    *,
    mode: str = "error",
    format: str = "parquet",
    partition_by: Sequence[str] = (),
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    committer: str = "",
    commit: bool = True,
    options: Mapping[str, Any] | None = None,
    home: str | Path | None = None,
) -> Written:
    """Write a DataFrame below a path of a branch, in one commit.

    With the setting ``sync = auto`` this fetches first, and the commit moves the branch in the
    bucket too, as ``lakecli commit`` does. If the bucket cannot be reached by then, the branch
    stays as it is.

    Args:
        frame: the rows. Each partition becomes a file in each directory for which it has rows.
        uri: ``lakefs://REPOSITORY/BRANCH/PATH``.
        mode: what to do if there are objects below the path: ``error`` refuses, ``ignore`` does
            nothing, ``append`` adds files, ``overwrite`` replaces all objects, and
            ``overwrite_partitions`` those in the directories of the rows.
        format: ``parquet``, ``csv`` or ``json`` (lines).
        partition_by: columns that become directories ``column=value``.
        message: commit message; by default one with the path.
        metadata: commit metadata.
        committer: committer; by default Spark's user.
        commit: ``False``: only stage the changes, in addition to other staged changes.
        options: ``compression``, ``maxRecordsPerFile``; for text also those of Spark's writer.
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.

    Raises:
        UsageError: the mode, the format or a column is unknown, or the URI is malformed.
        NotFound: the repository or the branch does not exist.
        TableExists: there are objects below the path, and the mode is ``error``.
        DirtyBranch: the branch has uncommitted changes, which the commit would not include.
        LostRace: the branch kept moving.
        Unreachable: executors died.
    """
    parsed = parse_path(uri, allow_empty=True)
    branch = ref_of(parsed)
    with opened(uri, home=home) as repository:
        from lakecli.repository.core.gate import claim_values
        from lakecli.uri import as_directory

        target = _Target(repository, branch, as_directory(parsed.path or b""), mode)
        shape = shape_of(frame, format=format, partition_by=partition_by, options=options or {})
        target.check(partition_by, commits=commit)
        if mode == "ignore" and target.exists():
            return Written(0, 0, 0, None)
        files = _upload(frame, repository, shape, options or {})
        # Some time may have passed since the first upload.
        additions = claim_values(repository, _additions(repository, target.prefix, files))
        written = Written(
            len(files), sum(file[3] for file in files), sum(f[2] for f in files), None
        )
        if not commit:
            target.stage(additions)
            return written
        user = committer or str(frame.sparkSession.sparkContext.sparkUser())
        text = message or f"Write {written.rows} rows to {uri.removeprefix('lakefs://')}"
        return written._replace(
            commit=target.commit(additions, message=text, committer=user, metadata=metadata or {})
        )


class _Target:
    """The path of a branch to write to, and the mode."""

    def __init__(self, repository: Repository, branch: str, prefix: bytes, mode: str) -> None:
        self._repository = repository
        self._branch = branch
        self.prefix = prefix
        self._mode = mode

    def check(self, partition_by: Sequence[str], *, commits: bool) -> None:
        """Refuse the write, if it will be refused, before anything is computed."""
        from lakecli.repository.core.clean import check_clean

        if self._mode not in MODES:
            raise UsageError(f"unknown mode {self._mode!r}", hint=f"one of {', '.join(MODES)}")
        if self._mode == "overwrite_partitions" and not partition_by:
            raise UsageError(
                "overwrite_partitions needs partition columns",
                hint='give partition_by=["column"], or mode="overwrite"',
            )
        with self._repository.lake.kv.read() as txn:
            branch_at(self._repository, txn, self._branch)
            if commits:
                check_clean(view_of_branch(self._repository, txn, self._branch))
        if self._mode == "error" and self.exists():
            raise self._taken()

    def exists(self) -> bool:
        """Return whether there are objects below the path."""
        with open_view(self._repository, self._branch) as view:
            return next(view.scan(prefix=self.prefix), None) is not None

    def _taken(self) -> TableExists:
        uri = f"{self._repository.uri}/{self._branch}/{self.prefix.decode(errors='replace')}"
        return TableExists(
            f"there are objects at {uri}", hint='give mode="append", "overwrite" or "ignore"'
        )

    def changes(
        self, view: View, additions: Sequence[tuple[bytes, ClaimedValue]]
    ) -> Iterator[Change]:
        """Yield the changes of the write relative to a view, in path order.

        Raises:
            TableExists: another process was first, and the mode is ``error``.
        """
        if self._mode == "error" and next(view.scan(prefix=self.prefix), None) is not None:
            raise self._taken()
        removed: Iterator[Change] = iter(())
        if self._mode.startswith("overwrite"):
            removed = ((path, None) for path in self._replaced(view, additions))
        return merge(removed, additions, key=_path)

    def _replaced(
        self, view: View, additions: Sequence[tuple[bytes, ClaimedValue]]
    ) -> Iterator[bytes]:
        if self._mode == "overwrite":
            prefixes = [self.prefix]
        else:
            prefixes = sorted({path.rpartition(b"/")[0] + b"/" for path, _ in additions})
        for prefix in prefixes:
            for path, _ in view.scan(prefix=prefix):
                yield path

    def commit(
        self,
        additions: Sequence[tuple[bytes, ClaimedValue]],
        *,
        message: str,
        committer: str,
        metadata: Mapping[str, str],
    ) -> Commit | None:
        """Commit the changes on top of the branch's present head.

        Returns:
            The commit; ``None`` if nothing changes.
        """
        from lakecli.committed.apply import apply
        from lakecli.repository.core.gate import claim_head
        from lakecli.repository.core.transaction import Draft, commit_clean

        trees = self._repository.trees

        def build(view: View) -> Draft:
            head = claim_head(view)
            applied = apply(trees, view.commit.metarange_id, self.changes(view, additions))
            if not (applied.added or applied.changed or applied.removed):
                raise _NoChange("nothing to write")
            return Draft(
                metarange_id=applied.metarange_id,
                parents=[head],
                message=message,
                committer=committer,
                created_at=self._repository.lake.now(),
                metadata=metadata,
            )

        try:
            return commit_clean(self._repository, self._branch, build, kind="commit")
        except _NoChange:
            return None

    def stage(self, additions: Sequence[tuple[bytes, ClaimedValue]]) -> None:
        """Stage the changes."""
        from lakecli.repository.core.stager import Stager
        from lakecli.staging.area import TOMBSTONE

        with open_view(self._repository, self._branch) as view:
            changes = [
                (path, TOMBSTONE if value is None else value)
                for path, value in self.changes(view, additions)
            ]
        Stager(self._repository, self._branch, kind="upload").write(changes)


class _NoChange(LakeError):
    """The write does not change the tree."""


def _path(change: Change) -> bytes:
    return change[0]


def _additions(
    repository: Repository, prefix: bytes, files: Sequence[tuple[str, str, int, int]]
) -> list[tuple[bytes, bytes]]:
    """Return path and encoded entry of each file, in path order."""
    from lakecli.committed.encode import encode_entry
    from lakecli.layout import data_key
    from lakecli.model import Entry
    from lakecli.repository.transfer.content_types import content_type_of

    now = repository.lake.now()
    additions = []
    for name, checksum, size, _ in files:
        path = prefix + name.encode()
        check_path(path)
        entry = Entry(data_key(checksum), size, checksum, now, content_type_of(path))
        additions.append((path, encode_entry(entry)))
    return sorted(additions)


def _upload(
    frame: DataFrame, repository: Repository, shape: Shape, options: Mapping[str, Any]
) -> list[tuple[str, str, int, int]]:
    """Write and upload all rows; return path, checksum, size and rows of each file."""
    from lakecli.pipeline.errors_as_json import carried, new_nonce
    from lakecli.pipeline.spark_runner import raise_translated
    from lakecli.spark.sink import RESULT_DDL, Sink

    sink = Sink(StoreLocation.of(repository), shape, _write_id(repository))
    rows = arranged(frame, shape, {name: option_text(value) for name, value in options.items()})

    nonce = new_nonce()

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from sink(batches)
        except LakeError as error:
            raise carried(error, nonce) from error

    try:
        files = [tuple(row) for row in rows.mapInArrow(write, RESULT_DDL).collect()]
    except Exception as error:  # noqa: BLE001 - whatever Spark and Py4J wrap it into
        raise_translated(error, nonce=nonce)
    if not files and not shape.partition_by:  # a DataFrame without partitions runs no task
        files = _empty(sink)
    return files


def _empty(sink: Sink) -> list[tuple[str, str, int, int]]:
    columns = sink.write(0, iter(())).to_pydict()
    return list(zip(*columns.values(), strict=True))


def _write_id(repository: Repository) -> str:
    from uuid import UUID

    return str(UUID(bytes=repository.lake.runtime.new_id()))
