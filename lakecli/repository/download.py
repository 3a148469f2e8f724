"""Download an object to a file, verify it, and restore the uploaded file's modification time.

`Downloader` fetches objects for one command; `download_tree` uses it for whole directories.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from lakecli.base.model import Entry
from lakecli.base.pipes import is_pipe
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.errors import Unsupported, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.contents import content_digest, read_object
from lakecli.repository.reading.view import open_view
from lakecli.repository.transfer.destination import Destination
from lakecli.repository.transfer.ignore_patterns import EVERYTHING, Selection
from lakecli.repository.transfer.parallel import Workers
from lakecli.repository.transfer.plan import Listed, PathStep
from lakecli.stores.capabilities import PART_SIZE
from lakecli.stores.uri import is_local


class DownloadOptions(NamedTuple):
    """Options of a download.

    Attributes:
        parallelism: number of concurrent requests or copies.
        part_size: size in bytes of the parts in which an object of a bucket is fetched if it is
            larger than two parts. If a download is killed, the next one with the same part size
            resumes it.
        selection: selects the objects below a directory that are downloaded.
        deletes: given the relative name of a file without an object, returns whether the file is
            deleted; ``None``: no file is deleted.
        max_delete: refuse to delete more files than this.
        progress: receives the number and size of the objects of a directory as they are found;
            counts the objects and bytes that are done.
    """

    parallelism: int = 1
    part_size: int = PART_SIZE
    selection: Selection = EVERYTHING
    deletes: Callable[[bytes], bool] | None = None
    max_delete: int | None = None
    progress: Progress = NO_PROGRESS


DEFAULTS = DownloadOptions()


def download_object(
    repository: Repository,
    ref: str,
    path: bytes,
    *,
    target: Path,
    options: DownloadOptions = DEFAULTS,
    listed: Listed | None = None,
) -> Entry:
    """Download one object to a file and verify it; a failed download leaves no file.

    Args:
        listed: if given, the call is a dry run: nothing is written, and `listed` is called with the
            step that would be taken. An existing file of the object's size is read and compared.

    Raises:
        NotFound: the ref, the path or its data does not exist.
        IntegrityError: the object in the store is damaged; nothing was written.
        UsageError: `target` cannot be a file.
        PermissionDenied: `target` cannot be written.
    """
    with open_view(repository, ref) as view:
        entry = view.entry(path)
    is_stream = is_pipe(target)
    if target.is_symlink() and not is_stream:
        target = target.resolve()  # like cp: replace the file that the link names
    if is_stream or (target.exists() and not target.is_file()):
        hint = f"write to it: `fs cat {quote(repository.at(ref, os.fsdecode(path)))} > FILE`"
        raise UsageError(f"not a regular file: {target}", hint=hint)
    name = os.fsencode(target.name)
    namespace = repository.store.uri
    with Destination(os.fsencode(target.parent), namespace=namespace) as destination:
        if listed is None:
            Downloader(repository, options).fetch(destination, name, entry)
        else:
            action = destination.state_of(name, size=entry.size, digest=content_digest(entry))
            listed(PathStep(action, path, entry.size))
    return entry


class Downloader:
    """Fetches objects to files for one download command. Safe to share between threads."""

    def __init__(self, repository: Repository, options: DownloadOptions) -> None:
        self._repository = repository
        self._options = options
        self.workers = Workers(options.parallelism)

        self._fetcher = None
        if not is_local(repository.store.uri):
            from lakecli.repository.transfer.multipart_download import PartFetcher

            self._fetcher = PartFetcher(
                repository,
                workers=self.workers,
                part_size=options.part_size,
                progress=options.progress,
            )

    def fetch(self, destination: Destination, name: bytes, entry: Entry) -> None:
        """Fetch an object to a file, and verify it."""
        mtime = entry.file_mtime
        fetcher = self._fetcher  # another thread may set the attribute to `None` meanwhile
        if fetcher is not None and fetcher.takes(entry):
            try:
                fetcher.fetch(entry, destination, name, mtime=mtime)
            except Unsupported:
                self._fetcher = None  # the server does not support ranges
            else:
                return
        destination.write(name, self._pieces(entry), mtime=mtime)

    def _pieces(self, entry: Entry) -> Iterator[bytes]:
        for piece in read_object(self._repository, entry):
            self.workers.check()
            yield piece
            self._options.progress.advance(size=len(piece))
