"""Writes that happen exactly once, and the commits that the rows of a DataFrame come from.

The commit that `read_table` has read is part of the query plan, as the alias of the table, so it
survives filters, joins and views. It is lost where Spark cuts the plan: `checkpoint`, or rows that
went through Python.

A commit records the application and the version of its batch in its metadata, so the record is
shared, merged and reset with the branch. It belongs to one table, as one batch may write several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.base.ids import CommitId
from lakecli.base.model import Commit
from lakecli.errors import UsageError
from lakecli.refs.ref_store import CommitReader, get_commit, get_parent
from lakecli.repository.cherry_pick import CHERRY_PICK_ORIGIN
from lakecli.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    waiting: list[Any] = [frame._jdf.queryExecution().analyzed()]  # noqa: SLF001
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
    waiting: list[Any] = [frame._plan.to_proto(frame.sparkSession.client)]  # noqa: SLF001
    while waiting:
        node = waiting.pop()
        if node.DESCRIPTOR.name == _NODE:
            yield str(node.alias)
        for field, value in node.ListFields():
            if field.message_type is None or field.message_type.GetOptions().map_entry:
                continue
            waiting += [value] if hasattr(value, "DESCRIPTOR") else list(value)


APP: Final = "lakecli.txn.app"
VERSION: Final = "lakecli.txn.version"
TABLE: Final = "lakecli.txn.table"

_MAX: Final = (1 << 63) - 1
_NUMBER: Final = re.compile("[0-9]{1,19}")


class StreamBatch(NamedTuple):
    """A batch of an application, to be written to a table once; later ones have larger versions."""

    app: str
    version: int
    table: str

    @property
    def metadata(self) -> dict[str, str]:
        """The record in the commit's metadata."""
        return {APP: self.app, VERSION: str(self.version), TABLE: self.table}

    def is_written(self, reader: CommitReader, head: Commit) -> bool:
        """Return whether a commit or its history has this batch or a later one.

        The walk does not go behind a commit that records the application and the table: when that
        was made, its history had earlier batches only. That is not so for cherry-picks.
        """
        waiting = [get_commit(reader, head.id)]
        seen = {head.id}
        while waiting:
            commit = waiting.pop()
            version = self._recorded(commit)
            if version is not None and version >= self.version:
                return True
            if version is None or CHERRY_PICK_ORIGIN in commit.metadata:
                fresh = [parent for parent in commit.parents if parent not in seen]
                seen.update(fresh)
                waiting += (get_parent(reader, commit, parent) for parent in fresh)
        return False

    def _recorded(self, commit: Commit) -> int | None:
        """Return the version that a commit records of this application and table, or ``None``."""
        metadata = commit.metadata
        if metadata.get(APP) != self.app or metadata.get(TABLE) != self.table:
            return None
        return int(found[0]) if (found := _NUMBER.fullmatch(metadata.get(VERSION, ""))) else None


def batch_of(txn: tuple[str, int] | None, table: bytes) -> StreamBatch | None:
    """Return the batch that ``txn=`` names, if any; refuse what is none by a `UsageError`."""
    if txn is None:
        return None
    match txn:
        case (str(app), int(version)) if app and type(version) is int and 0 <= version <= _MAX:
            return StreamBatch(app, version, table.decode(errors="backslashreplace"))
        case _:
            raise UsageError(
                f"txn is not an application and a version: {txn!r}",
                hint='for example txn=("orders", batch_id); the version is 0 or more',
            )
