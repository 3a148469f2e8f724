"""Fetch objects into the incoming directory of a working directory, and verify them.

The incoming directory is a temporary directory in the root of the working directory. The name of a
file in it depends on the file's path and object, so the next command can use files that a killed
command has downloaded from a bucket. If the namespace is a local directory, small files are copied,
and larger files are linked to their objects if the file system allows it. The copies for a
directory that does not exist yet are written with their final names into one subdirectory of the
incoming directory; the subdirectory is then renamed as a whole.

`WantedFile` is a file to write, and `WriteReport` the result for many files.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from lakecli import errors, native
from lakecli.base.identity import blake3_of, hashes
from lakecli.base.model import Entry
from lakecli.committed.values import content_objects, decode_entry
from lakecli.repository.download import Downloader, DownloadOptions
from lakecli.repository.reading.addresses import is_external
from lakecli.repository.reading.contents import damaged, digest_of, gone, read_small
from lakecli.repository.reading.recorded import locate
from lakecli.repository.transfer.destination import ENDS_ALL, Destination, translated
from lakecli.repository.transfer.ignore_patterns import INCOMING
from lakecli.repository.transfer.ingest import SMALL, TINY
from lakecli.repository.transfer.parallel import FailureBudget
from lakecli.repository.transfer.plan import PathAction
from lakecli.stores.contract import BucketNotFound
from lakecli.stores.local.batch import remove_all
from lakecli.stores.local.files import CREATE_NEW, closing, write_all
from lakecli.stores.local.store import DirectoryStore
from lakecli.stores.streams import batches
from lakecli.stores.uri import is_local
from lakecli.worktree import linked_files
from lakecli.worktree.index import FileState
from lakecli.worktree.worktree import LinkMode, Worktree

OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

REFUSED: Final = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
"""Error codes with which a file system refuses the name of a file."""

_TOGETHER: Final = b"directory-"
"""The prefix of the names of subdirectories of the incoming directory."""

AT_ONCE: Final = 1_024
"""The largest number of files that are copied together, with all their bytes in memory.

It is also the largest number of files whose entries are decoded together.
"""

_PLACE_OF: Final = attrgetter("directory", "file_name")
_ADDRESS_OF: Final = attrgetter("address")


class Expected(Enum):
    """Which file a new file may replace: none, or a file with the bytes of the base."""

    ABSENT = "absent"
    BASE = "base"


@dataclass(slots=True, eq=False)
class WantedFile:
    """A file to write.

    Attributes:
        path: the path relative to the working directory.
        value: the encoded entry of the file's object.
        expected: the file that may be replaced; a `FileState` means a file with this state.
        directory: the directory of the path.
        file_name: the last component of the path.
        address: the address of the object.
        size: the size of the object in bytes.
        digest: the BLAKE3 of the file's bytes, 64 hex digits, if the address contains it.
        seconds: the modification time of a file that may be copied together with others, in unix
            seconds; ``None`` for other files.
        place: the subdirectory of the incoming directory in which the file has its final name;
            ``b""``: none.
        state: the state of the file, once it is written.
    """

    path: bytes
    value: bytes
    expected: Expected | FileState
    directory: bytes = field(init=False)
    file_name: bytes = field(init=False)
    address: str = field(init=False)
    size: int = field(init=False)
    digest: str | None = field(init=False)
    seconds: int | None = field(init=False)
    place: bytes = b""
    state: FileState | None = None
    _name: bytes = b""

    def __post_init__(self) -> None:
        self.directory, _, self.file_name = self.path.rpartition(b"/")

    @property
    def entry(self) -> Entry:
        """The entry of the file's object."""
        return decode_entry(self.value)

    @property
    def name(self) -> bytes:
        """The temporary name of the file, relative to the incoming directory."""
        if self.place:
            return b"%b/%b" % (self.place, self.file_name)
        if not self._name:
            entry = self.entry
            text = f"{entry.physical_address} {entry.size} {entry.checksum} "
            digest = blake3_of(text.encode("utf-8", "surrogateescape") + self.path)
            self._name = digest[:16].hex().encode("ascii")
        return self._name


def describe(files: Sequence[WantedFile]) -> Iterator[tuple[WantedFile, str]]:
    """Set the attributes that each file takes from its entry.

    Yields:
        Each file whose entry is damaged, and the reason.
    """
    found = content_objects([each.value for each in files], special=linked_files.PERMISSIONS)
    for each, known in zip(files, found, strict=True):
        if known is not None:
            each.address, each.size, each.digest, each.seconds = known
            continue
        try:
            entry = each.entry
        except errors.IntegrityError as error:
            yield each, error.message
        else:
            each.address, each.size = entry.physical_address, entry.size
            each.digest, each.seconds = digest_of(entry), None


@dataclass(slots=True)
class WriteReport:
    """The result of writing files.

    Attributes:
        directory: the working directory.
        downloaded: the number of files written.
        removed: the number of files removed.
        size: bytes of the files written.
        kept: paths of files that were left unchanged, since they were not the expected files.
        blocked: (path, reason) of objects with another file or directory in their way.
        impossible: (path, reason) of objects that cannot be files here.
        failures: (path, reason) of objects that could not be fetched.
        can_repeat: whether repeating the command may help, since the store refused some objects or
            did not answer.
    """

    directory: Path
    downloaded: int = 0
    removed: int = 0
    size: int = 0
    kept: list[bytes] = field(default_factory=list)
    blocked: list[tuple[bytes, str]] = field(default_factory=list)
    impossible: list[tuple[bytes, str]] = field(default_factory=list)
    failures: list[tuple[bytes, str]] = field(default_factory=list)
    can_repeat: bool = False


class _Incoming(NamedTuple):
    """The incoming directory, the names in it at the start, and its subdirectories."""

    destination: Destination
    descriptor: int
    present: set[str]
    places: dict[bytes, bytes]
    """For each new directory, the subdirectory that will be renamed to it; ``b""``: none."""

    def remove(self, name: bytes) -> None:
        """Remove a killed command's file with this name; it may be a link to an object."""
        if os.fsdecode(name) in self.present:
            os.unlink(name, dir_fd=self.descriptor)


class Fetcher:
    """Fetches objects into the incoming directory.

    Args:
        report: the report to which failures are added.
    """

    def __init__(self, worktree: Worktree, options: DownloadOptions, report: WriteReport) -> None:
        self._worktree = worktree
        self._progress = options.progress
        self._incoming = os.path.join(os.fsencode(worktree.root), INCOMING)
        self._download = Downloader(worktree.repository, options)
        self._can_reflink = True
        self._store = worktree.repository.store
        self._is_local = is_local(self._store.uri)
        self._budget = FailureBudget()
        self._report = report
        self._is_new: dict[bytes, bool] = {}
        """For each name in the root, whether it was absent when it was first needed."""

    def fetch_all(
        self, waiting: list[WantedFile], incoming: Destination, descriptor: int
    ) -> list[WantedFile]:
        """Fetch objects into the incoming directory; return fetched files, grouped by directory."""
        place = _Incoming(incoming, descriptor, set(os.listdir(descriptor)), {})
        for name in place.present:
            if name.startswith(_TOGETHER.decode()):  # of a killed command
                with suppress(OSError):
                    with closing(os.open(name, OPEN_DIRECTORY, dir_fd=descriptor)) as left:
                        remove_all(left)
                    os.rmdir(name, dir_fd=descriptor)
        fetched: list[WantedFile] = []

        def fetch(wanted: WantedFile) -> None:
            if self._try(wanted, place):
                fetched.append(wanted)

        if self._is_local and isinstance(self._store, DirectoryStore):
            waiting.sort(key=_ADDRESS_OF)
            for batch in batches(waiting, AT_ONCE):
                self._copy_together(self._store, batch, place)
                for each in batch:
                    if each.state is None:
                        fetch(each)
                    else:
                        self._budget.succeeded()
                        fetched.append(each)
        else:
            waiting.sort(key=_PLACE_OF)
            self._download.workers.for_each(waiting, fetch)
        fetched.sort(key=_PLACE_OF)
        return fetched

    def _bring(self, wanted: WantedFile, place: _Incoming) -> None:
        """Link, copy or download an object, depending on its size and its namespace."""
        if not self._is_local or wanted.digest is None:
            self._fetch(wanted, place)
        elif self._links(wanted.entry):
            self._link(wanted, place)
        elif wanted.entry.size <= SMALL:
            self._copy(wanted, place)
        else:
            self._fetch(wanted, place)

    def _fetch(self, wanted: WantedFile, place: _Incoming) -> None:
        """Download an object, unless an earlier command has already downloaded it."""
        entry, name = wanted.entry, wanted.name
        if os.fsdecode(name) in place.present:
            here = place.destination.state_of(
                name, size=entry.size, digest=wanted.digest, mtime=entry.file_mtime
            )
            if here is PathAction.UNCHANGED:
                self._progress.advance(items=1, size=entry.size)
                return
        self._download.fetch(place.destination, name, entry)
        self._progress.advance(items=1)

    def _links(self, entry: Entry) -> bool:
        """Return whether a file is linked to its object in a local namespace, instead of copied."""
        mode = self._worktree.linking
        if mode is LinkMode.COPY:
            return False
        if mode is LinkMode.HARDLINK:
            return not linked_files.is_executable(entry)  # a hard link has its object's mode
        # Copying a small file takes no longer than sharing its blocks.
        return mode is LinkMode.REFLINK or (self._can_reflink and entry.size > SMALL)

    def _link(self, wanted: WantedFile, place: _Incoming) -> None:
        """Link a file to its object, and verify it."""
        entry, name, directory = wanted.entry, wanted.name, place.descriptor
        store, key = locate(self._worktree.repository, entry)
        path = store.local_path(key)
        if path is None:
            raise gone(self._worktree.repository.uri, store, key)
        source = Path(path)
        mode = self._worktree.linking
        with translated(os.path.join(self._incoming, name)):
            place.remove(name)
            if mode is LinkMode.HARDLINK:
                linked_files.hard_link(source, name, directory)
            elif not linked_files.reflink(source, name, directory):
                if mode is LinkMode.REFLINK:
                    raise linked_files.unsupported("reflinks", source)
                self._can_reflink = False
                self._fetch(wanted, place)
                return
            if linked_files.digest_at(name, directory) != wanted.digest:
                os.unlink(name, dir_fd=directory)
                raise damaged(self._worktree.repository.uri, store, key)
            if mode is not LinkMode.HARDLINK:  # a hard link has its object's time
                seconds = entry.file_mtime
                with suppress(OverflowError, OSError):
                    os.utime(name, (seconds, seconds), dir_fd=directory)
        self._progress.advance(items=1, size=entry.size)

    def _copy_together(
        self, store: DirectoryStore, files: list[WantedFile], place: _Incoming
    ) -> None:
        """Copy tiny objects together, and set `state` of each file that was written."""
        core = native.core()
        if core is None or self._worktree.linking not in {LinkMode.AUTO, LinkMode.COPY}:
            return
        tiny = [each for each in files if each.seconds is not None and each.size <= TINY]
        found = store.get_together(core, [each.address for each in tiny], TINY)
        digests = hashes([data or b"" for data in found])
        whole = [
            (each, data)
            for each, data, digest in zip(tiny, found, digests, strict=True)
            if digest.hex() == each.digest and data is not None and len(data) == each.size
        ]
        with translated(self._incoming):
            for each, _ in whole:
                each.place = self._place_of(each.directory, place)
        states = core.write_files(
            place.descriptor,
            [each.name for each, _ in whole],
            [data for _, data in whole],
            [each.seconds or 0 for each, _ in whole],
        )
        for (each, _), state in zip(whole, states, strict=True):
            if state is None:
                each.place = b""
            else:
                each.state = FileState._make(state)
        done = [each.size for each, _ in whole if each.state is not None]
        self._progress.advance(items=len(done), size=sum(done))

    def _copy(self, wanted: WantedFile, place: _Incoming) -> None:
        """Copy a small object of a local namespace into the incoming directory, and verify it."""
        entry, name = wanted.entry, wanted.name
        uri, key = self._worktree.repository.uri, entry.physical_address
        data = read_small(uri, self._store, key, size=entry.size, digest=wanted.digest)
        seconds = entry.file_mtime
        with translated(os.path.join(self._incoming, name)):
            place.remove(name)
            with closing(os.open(name, CREATE_NEW, 0o666, dir_fd=place.descriptor)) as descriptor:
                write_all(descriptor, data)
                with suppress(OverflowError, OSError):  # a time this disk cannot keep
                    os.utime(descriptor, (seconds, seconds))
        self._progress.advance(items=1, size=entry.size)

    def _place_of(self, directory: bytes, place: _Incoming) -> bytes:
        """Make a subdirectory of the incoming directory that will be renamed to a new directory.

        Return its name, or ``b""`` if the top level of `directory` exists already. The top level of
        a new directory is in the root of the working directory, as the incoming directory is. So
        the new directory gets the same group and permissions as if it were created in place.
        """
        known = place.places.get(directory)
        if known is None:
            known, top = b"", directory.partition(b"/")[0]
            path = os.path.join(os.fsencode(self._worktree.root), top)
            if top and self._is_new.setdefault(top, not os.path.lexists(path)):
                name = b"%b%d" % (_TOGETHER, len(place.places))
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=place.descriptor)
                    known = name
            place.places[directory] = known
        return known

    def _try(self, wanted: WantedFile, place: _Incoming) -> bool:
        """Fetch an object; record a failure that may concern only this object.

        Returns:
            Whether the object was fetched.
        """
        try:
            self._bring(wanted, place)
        except ENDS_ALL:
            raise
        except (errors.NotFound, errors.IntegrityError, errors.UsageError, errors.Refused) as error:
            if isinstance(error, BucketNotFound) and not is_external(wanted.entry):
                raise
            self._report.failures.append((wanted.path, error.message))
            return False
        except (errors.PermissionDenied, errors.Unreachable) as error:
            self._report.can_repeat = True
            self._report.failures.append((wanted.path, error.message))
            if self._budget.failed(error):
                raise
            return False
        self._budget.succeeded()
        return True
