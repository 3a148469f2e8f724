"""The names in one directory, of a ref or on the disk, that begin with what was typed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import AnyStr, Final

from lakecli.cli.reading import relative_path
from lakecli.committed.listing import common_start, list_prefix, prefix_end
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import View, open_view
from lakecli.repository.transfer.selection import is_own
from lakecli.worktree.link import Link

MAX_CANDIDATES: Final = 200
"""More do not fit on a screen; of names a few more may be offered, see `some_names`."""


def some_names(
    names_behind: Callable[[AnyStr | None], Iterator[AnyStr]], prefix: AnyStr
) -> list[AnyStr]:
    """Return names that start with `prefix`, in order.

    Beyond `MAX_CANDIDATES` they are a sample, and what all of them begin with, all names do: a
    shell inserts that.

    Args:
        names_behind: yields the names behind all that begin with a text; for ``None``, all names.
        prefix: the beginning of all names.
    """
    names = list(islice(names_behind(None), MAX_CANDIDATES))
    if len(names) < MAX_CANDIDATES:
        return names
    lead = common_start(names[0], names[-1])
    while len(lead) > len(prefix):
        name = next(names_behind(lead), None)
        if name is None:
            break
        names.append(name)
        lead = common_start(lead, name)
    return names


def names_at(view: View, prefix: bytes) -> list[bytes]:
    """Return paths that start with `prefix`, each cut behind the next slash, as `some_names` does.

    Args:
        view: of a ref.
        prefix: any bytes, not only whole components.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """

    def names_behind(lead: bytes | None) -> Iterator[bytes]:
        start = prefix if lead is None else prefix_end(lead)
        if start is not None:
            yield from _names_from(view, prefix, start)

    return some_names(names_behind, prefix)


def _names_from(view: View, prefix: bytes, start: bytes) -> Iterator[bytes]:
    listed = list_prefix(
        lambda at: view.scan(prefix=prefix, start=max(at, start)), prefix=prefix, delimiter=b"/"
    )
    return (each.path for each in listed)


def iter_files(
    repository: Repository, root: Path, link: Link, typed: str, *, is_new_too: bool
) -> Iterator[str]:
    """Yield the files and directories that begin with what was typed, as it was typed.

    They are those of the commit that the directory was synced with last, deleted files included.

    Args:
        repository: that the directory is linked with.
        root: the linked directory.
        link: its link.
        typed: relative to the current directory, or absolute.
        is_new_too: offer files that the commit lacks, too.
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
            names = names_at(view, prefix + os.fsencode(name))
        found.update(dict.fromkeys(each[len(prefix) :] for each in names))
    if is_new_too:
        found.update(dict.fromkeys(_on_disk(lead or ".", os.fsencode(name))))
    for each in sorted(found):
        if not is_own(each.rstrip(b"/")):
            yield lead + os.fsdecode(each)


def _on_disk(directory: str, start: bytes) -> list[bytes]:
    with os.scandir(os.fsencode(directory)) as listing:
        found = [
            each.name + b"/" if each.is_dir() else each.name
            for each in listing
            if each.name.startswith(start) and (start or not each.name.startswith(b"."))
        ]
    return sorted(found)[:MAX_CANDIDATES]
