"""What a bucket has lost, and what it may lose.

A sweep may delete only what nobody has staged within the grace period. A bucket that is restored
from a backup has lost what came after the backup. Nothing else may be missing, so a command may
report damage only where its clone refers to such an object.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lakecli.base.layout import data_digest, data_key, sstable_key
from lakecli.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository
    from tests.meetings.world import Machines

GRACE: Final = timedelta(days=14)
PREFIX: Final = "demo/"


class Losses:
    """The objects that were in the bucket and are gone.

    Args:
        world: whose bucket.
    """

    def __init__(self, world: Machines) -> None:
        self._world = world
        self._gone: set[str] = set()
        self._staged_at: dict[str, datetime] = {}
        self._tables: dict[str, set[str]] = {}

    def note_staged(self, staged: Iterable[str | None]) -> None:
        """Note that somebody has just staged these bytes."""
        for each in staged:
            if each is not None:
                self._staged_at[each.split()[0]] = self._world.now

    def note_sweep(self, before: set[str]) -> list[str]:
        """Note what a collection has deleted; return what it must not delete.

        Args:
            before: the keys in the bucket before it ran.
        """
        deleted = before - self.keys()
        self._gone |= deleted
        return [
            key
            for key in deleted
            if (digest := data_digest(key)) is not None
            and (staged_at := self._staged_at.get(digest)) is not None
            and self._world.now - staged_at < GRACE
        ]

    def note_rollback(self, before: set[str]) -> None:
        """Note that the bucket was restored from a backup: what came after it protects nothing."""
        self._gone |= before - self.keys()
        self._staged_at.clear()

    def keys(self) -> set[str]:
        """Return the keys in the bucket."""
        return {key.removeprefix(PREFIX) for key in self._world.bucket.objects}

    def missing(self, keys: Iterable[str]) -> set[str]:
        """Return those that the bucket has lost and that nobody has uploaded again."""
        return self._gone.intersection(keys) - self.keys()

    def learn(self, repository: Repository, commit: Commit) -> None:
        """Note which tables a commit refers to, as far as they can be read."""
        if not commit.metarange_id or len(self._tables.get(commit.id, ())) > 1:
            return
        tables = self._tables[commit.id] = {sstable_key(commit.metarange_id)}
        with suppress(LakeError):  # it is lost itself
            records = repository.trees.metarange(commit.metarange_id).records()
            tables.update(sstable_key(each.id) for each in records)

    def tables_of(self, commit_id: str) -> set[str]:
        """Return the keys of a commit's tables."""
        return self._tables.get(commit_id, set())


def data_keys(values: Iterable[str | None]) -> set[str]:
    """Return the keys of the data objects of what is at paths; see `model.Tree`."""
    return {data_key(each.split()[0]) for each in values if each is not None}
