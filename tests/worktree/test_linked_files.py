"""Hard links to objects that somebody wrote to, in spite of their mode."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.errors import IntegrityError
from lakecli.fsck.check import fsck
from lakecli.repository.transfer.ignore_patterns import EVERYTHING
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.upload import UploadOptions, upload_file
from lakecli.worktree.checkout import restore
from lakecli.worktree.status import status
from lakecli.worktree.worktree import LinkMode
from tests.support.lakes import checksums, read
from tests.support.worktrees import (
    DOWNLOADS,
    clone,
    commit_contents,
    commit_worktree,
    files,
    real_now,
    reopen,
)

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository


@pytest.fixture
def root(repository: Repository, tmp_path: Path) -> Path:
    commit_contents(repository, {"a": "history\n", "b": "2", "twin": "history\n"})
    clone(repository, tmp_path / "wd", linking=LinkMode.HARDLINK)
    return tmp_path / "wd"


def overwrite(file: Path, text: str, mode: str = "a") -> None:
    """Write to a file as root does, whatever its mode."""
    file.chmod(0o644)
    with file.open(mode) as opened:
        opened.write(text)


def reasons(repository: Repository, root: Path) -> dict[bytes, str]:
    found = status(reopen(repository, root), local=True, selection=EVERYTHING)
    return {each.path: each.reason for each in found.problems}


def object_of(repository: Repository, text: str) -> Path:
    place = repository.store.local_path(data_key(blake3_of(text.encode()).hex()))
    assert place is not None
    return Path(place)


def is_sound(repository: Repository) -> bool:
    return list(fsck(repository, hash_data=True)) == []


def test_an_object_to_which_was_appended_gets_its_bytes_back(
    repository: Repository, root: Path
) -> None:
    overwrite(root / "a", "appended\n")
    assert object_of(repository, "history\n").read_text() == "history\nappended\n"
    assert reasons(repository, root).keys() == {b"a", b"twin"}
    before = read(repository, "main")
    made = commit_worktree(reopen(repository, root))
    assert made.uploaded == 2  # the twin was the same file
    assert object_of(repository, "history\n").read_text() == "history\n"
    assert files(root)["a"] == "history\nappended\n"
    assert read(repository, "main~1") == before
    assert read(repository, "main") == before | checksums(
        dict.fromkeys((b"a", b"twin"), b"history\nappended\n")
    )
    assert reasons(repository, root) == {}
    assert is_sound(repository)


def test_restore_gives_object_and_file_their_bytes_back(repository: Repository, root: Path) -> None:
    overwrite(root / "a", "appended\n")
    for path in (b"a", b"twin"):  # one inode: replacing the one changes the state of the other
        restore(reopen(repository, root), [path], source=None, options=DOWNLOADS)
    assert files(root) == {"a": "history\n", "b": "2", "twin": "history\n"}
    assert is_sound(repository)


def test_a_commit_is_refused_where_the_bytes_are_nowhere(
    repository: Repository, root: Path
) -> None:
    overwrite(root / "a", "other\n", "w")
    before = read(repository, "main")
    for refused in (
        lambda: commit_worktree(reopen(repository, root)),
        lambda: restore(reopen(repository, root), [b"a"], source=None, options=DOWNLOADS),
    ):
        with pytest.raises(IntegrityError, match="a is a hard link, and the object") as error:
            refused()
        assert error.value.paths == (b"a", b"twin")
        assert "fsck lakefs://demo --repair --from" in str(error.value.hint)
    assert read(repository, "main") == before
    assert files(root)["a"] == "other\n"
    assert set(reasons(repository, root)) == {b"a", b"twin"}


def test_an_object_is_restored_from_the_file_that_was_uploaded(
    repository: Repository, root: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(2 << 20))
    runtime = repository.lake.runtime
    # The digest of a file that was written just now is not remembered.
    repository.lake.runtime = runtime._replace(clock=lambda: real_now() + timedelta(hours=1))
    upload_file(repository, "main", b"large", source=source, options=UploadOptions())
    repository.lake.runtime = runtime
    commit_contents(repository, {"c": "3"})
    other = tmp_path / "other"
    clone(repository, other, linking=LinkMode.HARDLINK)
    overwrite(other / "large", "other", "w")
    assert commit_worktree(reopen(repository, other)).uploaded == 1
    assert is_sound(repository)


def test_a_file_that_is_a_copy_by_now_is_no_problem(repository: Repository, root: Path) -> None:
    (root / "a").unlink()
    (root / "a").write_text("history\nappended\n")
    assert reasons(repository, root) == {}
    commit_worktree(reopen(repository, root, LinkPolicy.FAIL))
    assert is_sound(repository)
