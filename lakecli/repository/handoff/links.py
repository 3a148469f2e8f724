"""Sign one presigned URL for every object below a prefix, as a stream.

All are signed as of one time, so links of one store expire together. An object that cannot be
signed is recorded as a failure, and the others are signed.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError, LakeError
from lakecli.identity import DIGEST_SIZE
from lakecli.repository.core.address import is_external, may_change
from lakecli.repository.core.presigner import Presigner
from lakecli.repository.core.view import no_such_path, open_view
from lakecli.uri import as_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future
    from datetime import timedelta

    from lakecli.model import Entry
    from lakecli.objectstore.base import PresignedUrl
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View

    Signed = PresignedUrl | LakeError

SLOW_TO_SIGN: Final = "gs://"
"""Stores whose signatures take long: by RSA, or by a request to Google's IAM."""

SIGNERS: Final = 8
"""Threads that sign for such a store; both ways release the interpreter lock."""

MOST_AT_ONCE: Final = 32
"""Objects that one call of a thread signs, at most; the first calls sign one each."""


@dataclass(frozen=True, slots=True)
class Header:
    """Where links come from.

    Attributes:
        repository: ``lakefs://name``.
        uuid: of the repository, 32 hex digits.
        ref: as typed.
        commit_id: what the ref was then.
        uncommitted: whether uncommitted changes of the branch are among the links.
        prefix: of all paths; empty, or ending in a slash.
        created_at: when the links were signed, in whole seconds.
    """

    repository: str
    uuid: str
    ref: str
    commit_id: str
    uncommitted: bool
    prefix: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Link:
    """One object.

    Attributes:
        path: in the repository.
        name: the path below the prefix.
        checksum: 64 hex digits of BLAKE3, or the ETag of what was imported.
        url: a secret.
        expires_at: when it really ends.
        etag: that the store sends with the object, where that is known: what was imported.
    """

    path: bytes
    name: bytes
    size: int
    checksum: str
    url: str
    expires_at: datetime
    etag: str = ""


@dataclass(slots=True)
class Totals:
    """Totals of all links.

    Attributes:
        outside: how many of them lead to objects outside the storage namespace that may change.
        expires_at: the earliest expiry; ``None`` before the first link.
    """

    count: int = 0
    outside: int = 0
    size: int = 0
    expires_at: datetime | None = None

    def add(self, link: Link) -> None:
        """Count a link."""
        self.count += 1
        self.size += link.size
        if self.expires_at is None or link.expires_at < self.expires_at:
            self.expires_at = link.expires_at


def is_blake3(checksum: str) -> bool:
    """Return whether a checksum is a digest computed from the bytes, and not an ETag."""
    return len(checksum) == 2 * DIGEST_SIZE and set(checksum) <= set("0123456789abcdef")


@dataclass(slots=True)
class Handoff:
    """Links that are signed as they are consumed, once; `open_handoff` creates it.

    Attributes:
        header: where they come from.
        totals: of the links so far.
        failures: (path, reason) of each object that could not be signed, in path order.
    """

    header: Header
    _view: View
    _expires_in: timedelta
    _inline: bool = False
    _names: Sequence[bytes] | None = None
    totals: Totals = field(default_factory=Totals)
    failures: list[tuple[bytes, str]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Link]:
        """Yield the links in path order.

        Raises:
            NotFound: there is nothing below the prefix, and no names are given.
            Unsupported: the storage namespace has no URLs.
            PermissionDenied: there are no credentials, or they may not sign.
        """
        below = self.header.prefix
        first_error: LakeError | None = None
        is_empty = True
        for path, entry, signed in self._signed(self._records()):
            is_empty = False
            if isinstance(signed, LakeError):
                first_error = first_error or signed
                self.failures.append((path, signed.message))
                continue
            name = path[len(below) :]
            link = Link(
                path,
                name,
                entry.size,
                entry.checksum,
                signed.url,
                signed.expires_at,
                entry.checksum.strip('"') if is_external(entry) else "",
            )
            self.totals.add(link)
            self.totals.outside += may_change(entry)
            yield link
        if is_empty and self._names is None:
            raise no_such_path(self._view.repository, self.header.ref, below)
        if first_error is not None and not self.totals.count:
            raise first_error

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the objects in path order, and record those that are named and do not exist."""
        below = self.header.prefix
        if self._names is None:
            yield from self._view.scan(prefix=below)
            return
        for name in self._names:
            value = self._view.find(below + name)
            if value is None:
                missing = no_such_path(self._view.repository, self.header.ref, below + name)
                self.failures.append((below + name, missing.message))
            else:
                yield below + name, value

    def _signed(
        self, records: Iterator[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, Entry, Signed]]:
        """Yield each path with its entry and its signed URL or failure, in the same order."""
        repository = self._view.repository
        signer = Presigner(
            repository,
            now=self.header.created_at,
            expires_in=self._expires_in,
            inline=self._inline,
        )

        def sign(item: tuple[bytes, Entry]) -> Signed:
            try:
                return signer.presign(*item)
            except LakeError as error:
                if not is_external(item[1]) and not isinstance(error, IntegrityError):
                    raise
                return error

        items = ((path, decode_entry(value)) for path, value in records)
        if not repository.record.storage_namespace.startswith(SLOW_TO_SIGN):
            yield from ((*item, sign(item)) for item in items)
            return
        for item, signed in in_threads(sign, items):
            yield *item, signed


def in_threads(
    sign: Callable[[tuple[bytes, Entry]], Signed], items: Iterator[tuple[bytes, Entry]]
) -> Iterator[tuple[tuple[bytes, Entry], Signed]]:
    """Yield items with their signatures, in order; several threads sign ahead."""
    waiting: deque[tuple[list[tuple[bytes, Entry]], Future[list[Signed]]]] = deque()
    pool = ThreadPoolExecutor(SIGNERS)
    calls = 0
    try:
        while True:
            calls += 1
            part = list(islice(items, min(-(-calls // SIGNERS), MOST_AT_ONCE)))
            if part:
                waiting.append((part, pool.submit(lambda part: list(map(sign, part)), part)))
            elif not waiting:
                return
            if not part or len(waiting) > 2 * SIGNERS:
                signed, future = waiting.popleft()
                yield from zip(signed, future.result(), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def open_handoff(
    repository: Repository,
    ref: str,
    prefix: bytes,
    *,
    expires_in: timedelta,
    inline: bool = False,
    names: Sequence[bytes] | None = None,
) -> Iterator[Handoff]:
    """Open the links to all objects of a ref below a directory.

    Args:
        repository: the repository of the objects.
        ref: a ref expression; a plain branch includes its staging area.
        prefix: a directory; a missing trailing slash is added.
        expires_in: the lifetime of the URLs.
        inline: let browsers show every object, including those that they would run.
        names: of the objects below the directory, in order, if not all are meant.

    Raises:
        NotFound: no such ref.
    """
    below = as_directory(prefix)
    with open_view(repository, ref) as view:
        header = Header(
            repository=repository.uri,
            uuid=repository.record.uuid,
            ref=ref,
            commit_id=view.commit.id,
            uncommitted=next(view.staged(prefix=below), None) is not None,
            prefix=below,
            created_at=repository.lake.now().astimezone(UTC),
        )
        yield Handoff(header, view, expires_in, inline, names)
