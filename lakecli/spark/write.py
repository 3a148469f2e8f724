"""Write a DataFrame to a branch: executors upload files, the driver commits them atomically.

Uploaded files are invisible until one transaction moves the branch. The commit contains the files
that successful tasks reported; files of tasks that failed or ran twice are left to garbage
collection.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

from lakecli import blocks
from lakecli.base.model import Commit
from lakecli.base.retry import DRIVERS, Retries
from lakecli.base.uri import as_directory, parse_path, ref_of
from lakecli.engine.errors_as_json import carried, new_nonce
from lakecli.engine.executors import hint_for_executors
from lakecli.engine.spark_runner import raise_translated
from lakecli.errors import LakeError, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_values
from lakecli.spark import file_writer
from lakecli.spark.file_writer import TableFileWriter, UploadedFile
from lakecli.spark.schema_check import SchemaCheck
from lakecli.spark.sessions import check_server, hints_told, names_of, opened, option_text, user_of
from lakecli.spark.table_files import origins
from lakecli.spark.target import WriteTarget, batch_of
from lakecli.staging.area import ClaimedValue


class WriteResult(NamedTuple):
    """The result of a write.

    Attributes:
        files: the number of files.
        rows: the number of rows in the files.
        size: the total size of the files in bytes.
        commit: the commit that added the files; ``None`` if they are only staged, or if nothing was
            done.
    """

    files: int
    rows: int
    size: int
    commit: Commit | None


_NOTHING: Final = WriteResult(0, 0, 0, None)


@hints_told()
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
    expected: str = "",
    txn: tuple[str, int] | None = None,
    mergeSchema: bool = False,  # noqa: N803 - Spark's name
    options: Mapping[str, Any] | None = None,
    home: str | Path | None = None,
) -> WriteResult:
    """Write a DataFrame below a path of a branch, in one commit.

    With the setting ``sync = auto`` the repository fetches first, and the commit moves the branch
    in the bucket, too, as ``lakecli commit`` does. If the bucket is unreachable at that moment, the
    branch does not move.

    Within a block of ``fs.committing`` on the branch, the changes become part of the block's
    commit, and this call makes no commit.

    Args:
        frame: the rows. Each partition becomes a file in each directory for which it has rows.
        uri: ``lakefs://REPOSITORY/BRANCH/PATH``.
        mode: what to do if there are objects below the path: ``error`` raises an error, ``ignore``
            does nothing, ``append`` adds files, ``overwrite`` replaces all objects, and
            ``overwrite_partitions`` replaces the objects in the directories of the rows. These two
            overwriting modes fail with a conflict if the objects to replace have changed since
            `expected`; see `lakecli.spark.target`.
        format: ``parquet``, ``csv`` or ``json`` (lines).
        partition_by: columns that become directories ``column=value``; a string is one column.
        message: commit message; the default message contains the path.
        commit: ``False``: only stage the changes, in addition to other staged changes.
        expected: the commit on which the rows are based, or a ref that names it. By default, the
            commit of this branch from which the rows were read, or the present head.
        txn: an application and the number of its batch, such as ``("app", 17)``. If the branch's
            history has this batch for the table, or a later one, nothing is done.
        mergeSchema: for `append` and `overwrite_partitions` of Parquet: the rows may have new
            columns, lack columns, or have wider decimals than the table. Otherwise, the rows must
            have the columns and types of the table at the head. An option ``mergeSchema`` in
            `options` has the same effect.
        options: ``compression`` and ``maxRecordsPerFile``; for text formats, also options of
            Spark's writer.
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.

    Raises:
        UsageError: the mode, the format or a column is unknown, or the URI is malformed.
        NotFound: the repository or the branch does not exist.
        TableExists: there are objects below the path, and the mode is ``error``.
        SchemaMismatch: the rows have other columns or types than the table.
        TableChanged: objects to replace have changed since `expected`; ``paths`` lists them.
        DirtyBranch: the branch has uncommitted changes, which the commit would not include.
        LostRace: others kept moving the branch.
        Unreachable: executors were lost.
    """
    parsed = parse_path(uri, allow_empty=True)
    branch = ref_of(parsed)
    partition_by = names_of(partition_by)
    check_server(frame.sparkSession)
    if frame.isStreaming:
        hint = "write its batches: writeStream.foreachBatch(FUNCTION)"
        raise UsageError("the rows are a stream, which has no end", hint=hint)
    if mode == "overwrite_partitions" and not partition_by:
        hint = 'give partition_by=["column"], or mode="overwrite"'
        raise UsageError("overwrite_partitions needs partition columns", hint=hint)
    if txn is not None and not commit:
        raise UsageError(
            "a batch is recorded in a commit: txn does not go with commit=False",
            hint="leave out one of them",
        )
    with opened(uri, home=home) as repository:
        if (block := blocks.find_in(repository, branch)) != branch:
            if txn is not None:
                raise UsageError(
                    f"a batch is recorded in a commit of its own, and a block on {branch} is open",
                    hint="write the batch outside of the block, or leave out txn",
                )
            branch, commit = block, False
            expected = expected and blocks.find_in(repository, expected)
        prefix = as_directory(parsed.path or b"")
        batch = batch_of(txn, prefix)
        given = options or {}
        spark = frame.sparkSession

        what = (uri, prefix, format, partition_by, given, mergeSchema, spark)
        check = SchemaCheck(frame.schema, repository, *what)
        target = WriteTarget(repository, branch, prefix, mode=mode, batch=batch, check=check.check)
        if not target.begin(expected=expected, read=origins(frame), commits=commit):
            return _NOTHING
        frame = check.adapted(frame)
        by, version = partition_by, str(spark.version)
        layout = file_writer.layout_of(
            frame.schema, format=format, partition_by=by, options=given, version=version
        )
        if format == "csv":
            header = file_writer.header_of(frame, partition_by=by, options=given)
            layout = layout._replace(header=header)
        files = _upload(frame, repository, layout, given)
        made = None
        if not commit:
            target.stage(_claimed(repository, target, files))
        else:
            user = committer or user_of(spark)
            text = {"uri": uri, "message": message, "committer": user}
            made = commit_files(repository, target, files, **text, metadata=metadata or {})
            if made is None:
                return _NOTHING
        rows, size = sum(each.rows for each in files), sum(each.size for each in files)
        return WriteResult(len(files), rows, size, made)


def commit_files(
    repository: Repository,
    target: WriteTarget,
    files: Sequence[UploadedFile],
    *,
    uri: str,
    message: str,
    committer: str,
    metadata: Mapping[str, str],
) -> Commit | None:
    """Commit uploaded files; return ``None`` if nothing changes."""
    rows = sum(each.rows for each in files)
    text = message or f"Write {rows} rows to {uri.removeprefix('lakefs://')}"
    additions = _claimed(repository, target, files)
    made = partial(target.commit, additions, message=text, committer=committer, metadata=metadata)
    # If the store was unreachable, nothing has changed, so the whole commit can be retried.
    return Retries(DRIVERS).call(made)


def _claimed(
    repository: Repository, target: WriteTarget, files: Sequence[UploadedFile]
) -> list[tuple[bytes, ClaimedValue]]:
    """Return new entries for files, and claim their objects again, as uploads may take long."""
    entries = file_writer.new_entries(repository, target.prefix, files)
    return Retries(DRIVERS).call(partial(claim_values, repository, entries))


def _upload(
    frame: DataFrame,
    repository: Repository,
    layout: file_writer.FileLayout,
    options: Mapping[str, Any],
) -> list[UploadedFile]:
    """Write all rows to files on executors, upload the files, and return them."""
    writer = TableFileWriter.of(repository, layout)
    given = {name: option_text(value) for name, value in options.items()}
    rows = file_writer.arranged(frame, layout, given)
    nonce = new_nonce()

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from writer(batches)
        except LakeError as error:
            raise carried(hint_for_executors(error), nonce) from error

    try:
        found = rows.mapInArrow(write, file_writer.RESULT).collect()
    except Exception as error:  # noqa: BLE001 - whatever Spark and Py4J wrap it into
        raise_translated(error, nonce=nonce)
    return writer.or_empty([UploadedFile(*row) for row in found])
