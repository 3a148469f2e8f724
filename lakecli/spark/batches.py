"""Writes that happen exactly once: a commit records the application and the version of its batch.

The record is in the commit's metadata, so it is shared, merged and reset with the branch. It
belongs to one table, as one batch may write several.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lakecli.base.model import Commit
from lakecli.errors import UsageError
from lakecli.refs.reader import CommitReader, get_commit, get_parent
from lakecli.repository.records.commits import CHERRY_PICK_ORIGIN

APP: Final = "lakecli.txn.app"
VERSION: Final = "lakecli.txn.version"
TABLE: Final = "lakecli.txn.table"

_MAX: Final = (1 << 63) - 1
_NUMBER: Final = re.compile("[0-9]{1,19}")


class Batch(NamedTuple):
    """A batch of an application, to be written to a table once.

    Attributes:
        app: name of the application.
        version: number of the batch; later batches have larger ones.
        table: path of the table.
    """

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

        Raises:
            DamagedHistory: a commit of the history is missing.
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


def batch_of(txn: tuple[str, int] | None, table: bytes) -> Batch | None:
    """Return the batch that ``txn=`` names, if any.

    Raises:
        UsageError: it is not the name of an application and a number.
    """
    if txn is None:
        return None
    match txn:
        case (str(app), int(version)) if app and type(version) is int and 0 <= version <= _MAX:
            return Batch(app, version, table.decode(errors="backslashreplace"))
        case _:
            raise UsageError(
                f"txn is not an application and a version: {txn!r}",
                hint='for example txn=("orders", batch_id); the version is 0 or more',
            )
