from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import IntegrityError, NotFound, Refused
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.handoff.links import open_handoff
from lakecli.repository.handoff.manifest import (
    FORMATS,
    LinkFinding,
    LinkState,
    check,
    read_manifest,
)
from tests.support.lakes import stage

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.repository.contract import Repository
    from tests.support.signing import SigningStore

HOUR = timedelta(hours=1)


def manifest_of(repository: Repository, ref: str, kind: str = "json") -> tuple[str, datetime]:
    """Return a manifest of ``p/`` and when its links end."""
    with (
        FORMATS[kind]() as document,
        open_handoff(repository, ref, b"p", expires_in=HOUR) as handoff,
    ):
        for link in handoff:
            document.add(link)
        target = io.BytesIO()
        document.write(target, handoff.header, handoff.totals)
    assert handoff.totals.expires_at is not None
    return target.getvalue().decode("utf-8", "surrogateescape"), handoff.totals.expires_at


def checked(repository: Repository, manifest: str, now: datetime) -> dict[bytes, LinkFinding]:
    source, items = read_manifest(io.StringIO(manifest, newline=""))
    return {item.path: item for item in check(repository, source, items, now=now)}


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_each_object_has_its_state(repository: Repository, store: SigningStore, kind: str) -> None:
    stage(repository, "main", {b"p/a": b"1", b"p/\xff\n": b"2", b"p/c": b"3", b"p/d": b"4"})
    manifest, end = manifest_of(repository, "main", kind)
    now = end - HOUR
    fine = checked(repository, manifest, now)
    assert {path: item.state for path, item in fine.items()} == dict.fromkeys(
        [b"p/a", b"p/\xff\n", b"p/c", b"p/d"], LinkState.SAME
    )
    assert all((item.left, item.expires_at) == (HOUR, end) for item in fine.values())
    commit(repository, "main", message="m", committer="c")
    # Committed now, changed, deleted, and written again with the same contents.
    stage(repository, "main", {b"p/\xff\n": b"other", b"p/c": None, b"p/d": b"4", b"p/e": b"new"})
    assert {path: item.state for path, item in checked(repository, manifest, now).items()} == {
        b"p/a": LinkState.SAME,
        b"p/\xff\n": LinkState.CHANGED,
        b"p/c": LinkState.REMOVED,
        b"p/d": LinkState.SAME,
    }


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_line_is_read_within_a_bound(
    repository: Repository, store: SigningStore, kind: str
) -> None:
    stage(repository, "main", {b"p/a": b"1", b"p/b": b"2"})
    manifest, end = manifest_of(repository, "main", kind)
    bomb = manifest.replace("p/b", "p/b" + " " * (2 << 20))
    with pytest.raises(IntegrityError, match="damaged manifest"):
        checked(repository, bomb, end)


def test_a_link_expires_at_its_end(repository: Repository, store: SigningStore) -> None:
    stage(repository, "main", {b"p/a": b"1"})
    manifest, end = manifest_of(repository, "main")
    for left in (timedelta(seconds=1), timedelta(0), timedelta(seconds=-1)):
        item = checked(repository, manifest, end - left)[b"p/a"]
        assert item.left == left
        assert item.is_expired == (left <= timedelta(0))


def test_the_ref_is_compared_as_it_was_typed(repository: Repository, store: SigningStore) -> None:
    stage(repository, "main", {b"p/a": b"1"})
    made = commit(repository, "main", message="m", committer="c")
    by_branch, end = manifest_of(repository, "main")
    by_commit, _ = manifest_of(repository, made.id)
    by_head, _ = manifest_of(repository, "main@")
    stage(repository, "main", {b"p/a": b"2"})
    assert checked(repository, by_branch, end)[b"p/a"].state is LinkState.CHANGED
    assert checked(repository, by_head, end)[b"p/a"].state is LinkState.SAME
    commit(repository, "main", message="m", committer="c")
    assert checked(repository, by_head, end)[b"p/a"].state is LinkState.CHANGED
    assert checked(repository, by_commit, end)[b"p/a"].state is LinkState.SAME


def test_another_repository_or_a_missing_ref_is_refused(
    repository: Repository, store: SigningStore
) -> None:
    branch.create(repository, "dev", source="main")
    stage(repository, "dev", {b"p/a": b"1"})
    manifest, end = manifest_of(repository, "dev")
    with pytest.raises(Refused, match="another repository"):
        checked(repository, manifest.replace(repository.record.uuid, "f" * 32), end)
    branch.delete(repository, "dev")
    with pytest.raises(NotFound, match="dev"):
        checked(repository, manifest, end)
