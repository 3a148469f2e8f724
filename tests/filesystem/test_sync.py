"""The setting ``sync`` in the file system: it shares as the command line does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import RefKind
from lakecli.errors import ErrorKind, LakeWarning
from lakecli.filesystem.paths import LakeFileError
from lakecli.remote.refs import find_ref
from lakecli.repository import branch
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.push import PushOptions, push
from lakecli.repository.sharing.set_policy import set_policy
from tests.support.clones import machine
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.filesystem import LakeFileSystem
    from lakecli.repository.contract import Repository

MAIN = "lakefs://demo/main"
ME = PushOptions(who="Bob <bob@example.com>")


@pytest.fixture(autouse=True)
def auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECLI_SYNC", "auto")
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada")
    monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.com")


@pytest.fixture
def bob(fs: LakeFileSystem, demo: Path, tmp_path: Path) -> Iterator[Repository]:
    """Return another machine's clone, after a first commit by the file system."""
    fs.pipe(f"{MAIN}/a", b"1")
    fs.commit(MAIN, "first")
    with machine(tmp_path, "bob") as lake:
        yield clone(lake, str(demo), "demo")


def push_of(bob: Repository, path: bytes, contents: bytes) -> str:
    stage(bob, "main", {path: contents})
    made = commit(bob, "main", message="bob's", committer="bob")
    push(bob, "main", options=ME)
    return made.id


def there(bob: Repository) -> str | None:
    ref = find_ref(bob.store, RefKind.BRANCH, "main")
    return None if ref is None else ref.commit_id


def test_a_commit_moves_the_branch_in_the_bucket(fs: LakeFileSystem, bob: Repository) -> None:
    assert there(bob) == branch.show(bob, "main").commit_id
    with fs.committing(MAIN, "second"):
        fs.pipe(f"{MAIN}/b", b"2")
    ref = find_ref(bob.store, RefKind.BRANCH, "main")
    assert ref is not None
    assert ref.commit_id != branch.show(bob, "main").commit_id
    assert ref.moves[0].who == "Ada <ada@example.com>"
    assert ref.moves[0].why == "commit"


def test_a_commit_is_built_on_what_others_pushed(fs: LakeFileSystem, bob: Repository) -> None:
    push_of(bob, b"b", b"bob's")
    fs.pipe(f"{MAIN}/c", b"3")
    made = fs.commit(MAIN, "on top")
    assert there(bob) == made.id
    assert made.parents == (branch.show(bob, "main").commit_id,)
    assert sorted(fs.ls(MAIN, detail=False)) == [f"demo/main/{name}" for name in "abc"]


def test_refresh_brings_what_others_pushed(fs: LakeFileSystem, bob: Repository) -> None:
    push_of(bob, b"b", b"bob's")
    assert not fs.exists(f"{MAIN}/b")
    fs.refresh("lakefs://demo")
    assert fs.cat(f"{MAIN}/b") == b"bob's"


def test_a_path_that_others_changed_is_a_conflict(fs: LakeFileSystem, bob: Repository) -> None:
    fs.pipe(f"{MAIN}/a", b"mine")
    theirs = push_of(bob, b"a", b"bob's")
    with pytest.raises(LakeFileError) as caught:
        fs.commit(MAIN, "never")
    assert caught.value.kind is ErrorKind.CONFLICT
    assert there(bob) == theirs
    assert fs.cat(f"{MAIN}/a") == b"mine"


def test_an_unreachable_bucket_leaves_changes_staged(
    fs: LakeFileSystem, bob: Repository, demo: Path
) -> None:
    fs.pipe(f"{MAIN}/b", b"2")
    before = there(bob)
    away = demo.rename(demo.with_name("not mounted"))
    with pytest.warns(LakeWarning, match="not fetched, this is as of the last time"):
        fs.refresh("lakefs://demo")
    with (
        pytest.warns(LakeWarning, match="not fetched"),
        pytest.raises((LakeFileError, FileNotFoundError)),
    ):
        fs.commit(MAIN, "later")
    away.rename(demo)
    assert there(bob) == before
    made = fs.commit(MAIN, "later")
    assert there(bob) == made.id
    assert fs.cat(f"{MAIN}/b") == b"2"


def test_sync_manual_sends_nothing(
    fs: LakeFileSystem, bob: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakecli.filesystem import lakes

    before = there(bob)
    lakes.close_unused()
    monkeypatch.setenv("LAKECLI_SYNC", "manual")
    fs.pipe(f"{MAIN}/b", b"2")
    fs.commit(MAIN, "here")
    assert there(bob) == before
    assert read(bob, "main") == checksums({b"a": b"1"})


def test_rules_of_the_bucket_hold_for_libraries(fs: LakeFileSystem, bob: Repository) -> None:
    before = there(bob)
    fs.pipe(f"{MAIN}/staged", b"before the rule")
    set_policy(bob, '[[rules]]\nrefs = ["main"]\nforbid = ["direct"]\n', who=ME.who)

    def in_a_block() -> None:
        with fs.committing(MAIN, "never"):
            fs.pipe(f"{MAIN}/b", b"2")

    for act in (
        lambda: fs.commit(MAIN, "never"),
        lambda: fs.pipe(f"{MAIN}/b", b"2"),
        lambda: fs.rm(f"{MAIN}/a"),
        lambda: fs.mv(f"{MAIN}/a", f"{MAIN}/b"),
        in_a_block,
    ):
        with pytest.raises(
            LakeFileError, match=r"policy 1, which Bob <bob@example.com> set"
        ) as caught:
            act()
        assert caught.value.kind is ErrorKind.REFUSED
    assert there(bob) == before
    assert fs.cat(f"{MAIN}/staged") == b"before the rule"
