"""Sum up the sizes of objects by prefix, both as listed and as stored.

Several paths may share one object: after a copy, or because equal bytes are stored once. Such an
object is counted for the first path only, as ``du`` counts a file with several hard links. Counted
objects are recorded on disk, so memory does not grow with their number.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from typing import Final

from lakecli.base.ids import RangeId
from lakecli.base.model import Entry
from lakecli.base.temporary_files import SqliteErrors
from lakecli.committed.diff import prefix_of
from lakecli.committed.values import decode_entry
from lakecli.refs.expression import parse_expression
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import View, open_view

_DIGEST: Final = 16
_CACHE: Final = "PRAGMA cache_size = -16384"
"""Limits the page cache of SQLite to 16 MiB."""


class PrefixUsage:
    """The number and sizes of the objects below one prefix.

    Attributes:
        prefix: the prefix of the paths, with its slash; ``None`` for all paths.
        size: total bytes of the objects, counted for each path.
        physical: total bytes of the objects that were not counted for an earlier path.
        shared: the part of `physical` that another branch or tag has, too; 0 if not requested.
    """

    __slots__ = ("objects", "physical", "prefix", "shared", "size")

    def __init__(self, prefix: bytes | None) -> None:
        self.prefix = prefix
        self.objects = self.size = self.physical = self.shared = 0

    def add(self, other: "PrefixUsage") -> None:
        """Add the counts of another prefix."""
        self.objects += other.objects
        self.size += other.size
        self.physical += other.physical
        self.shared += other.shared


@contextmanager
def du(
    repository: Repository, ref: str, prefix: bytes, *, depth: int = 1, shared: bool = False
) -> Iterator[Iterator[PrefixUsage]]:
    """Open a stream with the usage of each directory below a prefix; the last item is the total.

    The usage of a directory includes its subdirectories, which come before it.

    Args:
        ref: a ref; a plain branch includes its staging area.
        depth: how many levels of directories below the prefix; 0 for the total only.
        shared: also compare with all other branches and tags, which reads their trees.

    Raises:
        NotFound: no such ref.
        Unreachable: SQLite cannot write its temporary files, for example because the disk is full.
    """
    with open_view(repository, ref) as view, closing(sqlite3.connect("")) as database:
        database.isolation_level = None
        with SqliteErrors():
            for statement in (
                _CACHE,
                "PRAGMA journal_mode = OFF",
                "PRAGMA synchronous = OFF",
                "CREATE TABLE seen (id BLOB PRIMARY KEY) WITHOUT ROWID",
                "CREATE TABLE others (id BLOB PRIMARY KEY) WITHOUT ROWID",
                "BEGIN",
            ):
                database.execute(statement)
            if shared:
                database.executemany("INSERT OR IGNORE INTO others VALUES (?)", _iter_others(view))
        yield _iter_usage(view, prefix, depth, database)


def _iter_usage(
    view: View, prefix: bytes, depth: int, database: sqlite3.Connection
) -> Iterator[PrefixUsage]:
    base = prefix.rfind(b"/") + 1
    open_rows = [PrefixUsage(None)]
    for path, value in view.scan(prefix=prefix):
        found = path[:base] + prefix_of(path[base:], depth) if depth else path[:base]
        while len(open_rows) > 1 and not found.startswith(open_rows[-1].prefix or b""):
            closed = open_rows.pop()
            open_rows[-1].add(closed)
            yield closed
        while len(found) > (inside := len(open_rows[-1].prefix or path[:base])):
            open_rows.append(PrefixUsage(found[: found.index(b"/", inside) + 1]))
        open_rows[-1].add(_usage_of(decode_entry(value), database))
    while open_rows:
        closed = open_rows.pop()
        if open_rows:
            open_rows[-1].add(closed)
        yield closed


def _usage_of(entry: Entry, database: sqlite3.Connection) -> PrefixUsage:
    usage = PrefixUsage(None)
    usage.objects, usage.size = 1, entry.size
    identity = (_id_of(entry),)
    with SqliteErrors():
        if database.execute("INSERT OR IGNORE INTO seen VALUES (?)", identity).rowcount == 1:
            usage.physical = entry.size
            if database.execute("SELECT 1 FROM others WHERE id = ?", identity).fetchone():
                usage.shared = entry.size
    return usage


def _iter_others(view: View) -> Iterator[tuple[bytes]]:
    """Yield the objects of all other branches and tags; a range in several trees is read once."""
    repository, trees = view.repository, view.repository.trees
    refs = repository.refs(view.txn)
    own = (parse_expression(view.name).base, view.commit.id)
    heads = [commit_id for _, name, commit_id in refs.iter_refs() if (name, commit_id) != own]
    seen: set[RangeId] = set()
    for tree_id in {refs.get_commit(head).metarange_id for head in heads}:
        for record in trees.metarange(tree_id).records():
            if record.id in seen:
                continue
            seen.add(record.id)
            for _, value in trees.table(record).records():
                yield (_id_of(decode_entry(value)),)


def _id_of(entry: Entry) -> bytes:
    address = entry.physical_address.encode("utf-8", "surrogateescape")
    return blake2b(address, digest_size=_DIGEST).digest()
