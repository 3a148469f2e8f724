"""A directory of this machine as a source: walked by the driver, hashed by the parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from lakecli.engine.runner import Runner
from lakecli.errors import LakeError, NotFound
from lakecli.imports.part import make_ingest
from lakecli.imports.task import ROWS_AT_ONCE, EmptySource, Failures, ImportPart, Rows, Task
from lakecli.repository.reading.addresses import unpinned_bytes
from lakecli.repository.transfer.own_names import is_own
from lakecli.repository.transfer.walk import LinkPolicy, WalkedFile, opener_below, walk

FILES_PER_PART: Final = 8_192
BYTES_PER_PART: Final = 1 << 30


class DirectorySource(NamedTuple):
    """All files below a directory.

    Attributes:
        root: absolute path.
        links: how to treat symbolic links.
        left_out: gets the names below the directory that are Git's, lakecli's or the system's own.
        may_be_empty: whether to accept a directory without files.
    """

    root: bytes
    links: LinkPolicy
    left_out: set[bytes]
    may_be_empty: bool = False

    def estimate(self) -> int | None:
        """Return ``None``: the number is unknown before listing."""
        return None

    def recount(self, task: Task) -> int | None:
        """List again, and return how many files there are."""
        del task
        return sum(not is_own(each.relative) for each in walk(self.root, self.links))

    def plan(self, task: Task, runner: Runner, high: bytes | None) -> Iterator[ImportPart]:
        """Yield the parts; see `ImportSource`.

        Raises:
            NotFound: there is no file. The mount point of a disk that is not mounted looks like an
                empty directory, which would remove everything from the branch.
        """
        del runner
        if (
            not self.may_be_empty
            and os.path.isdir(self.root)
            and all(is_own(each.relative) for each in walk(self.root, self.links))
        ):
            raise EmptySource(
                f"no file below {os.fsdecode(self.root)}",
                hint="check that the disk is mounted, or allow an empty source: --allow-empty",
            )
        return plan_files(
            self.root, self.links, prefix=task.prefix, high=high, left_out=self.left_out
        )


class File(NamedTuple):
    """A file of the directory; ``problem`` says why it cannot be imported."""

    name: bytes
    size: int
    mtime_ns: int
    problem: str = ""


class FilesSource(NamedTuple):
    """Some files below a directory, in byte order of their names."""

    root: bytes
    files: tuple[File, ...]
    links: LinkPolicy

    def opener(self) -> Callable[[bytes, int], int]:
        """Return what opens the files, and follows no link where the walk followed none."""
        return opener_below(self.root, self.links)

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """Yield the files; hash each one unless it will be copied."""
        ingest = None if task.copies else make_ingest(task.location.store())
        opener = self.opener()
        start = b"local://" + self.root.rstrip(b"/") + b"/"
        rows = Rows([], [], [], [], [])
        for file in self.files:
            problem, checksum, size = file.problem, "", file.size
            if ingest is not None and not problem:
                try:
                    done = ingest.look(os.path.join(self.root, file.name), opener=opener)
                    checksum, size = done.digest, done.size
                except OSError as error:
                    problem = (error.strerror or str(error)).lower()
                except LakeError as error:
                    problem = error.message
            if problem:
                failures.add(task.prefix + file.name, problem)
                continue
            rows.keys.append(file.name)
            rows.addresses.append(
                unpinned_bytes(start + file.name) if task.copies else self._real(start, file)
            )
            rows.sizes.append(size)
            rows.checksums.append(checksum.encode())
            rows.seconds.append(file.mtime_ns // 1_000_000_000)
            if len(rows) >= ROWS_AT_ONCE:
                yield rows
                rows = Rows([], [], [], [], [])
        yield rows

    def _real(self, start: bytes, file: File) -> bytes:
        """Return the address of a file, with symbolic links resolved.

        An address through a link would name another file as soon as the link changes.
        """
        path = os.path.join(self.root, file.name)
        real = os.path.realpath(path)
        plain = os.path.join(os.path.realpath(self.root), file.name)
        return unpinned_bytes(start + file.name if real == plain else b"local://" + real)

    def identity(self) -> list[Any]:
        """Return the names, sizes and times of the files."""
        files = [[os.fsdecode(file.name), *file[1:]] for file in self.files]
        return ["files", os.fsdecode(self.root), files, self.links.value]


def plan_files(
    root: bytes, links: LinkPolicy, *, prefix: bytes, high: bytes | None, left_out: set[bytes]
) -> Iterator[ImportPart]:
    """Yield the parts of a directory, in order.

    Args:
        root: absolute path.
        links: how to treat symbolic links.
        prefix: prefix of the files' paths on the branch.
        high: the first path after those below the prefix; ``None``: there is none.
        left_out: gets the names that are not data.

    Raises:
        NotFound: the directory does not exist.
    """
    if not os.path.isdir(root):
        raise NotFound(
            f"no directory {os.fsdecode(root)}",
            hint="name a directory, a bucket prefix or a manifest",
        )
    low = prefix
    files: list[File] = []
    size = 0
    for found in walk(root, links):
        if is_own(found.relative):
            left_out.add(found.relative)
            continue
        if len(files) >= FILES_PER_PART or size >= BYTES_PER_PART:
            following = prefix + found.relative
            yield ImportPart(low, following, FilesSource(root, tuple(files), links))
            low, files, size = following, [], 0
        file = _file(found)
        files.append(file)
        size += file.size
    yield ImportPart(low, high, FilesSource(root, tuple(files), links))


def _file(found: WalkedFile) -> File:
    if found.problem is not None:
        return File(found.relative, 0, 0, found.problem)
    try:
        status = os.stat(found.path)
    except OSError as error:
        return File(found.relative, 0, 0, (error.strerror or str(error)).lower())
    return File(found.relative, status.st_size, status.st_mtime_ns)
