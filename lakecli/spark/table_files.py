"""The files of a table at a ref: their list, and their bytes on an executor or the driver.

The commit that `read_table` has read is part of the query plan, as the alias of the table, so it
survives filters, joins and views: `origins` finds it. It is lost where Spark cuts the plan:
`checkpoint`, or rows that went through Python.
"""

from __future__ import annotations

import bz2
import gzip
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from io import BufferedReader, TextIOWrapper
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, NamedTuple, cast

from pyspark.sql import DataFrame

from lakecli import blocks
from lakecli.base.ids import CommitId
from lakecli.base.model import Entry
from lakecli.base.uri import as_directory, parse_path, ref_of
from lakecli.committed.values import decode_entry
from lakecli.engine.runner import StoreLocation
from lakecli.errors import NotFound, Unsupported, UsageError
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.reading.hadoop_names import is_read
from lakecli.repository.reading.recorded import Recorded, locate_recorded
from lakecli.repository.reading.view import no_such_path, open_view
from lakecli.spark.private_names import analyzed_plan, sent_plan
from lakecli.spark.sessions import is_connect
from lakecli.stores.contract import ObjectNotFound, ObjectStore

TASK_SIZE: Final = 32 << 20
"""Approximate bytes of the files that one task reads."""

OPEN_COST: Final = 1 << 20
"""Bytes that opening a file counts as."""

AT_ONCE: Final = 8
"""Files that are fetched at the same time, as each request takes a while."""

PACKED: Final = frozenset({"gz", "bz2", "snappy", "lz4", "zst", "zstd", "deflate"})
"""Extensions by which Spark knows compressed text."""

_UNPACKERS: Final[Mapping[str, Callable[[BinaryIO], object]]] = {"gz": gzip.open, "bz2": bz2.open}

_MAGIC: Final = b"PAR1"
_TAIL: Final = 64 << 10
_BOM: Final = b"\xef\xbb\xbf"


class TableFile(NamedTuple):
    """A file: its path below the table, its address relative to the namespace or a full URI.

    Attributes:
        checksum: recorded, as is `modified_at`.
    """

    name: str
    address: str
    size: int
    checksum: str = ""
    modified_at: datetime | None = None

    @classmethod
    def of(cls, name: str, entry: Entry) -> TableFile:
        """Return the file of an entry."""
        return cls(name, *Recorded.of(entry))

    @property
    def recorded(self) -> Recorded:
        """What is recorded of its bytes."""
        return Recorded(self.address, self.size, self.checksum, self.modified_at)

    @property
    def directory(self) -> str:
        """The name up to its last slash; ``""`` without one."""
        return self.name.rpartition("/")[0]


def table_files(repository: Repository, uri: str) -> tuple[list[TableFile], Origin | None]:
    """Return the files that Spark would read below a path, by name, and the commit of a branch.

    The ref is resolved here, once. A path that names an object is a table of one file.

    Raises:
        UsageError: a name is not valid in a directory, or not UTF-8.
        NotFound: the ref does not exist, or there is nothing to read.
        LakeError: the address of a file may not or cannot be read; see `address.Resolver`.
    """
    parsed = parse_path(uri, allow_empty=True, anywhere=True)
    path = parsed.path or b""
    below = as_directory(path)
    with open_view(repository, blocks.find_in(repository, ref_of(parsed))) as view:
        found = [(key[len(below) :], value) for key, value in view.scan(prefix=below)]
        alone = None if found or path == below else view.find(path)
        if alone is not None:
            found = [(path.rpartition(b"/")[2], alone)]
        branch = None  # nobody writes back what is read without a clone
        if parsed.namespace is None:
            branch = RefStore(view.txn, repository.key).find_branch(ref_of(parsed))
        origin = branch and Origin(repository.record.name, branch.name, view.commit.id)
    if not found:
        raise no_such_path(repository, ref_of(parsed), path)
    files = []
    for key, value in found:
        name = _checked(key, uri)
        if is_read(name):
            entry = decode_entry(value)
            repository.addresses.check(entry.physical_address)
            files.append(TableFile.of(name, entry))
    if not files:
        raise NotFound(
            f"nothing to read at {uri}",
            hint="all names begin with '_' or '.', which Spark ignores",
        )
    return files, origin


def packing_of(name: str) -> str:
    """Return the extension that says how a file of text is compressed; ``""`` if it is not."""
    _, dot, extension = name.rpartition("/")[2].rpartition(".")
    return extension.lower() if dot and extension.lower() in PACKED else ""


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


def tasks_of(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """Return the files of each task."""
    tasks: list[list[TableFile]] = []
    size = 0
    for file in files:
        if not tasks or size + file.size > TASK_SIZE:
            tasks.append([])
            size = 0
        tasks[-1].append(file)
        size += file.size + OPEN_COST
    return tasks


def fetched(
    location: StoreLocation, files: Sequence[TableFile]
) -> Iterator[tuple[TableFile, BinaryIO]]:
    """Yield files in order, each open on this machine, while the next ones are fetched."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for file, source in zip(files, pool.map(partial(_fetch, location), files), strict=True):
            with source:
                yield file, source


def _locate(location: StoreLocation, file: TableFile) -> tuple[ObjectStore, str]:
    # A namespace that is read without a clone has its URI in place of a name.
    uri = location.name if "/" in location.name else f"lakefs://{location.name}"
    return locate_recorded(location.addresses(), file.recorded, uri)


def _fetch(location: StoreLocation, file: TableFile) -> BinaryIO:
    store, key = _locate(location, file)
    try:
        source = store.open(key)
    except ObjectNotFound:
        raise _gone(location, file) from None
    if isinstance(source, BufferedReader) and source.seekable():
        return source  # it is a file of this machine
    copy = TemporaryFile(prefix="lakecli-")  # noqa: SIM115 - the caller closes it
    with source:
        shutil.copyfileobj(source, copy, 1 << 20)
    copy.seek(0)
    return copy


def read_footer(location: StoreLocation, file: TableFile) -> bytes:
    """Return the end of a Parquet file behind its data, which describes it; refuse other files."""
    store, key = _locate(location, file)
    try:
        tail = store.get(key, start=max(0, file.size - _TAIL), length=min(file.size, _TAIL))
        size = int.from_bytes(tail[-8:-4], "little") + 8
        if not tail.endswith(_MAGIC) or not len(_MAGIC) < size <= file.size - len(_MAGIC):
            raise UsageError(
                f"Spark cannot read {file.name}, which is not a Parquet file",
                hint='a table in CSV or JSON needs its format: read_table(…, format="csv")',
            )
        if size > len(tail):
            tail = store.get(key, start=file.size - size, length=size)
    except ObjectNotFound:
        raise _gone(location, file) from None
    return _MAGIC + tail[-size:]


def _gone(location: StoreLocation, file: TableFile) -> NotFound:
    where = file.address if "://" in file.address else f"{location.uri}/{file.address}"
    return NotFound(
        f"the data object of {file.name} is missing: {where}",
        hint="check the repository by fsck, which names all paths that need the object",
    )


def iter_lines(source: BinaryIO, file: TableFile) -> Iterator[bytes]:
    """Yield the lines of a text that are not blank, decompressed by the name of its file."""
    packing = packing_of(file.name)
    if packing and packing not in _UNPACKERS:
        raise Unsupported(
            f"{file.name} is compressed by {packing}, which is not supported in a bucket",
            hint="use gz or bz2, or download the files and read them there",
        )
    if packing:
        source = cast("BinaryIO", _UNPACKERS[packing](source))
    begin = _BOM
    with TextIOWrapper(source, "latin-1") as texts:  # ends lines by CR, LF or both, as Spark does
        for text in texts:
            line = text.encode("latin-1").removesuffix(b"\n").removeprefix(begin)
            begin = b""
            if line.strip():
                yield line


_ALIAS: Final = re.compile(r"lakefs://([^/@]+)/(.+)@([0-9a-f]{64})")
_NODE: Final = "SubqueryAlias"


class Origin(NamedTuple):
    """A commit from which rows were read: the head of a branch of a repository of this machine."""

    repository: str
    branch: str
    commit_id: CommitId

    @property
    def alias(self) -> str:
        """The origin as the alias of a table."""
        return f"lakefs://{self.repository}/{self.branch}@{self.commit_id}"


def origins(frame: DataFrame) -> list[Origin]:
    """Return the commits that the rows of a DataFrame were read from, each once.

    Only tables that were read by the name of a branch count. Who reads a tag, a commit or
    ``main~1`` means an old state.
    """
    names = _aliases_sent(frame) if is_connect(frame.sparkSession) else _aliases(frame)
    found = (_ALIAS.fullmatch(name) for name in names)
    return list(
        dict.fromkeys(Origin(match[1], match[2], CommitId(match[3])) for match in found if match)
    )


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

    Views of the server are only names in it, so their rows come from an unknown commit.
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
