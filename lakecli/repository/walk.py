"""Walking a directory that somebody wants uploaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class LinkPolicy(StrEnum):
    """What to do about symbolic links and special files below an uploaded directory."""

    FAIL = "fail"
    FOLLOW = "follow"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Found:
    """One thing below the root: its path on disk, its name relative to the root, or why not."""

    path: bytes
    relative: bytes
    problem: str | None = None


def walk(root: bytes, policy: LinkPolicy) -> Iterator[Found]:
    """Yield every regular file below a directory, in byte order of the relative names.

    Symbolic links and special files are yielded with a problem, left out, or followed, as the
    policy says; sockets, pipes and devices cannot be followed. A directory that cannot be read,
    or a link that leads back into itself, is a problem too.
    """
    yield from _walk(root, b"", policy, frozenset())


def _walk(
    directory: bytes, prefix: bytes, policy: LinkPolicy, above: frozenset[tuple[int, int]]
) -> Iterator[Found]:
    try:
        status = os.stat(directory)
        with os.scandir(directory) as listing:
            entries = list(listing)
    except OSError as error:
        yield Found(directory, prefix, error.strerror or str(error))
        return
    here = (status.st_dev, status.st_ino)
    if here in above:
        yield Found(directory, prefix, "a symbolic link that leads back into itself")
        return
    above |= {here}
    follow = policy is LinkPolicy.FOLLOW
    kinds = [(_kind(entry, follow=follow), entry) for entry in entries]
    # A directory sorts as its contents do, by the name with the slash.
    kinds.sort(key=lambda item: item[1].name + b"/" if item[0] == "directory" else item[1].name)
    for kind, entry in kinds:
        relative = prefix + b"/" + entry.name if prefix else entry.name
        if kind == "file":
            yield Found(entry.path, relative)
        elif kind == "directory":
            yield from _walk(entry.path, relative, policy, above)
        elif policy is not LinkPolicy.SKIP:
            yield Found(entry.path, relative, f"a {kind}")


def _kind(entry: os.DirEntry[bytes], *, follow: bool) -> str:
    if entry.is_file(follow_symlinks=follow):
        return "file"
    if entry.is_dir(follow_symlinks=follow):
        return "directory"
    if entry.is_symlink():
        return "broken symbolic link" if follow else "symbolic link"
    return "special file (pipe, socket or device)"
