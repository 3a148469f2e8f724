"""The `.gitignore` of the Git repository that contains a working directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakecli.worktree.git import GitRepository, ignore_in_git

if TYPE_CHECKING:
    from pathlib import Path

MARKER = b"# ignored by lakectl local"
ENTRIES = b"data/*\n!data/.lakefs_ref.yaml\n"
SECTION = MARKER + b"\n" + ENTRIES + b"# end of what lakectl local ignores\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", SECTION),
        (b"*.pyc", b"*.pyc\n\n" + SECTION),
        (b"a\fb\n\xc2\x85\n\xff\rc\n", b"a\fb\n\xc2\x85\n\xff\rc\n\n" + SECTION),
        (b"*.pyc\r\n", b"*.pyc\r\n\r\n" + SECTION.replace(b"\n", b"\r\n")),
        (b"a\r\n" + MARKER, b"a\r\n" + MARKER + b"\r\n" + ENTRIES.replace(b"\n", b"\r\n")),
        (MARKER + b"\nx/*\n", MARKER + b"\n" + ENTRIES + b"x/*\n"),
        (b"a\fdata/*\n", b"a\fdata/*\n\n" + SECTION),
    ],
)
def test_all_other_bytes_and_the_mode_of_a_gitignore_are_kept(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    file = tmp_path / ".gitignore"
    file.write_bytes(before)
    file.chmod(0o640)
    found = GitRepository(tmp_path, "", "")
    assert ignore_in_git(found, tmp_path / "data") == file.resolve()
    assert file.read_bytes() == after
    assert file.stat().st_mode & 0o777 == 0o640
    assert ignore_in_git(found, tmp_path / "data") is None
    assert file.read_bytes() == after


def test_the_bytes_of_the_name_of_a_directory_are_kept(tmp_path: Path) -> None:
    file = tmp_path / ".gitignore"
    ignore_in_git(GitRepository(tmp_path, "", ""), tmp_path / os.fsdecode(b"\xff\xc2\x85"))
    assert file.read_bytes().startswith(MARKER + b"\n\xff\xc2\x85/*\n")
