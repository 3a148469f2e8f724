"""Working directories of a repository, and what is in them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lakecli.base.directories import LINK_FILE
from lakecli.base.uri import parse_path
from lakecli.repository.commit import commit as commit_staged
from lakecli.repository.download import DownloadOptions
from lakecli.repository.transfer.ignore_patterns import EVERYTHING
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.upload import UploadOptions
from lakecli.worktree import create
from lakecli.worktree.checkout import Brought, OwnChanges, bring
from lakecli.worktree.commit import CommitOptions, Committed, commit
from lakecli.worktree.link import read_link
from lakecli.worktree.status import status
from lakecli.worktree.worktree import Worktree
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.repository.contract import Repository
    from lakecli.repository.transfer.ignore_patterns import Selection
    from lakecli.worktree.status import ChangedPath

DOWNLOADS = DownloadOptions()


def real_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - compared with the times of files


def commit_contents(
    repository: Repository, contents: Mapping[str, str | None], branch: str = "main"
) -> str:
    """Commit contents by path, as somebody without a working directory does."""
    changes = {
        os.fsencode(path): None if text is None else text.encode()
        for path, text in contents.items()
    }
    stage(repository, branch, changes)
    return commit_staged(repository, branch, message="others", committer="others").id


def clone(
    repository: Repository, root: Path, uri: str = "lakefs://demo/main/", **options: object
) -> Worktree:
    create.clone(
        repository,
        parse_path(uri, allow_empty=True),
        root,
        options=DOWNLOADS,
        **options,  # type: ignore[arg-type]
    )
    return reopen(repository, root)


def reopen(repository: Repository, root: Path, links: LinkPolicy = LinkPolicy.FAIL) -> Worktree:
    link = read_link(root)
    assert link is not None
    return Worktree(repository, root, link, links=links)


def pull(worktree: Worktree, policy: OwnChanges = OwnChanges.KEEP) -> Brought:
    with worktree.locked():
        worktree.follow_back()
        return bring(worktree, worktree.head(), operation="pull", policy=policy, options=DOWNLOADS)


def commit_worktree(
    worktree: Worktree,
    message: str = "mine",
    *,
    selection: Selection = EVERYTHING,
    ours: bool = False,
) -> Committed:
    options = CommitOptions(
        message=message,
        committer="me",
        metadata={},
        selection=selection,
        uploading=UploadOptions(links=worktree.links),
        downloading=DOWNLOADS,
        ours=ours,
    )
    return commit(worktree, options)


def items(worktree: Worktree, *, local: bool = False) -> dict[str, ChangedPath]:
    """Return what differs, by path."""
    found = status(worktree, local=local, selection=EVERYTHING)
    return {os.fsdecode(item.path): item for item in found.items}


def files(root: Path) -> dict[str, str]:
    """Return the contents of the files below a directory, without its link."""
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != os.fsdecode(LINK_FILE)
    }


def write(root: Path, contents: Mapping[str, str | None]) -> None:
    """Write files below a directory, ``None``: delete one."""
    for name, text in contents.items():
        path = root / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
