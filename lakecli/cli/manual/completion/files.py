"""Files of a linked directory that begin with what was typed, one directory level at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lakecli.cli.default_uri import relative_path
from lakecli.cli.manual.completion.paths import names_at
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import open_view
from lakecli.repository.transfer.selection import is_own
from lakecli.worktree.link import Link


def iter_files(
    repository: Repository, root: Path, link: Link, typed: str, *, is_new_too: bool, limit: int
) -> Iterator[str]:
    """Yield the files and directories that begin with what was typed, as it was typed.

    They are those of the commit that the directory was synced with last, deleted files included.

    Args:
        repository: that the directory is linked with.
        root: the linked directory.
        link: its link.
        typed: relative to the current directory, or absolute.
        is_new_too: offer files that the commit lacks, too.
        limit: the number of names to offer; a few more may come.
    """
    directory, slash, name = typed.rpartition("/")
    lead = directory + slash
    inside = relative_path(root, lead or ".")
    inside += b"/" if inside else b""
    found: dict[bytes, None] = {}
    commit_id = link.at_head or link.target
    if commit_id is not None:
        prefix = link.prefix + inside
        with open_view(repository, commit_id) as view:
            names = names_at(view, prefix + os.fsencode(name), limit=limit)
        found.update(dict.fromkeys(each[len(prefix) :] for each in names))
    if is_new_too:
        found.update(dict.fromkeys(_on_disk(lead or ".", os.fsencode(name), limit)))
    for each in sorted(found):
        if not is_own(each.rstrip(b"/")):
            yield lead + os.fsdecode(each)


def _on_disk(directory: str, start: bytes, limit: int) -> list[bytes]:
    with os.scandir(os.fsencode(directory)) as listing:
        found = [
            each.name + b"/" if each.is_dir() else each.name
            for each in listing
            if each.name.startswith(start) and (start or not each.name.startswith(b"."))
        ]
    return sorted(found)[:limit]
