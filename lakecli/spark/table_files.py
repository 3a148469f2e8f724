"""Find the files of a table at a ref, and read the footers of its Parquet files.

`read_table` records the commit that it reads in the query plan, as the alias of the table. Filters,
joins and views keep the alias, and `origins` finds it. The commit is lost where Spark starts a new
plan: after `checkpoint`, or for rows that passed through Python.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

from lakecli import blocks
from lakecli.base.ids import CommitId
from lakecli.base.uri import as_directory, parse_path, ref_of
from lakecli.committed.values import decode_entry
from lakecli.engine.object_reader import TableFile, read_piece
from lakecli.engine.runner import StoreLocation
from lakecli.errors import NotFound, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.hadoop_names import is_read
from lakecli.repository.reading.recorded import Recorded
from lakecli.repository.reading.view import no_such_path, open_view
from lakecli.spark.private_names import analyzed_plan, sent_plan
from lakecli.spark.sessions import is_connect

_MAGIC: Final = b"PAR1"
_TAIL: Final = 64 << 10


def table_files(repository: Repository, uri: str) -> "tuple[list[TableFile], Origin | None]":
    """Return the files that Spark would read below a path, and the origin of the rows.

    This function resolves the ref once. If the path names an object, the table is this one file.
    The files are sorted by name.

    Returns:
        The files, and the head of the branch as the origin; ``None`` if the ref is not a branch.

    Raises:
        UsageError: a name is not UTF-8, or not valid as the name of a file in a directory.
        NotFound: the ref does not exist, or there are no files below the path.
        LakeError: the address of a file is not allowed or cannot be read; see
            `lakecli.repository.reading.addresses.Resolver`.
    """
    parsed = parse_path(uri, allow_empty=True, anywhere=True)
    path = parsed.path or b""
    below = as_directory(path)
    with open_view(repository, blocks.find_in(repository, ref_of(parsed))) as view:
        found = [(key[len(below) :], value) for key, value in view.scan(prefix=below)]
        alone = None if found or path == below else view.find(path)
        if alone is not None:
            found = [(path.rpartition(b"/")[2], alone)]
        branch = None  # without a clone, nothing can be written back
        if parsed.namespace is None:
            branch = repository.refs(view.txn).find_branch(ref_of(parsed))
        origin = branch and Origin(repository.record.name, branch.name, view.commit.id)
    if not found:
        raise no_such_path(repository, ref_of(parsed), path)
    files = []
    for key, value in found:
        name = _checked(key, uri)
        if is_read(name):
            entry = decode_entry(value)
            repository.addresses.check(entry.physical_address)
            files.append(TableFile(name, Recorded.of(entry)))
    if not files:
        hint = "all names begin with '_' or '.', which Spark ignores"
        raise NotFound(f"nothing to read at {uri}", hint=hint)
    return files, origin


def _checked(key: bytes, uri: str) -> str:
    try:
        name = key.decode()
    except UnicodeDecodeError:
        name = ""
    if not all(name.split("/")) or "\0" in name:
        raise UsageError(
            "not a table: an object has a path that is not UTF-8, or not valid in a directory: "
            f"{key!r} at {uri}",
            hint="name a path below it, or move the object",
        )
    return name


def read_footer(location: StoreLocation, file: TableFile) -> bytes:
    """Return the footer of a Parquet file.

    Raises:
        UsageError: the file is not a Parquet file.
    """
    end = file.recorded.size
    start = max(0, end - _TAIL)
    tail = read_piece(location, file, start, end - start)
    size = int.from_bytes(tail[-8:-4], "little") + 8
    if not tail.endswith(_MAGIC) or not len(_MAGIC) < size <= end - len(_MAGIC):
        hint = 'a table in CSV or JSON needs its format: read_table(…, format="csv")'
        raise UsageError(f"Spark cannot read {file.name}, which is not a Parquet file", hint=hint)
    if size > len(tail):
        tail = read_piece(location, file, end - size, size)
    return _MAGIC + tail[-size:]


_ALIAS: Final = re.compile(r"lakefs://([^/@]+)/(.+)@([0-9a-f]{64})")
_NODE: Final = "SubqueryAlias"


class Origin(NamedTuple):
    """The commit from which rows were read, and the branch whose head it was at that time."""

    repository: str
    branch: str
    commit_id: CommitId

    @property
    def alias(self) -> str:
        """The origin, encoded as the alias of a table."""
        return f"lakefs://{self.repository}/{self.branch}@{self.commit_id}"


def origins(frame: DataFrame) -> list[Origin]:
    """Return the commits from which the rows of a DataFrame were read, without duplicates.

    Only tables that were read by the name of a branch count: a user who reads a tag, a commit or
    ``main~1`` chose that state, which need not be the newest.
    """
    names = _aliases_sent(frame) if is_connect(frame.sparkSession) else _aliases(frame)
    found = (_ALIAS.fullmatch(name) for name in names)
    all_read = (Origin(match[1], match[2], CommitId(match[3])) for match in found if match)
    return list(dict.fromkeys(all_read))


def _aliases(frame: DataFrame) -> Iterator[str]:
    """Yield the aliases in a DataFrame's query plan and its subqueries."""
    waiting: list[Any] = [analyzed_plan(frame)]
    while waiting:
        node = waiting.pop()
        if node.nodeName() == _NODE:
            yield str(node.alias())
        for below in (node.children(), node.subqueries()):
            waiting += (below.apply(at) for at in range(below.size()))


def _aliases_sent(frame: Any) -> Iterator[str]:  # noqa: ANN401 - a DataFrame of Spark Connect
    """Yield the aliases in the plan that a client of Spark Connect sends.

    The plan contains only the names of views on the server, so the commits of the rows of views are
    unknown.
    """
    waiting: list[Any] = [sent_plan(frame)]
    while waiting:
        node = waiting.pop()
        if node.DESCRIPTOR.name == _NODE:
            yield str(node.alias)
        for field, value in node.ListFields():
            if field.message_type is None or field.message_type.GetOptions().map_entry:
                continue
            waiting += [value] if hasattr(value, "DESCRIPTOR") else list(value)
