"""What a write stages, without a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.committed.values import encode_entry
from lakecli.repository.commit import commit
from lakecli.spark.target import TableChanged, TableExists, WriteTarget
from tests.support.lakes import entry_of, read, stage, unclaimed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakecli.repository.contract import Repository
    from lakecli.repository.reading.view import View
    from lakecli.spark.target import Addition, Change

MINE = unclaimed([(b"t/part-mine", encode_entry(entry_of(b"mine")))])


class Slow(WriteTarget):
    """A write, while which somebody else writes to the table."""

    commits = False
    is_disturbed = False

    def changes(self, view: View, additions: Sequence[Addition]) -> Iterator[Change]:
        found = list(super().changes(view, additions))
        if not self.is_disturbed:
            self.is_disturbed = True
            stage(self.repository, "main", {b"t/theirs": b"theirs"})
            if self.commits:
                commit(self.repository, "main", message="theirs", committer="me")
        return iter(found)


@pytest.fixture
def target(repository: Repository) -> Slow:
    stage(repository, "main", {b"t/old": b"old", b"other": b"other"})
    commit(repository, "main", message="first", committer="me")
    return Slow(repository, "main", b"t/", mode="overwrite")


def test_a_file_staged_meanwhile_is_overwritten(target: Slow) -> None:
    assert target.begin(expected="", read=(), commits=False)
    target.stage(MINE)
    assert sorted(read(target.repository, "main")) == [b"other", b"t/part-00000003-mine"]


def test_a_file_committed_meanwhile_is_not_overwritten(target: Slow) -> None:
    target.commits = True
    assert target.begin(expected="", read=(), commits=False)
    with pytest.raises(TableChanged):
        target.stage(MINE)
    assert sorted(read(target.repository, "main")) == [b"other", b"t/old", b"t/theirs"]


def test_a_table_created_meanwhile_is_not_added_to(repository: Repository) -> None:
    target = Slow(repository, "main", b"t/", mode="error")
    assert target.begin(expected="", read=(), commits=False)
    with pytest.raises(TableExists):
        target.stage(MINE)
    assert sorted(read(repository, "main")) == [b"t/theirs"]
