"""What was annotated before, kept in the cache of tables.

A commit and its ancestors never change, so neither does the answer which of them changed an object
last. For each question (a path, and how it is asked) one table keeps the answers at the last commit
that was asked; a walk from a later commit takes them where it meets that commit. A table that is
missing, damaged, or names commits that are not here, is no answer: the walk goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakecli.identity import h
from lakecli.ids import CommitId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakecli.committed.cache import SstableCache
    from lakecli.model import Commit
    from lakecli.refs.ref_store import RefStore
    from lakecli.repository.core.lake import Repository

_TYPE: Final = b"annotations-1"
_COMMIT: Final = "commit"
_ID_SIZE: Final = 32

_LARGEST: Final = 64 << 20
"""Bytes of a table that is read, at most."""


class KeptAnnotations:
    """The answers to one question at one commit.

    Args:
        repository: the repository.
        refs: has the commits.
        path: that is annotated.
        recursive: whether all objects below it are.
        first_parent: whether only first parents are followed.

    Attributes:
        commit_id: of the commit; ``""`` if nothing is kept.
    """

    def __init__(
        self,
        repository: Repository,
        refs: RefStore,
        path: bytes,
        *,
        recursive: bool,
        first_parent: bool,
    ) -> None:
        from lakecli.committed.cache import SstableCache

        home = repository.lake.home
        self._cache: SstableCache = SstableCache(
            Path(home.cache) / repository.record.uuid, size_limit=home.cache_size
        )
        self._name = h(b"%b:%d%d:%b" % (_TYPE, recursive, first_parent, path)).hex()
        self._refs = refs
        self.commit_id = ""
        self._answers: Mapping[bytes, bytes] = {}
        self._load()

    def _load(self) -> None:
        from lakecli.sstable.format import CorruptTable
        from lakecli.sstable.reader import Table
        from lakecli.sstable.source import BytesSource

        path = self._cache.find(self._name)
        if path is None:
            return
        try:
            with Path(path).open("rb") as file:
                data = file.read(_LARGEST + 1)
            table = Table(BytesSource(path, data))
            blocks = table.read_all()
        except (OSError, CorruptTable):
            self._cache.drop(self._name)
            return
        if table.properties.get("type") == _TYPE and set(map(len, blocks.values)) <= {_ID_SIZE}:
            self._answers = dict(zip(blocks.keys, blocks.values, strict=True))
            self.commit_id = table.properties.get(_COMMIT, b"").decode("ascii", "replace")

    def find(self, items: Sequence[bytes], at: Commit) -> dict[bytes, Commit]:
        """Return the commits that changed items last, of those that are kept."""
        commits: dict[bytes, Commit | None] = {}
        found = {}
        for item in items:
            answer = self._answers.get(item)
            if answer is None:
                continue
            if answer not in commits:
                commits[answer] = self._refs.find_commit(CommitId.of_bytes(answer))
            commit = commits[answer]
            if commit is not None and commit.generation <= at.generation:
                found[item] = commit
        return found

    def keep(self, commit: Commit, found: Mapping[bytes, Commit]) -> None:
        """Keep the answers at a commit, in place of those at another one."""
        from lakecli.sstable.writer import TableWriter

        table = TableWriter(properties={"type": _TYPE, _COMMIT: commit.id.encode()})
        items = sorted(found)
        table.add_many(items, [bytes.fromhex(found[item].id) for item in items])
        self._cache.put(self._name, table.finish())
