"""Sign presigned URLs for one object, or for all objects below a prefix while they are listed.

All URLs are signed for the same point in time, so the links of one store expire together. If the
URL of one object cannot be signed, the object is recorded as a failure, and signing continues with
the other objects.

For Google Cloud Storage, signatures take nearly all the time: they are computed by RSA, or
requested from Google's IAM. So several threads make the signatures; OpenSSL and network requests
release the GIL while they run. URLs are signed in rounds of at most `WINDOW`. All unsigned URLs of
a round are made before its threads start, because making URLs holds the GIL and would slow down
the threads.
"""

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from math import ceil
from typing import Final, NamedTuple
from urllib.parse import quote

from lakecli.base.identity import Evidence, evidence_of
from lakecli.base.model import Entry
from lakecli.base.uri import as_directory
from lakecli.base.visibility import escape_hidden
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError, LakeError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import is_external, may_change
from lakecli.repository.reading.view import View, no_such_path, open_view
from lakecli.repository.transfer.ignore_patterns import LEFT_OUT, is_own
from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest

_SHOWN: Final = re.compile(
    r"(text/(plain|csv|tab-separated-values|markdown)|application/(json|pdf|x-ndjson)"
    r"|image/(png|jpeg|gif|webp|avif|bmp|tiff)|audio/[a-z0-9.+-]+|video/[a-z0-9.+-]+)"
    r"( *; *charset=[a-z0-9-]+)?",
    re.ASCII | re.IGNORECASE,
)
"""Content types that a browser shows without running code in them."""


class Header(NamedTuple):
    """The origin of a set of download links: the repository, the ref and the prefix.

    Attributes:
        repository: ``lakefs://name``.
        uuid: the repository's ID, 32 hex digits.
        ref: the ref as typed.
        uncommitted: whether uncommitted changes of the branch are among the links.
        prefix: the common prefix of all paths; empty, or ending in a slash.
        created_at: when the links were signed, in whole seconds.
        title: the title of the web page; ``""``: the page shows repository, ref and prefix instead.
        sender: the person who sends the data; ``""``: unknown.
    """

    repository: str
    uuid: str
    ref: str
    commit_id: str
    uncommitted: bool
    prefix: bytes
    created_at: datetime
    title: str = ""
    sender: str = ""


class ObjectLink(NamedTuple):
    """The link to one object.

    Attributes:
        name: the part of the path after the common prefix of all links.
        size: size in bytes.
        checksum: BLAKE3 in 64 hex digits, or the ETag of an imported object.
        url: URL that reads the object; keep it secret.
        expires_at: time when the URL expires, which may be earlier than requested.
        etag: the ETag that the store sends with the object; known only for imported objects.
        encoding: the Content-Encoding that the entry records, or ``""``; browsers decode it.
    """

    path: bytes
    name: bytes
    size: int
    checksum: str
    url: str
    expires_at: datetime
    etag: str = ""
    encoding: str = ""


@dataclass(slots=True)
class Totals:
    """Number, total size and expiry of the links that were added so far.

    Attributes:
        outside: the number of links to objects outside the storage namespace that may change.
        expires_at: the earliest expiry; ``None`` before the first link.
        last_expires_at: the latest expiry.
    """

    count: int = 0
    outside: int = 0
    size: int = 0
    expires_at: datetime | None = None
    last_expires_at: datetime | None = None

    def add(self, link: ObjectLink) -> None:
        """Add a link to the totals."""
        self.count += 1
        self.size += link.size
        self.expires_at = min(self.expires_at or link.expires_at, link.expires_at)
        self.last_expires_at = max(self.last_expires_at or link.expires_at, link.expires_at)


def is_blake3(checksum: str) -> bool:
    """Return whether a checksum is a BLAKE3, not an ETag."""
    return evidence_of(checksum) is Evidence.BLAKE3


@dataclass
class ObjectLinks:
    """The links of a handoff, signed while the caller iterates. Iterate only once.

    `open_handoff` makes this object.

    Args:
        names: the names of the wanted objects, relative to the prefix; ``None``: all objects.

    Attributes:
        failures: (path, reason) of each object whose URL could not be signed, in path order.
        items: the results of `unsigned`, with signed URLs.
    """

    header: Header
    _view: View
    _presign: Callable[[Entry, bytes], PresignedUrl]
    _names: Sequence[bytes] | None
    totals: Totals = field(default_factory=Totals)
    failures: list[tuple[bytes, str]] = field(default_factory=list)
    items: "Iterator[SigningItem]" = field(init=False)

    def __iter__(self) -> Iterator[ObjectLink]:
        """Yield the links in path order.

        Raises:
            NotFound: there is no object below the prefix, and no names are given.
            Unsupported: the store of the namespace has no presigned URLs.
            PermissionDenied: there are no credentials, or they may not sign.
        """
        below = self.header.prefix
        first_error: LakeError | None = None
        is_empty = True
        for path, entry, signed in self.items:
            is_empty = False
            if isinstance(signed, LakeError):
                if not is_external(entry) and not isinstance(signed, IntegrityError):
                    raise signed
                first_error = first_error or signed
                self.failures.append((path, signed.message))
                continue
            etag = ""
            if is_external(entry):
                etag = entry.checksum.strip('"')
                self.totals.outside += may_change(entry)
            where = signed.url, signed.expires_at, etag, entry.content_encoding
            link = ObjectLink(path, path[len(below) :], entry.size, entry.checksum, *where)
            self.totals.add(link)
            yield link
        if is_empty and self._names is None:
            raise no_such_path(self._view.repository, self.header.ref, below)
        if first_error is not None and not self.totals.count:
            raise first_error

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the objects in path order; record a failure for each name that does not exist."""
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

    def unsigned(self) -> "Iterator[SigningItem]":
        """Yield each path with its entry, and its URL (which may still be unsigned) or an error."""
        for path, value in self._records():
            entry = decode_entry(value)
            try:
                url: PresignedUrl | LakeError = self._presign(entry, path)
            except LakeError as error:
                url = error
            yield path, entry, url


@contextmanager
def open_handoff(
    repository: Repository,
    ref: str,
    prefix: bytes,
    *,
    expires_in: timedelta,
    inline: bool = False,
    names: Sequence[bytes] | None = None,
) -> Iterator[ObjectLinks]:
    """Open the links to all objects of a ref below a directory.

    Args:
        ref: a ref expression; a branch name without a modifier includes the staging area.
        prefix: a directory; a missing trailing slash is added.
        inline: let browsers show every object, including objects whose code they would run.
        names: the sorted names of the wanted objects below the directory; ``None``: all objects.

    Raises:
        NotFound: no such ref.
    """
    below = as_directory(prefix)
    with open_view(repository, ref) as view:
        uncommitted = next(view.staged(prefix=below), None) is not None
        now = repository.lake.runtime.now().astimezone(UTC)
        where = repository.uri, repository.record.uuid, ref, view.commit.id
        header = Header(*where, uncommitted, below, now)
        presign = partial(presign_entry, repository, expires_in=expires_in, now=now)
        presign = partial(presign, inline=inline, may_be_unsigned=True)
        handoff = ObjectLinks(header, view, presign, names)
        with closing(in_order(handoff.unsigned())) as handoff.items:
            yield handoff


SigningItem = tuple[bytes, Entry, PresignedUrl | LakeError]
"""A path, its entry, and its URL or the error that prevents signing."""

THREADS: Final = 8
"""The number of threads that sign URLs."""

WINDOW: Final = 256
"""The largest number of URLs that are signed in one round; the first rounds are smaller."""


def in_order(items: Iterator[SigningItem]) -> Generator[SigningItem]:
    """Yield the items in order, each with a signed URL or an error.

    Threads sign the URLs until the generator is closed.
    """
    pool, size = ThreadPoolExecutor(THREADS), THREADS
    try:
        while window := list(islice(items, size)):
            size = min(2 * size, WINDOW)
            if any(isinstance(url, PresignedUrl) and url.unsigned for _, _, url in window):
                share = ceil(len(window) / THREADS)
                shares = [window[start : start + share] for start in range(0, len(window), share)]
                signed = pool.map(lambda each: list(map(_sign, each)), shares)
                window = list(chain.from_iterable(signed))
            yield from window
    finally:
        pool.shutdown(cancel_futures=True)


def _sign(item: SigningItem) -> SigningItem:
    """Return an item with a signed URL; if signing fails, with the error instead of the URL."""
    path, entry, url = item
    if not isinstance(url, PresignedUrl) or url.unsigned is None:
        return item
    sign, text = url.unsigned
    try:
        return path, entry, url.signed(sign(text))
    except LakeError as error:
        return path, entry, error


PARTS: Final = ".lakecli-parts"
"""The directory in which download scripts keep unfinished files."""

_TO_ESCAPE: Final = re.compile(rb"[^ -~]|['\\]")
_URL_MARKS: Final = "._~:/?[]@!$&()*+,;=%-"

_SURROGATE_BYTES: Final = ("\udc80", "\udcff")
"""The first and the last surrogate to which Python decodes a byte that is not UTF-8."""


def problem_of(name: bytes, size: int) -> str | None:
    """Return why the name of an object is not valid for a file below a directory, or ``None``.

    The name of an empty object may end in a slash, which marks a directory.
    """
    components = (name if size else name.removesuffix(b"/")).split(b"/")
    if name.startswith(b"/"):
        return "it is an absolute path"
    if b".." in components:
        return ".. leads out of the directory"
    if b"" in components or b"." in components:
        return "one of its components is empty or ."
    if b"\0" in name:
        return "it has a NUL"
    if is_own(name):
        return LEFT_OUT
    return None


def shell_word(name: bytes) -> str:
    r"""Escape a name for an argument in single quotes that ``printf %b`` decodes; return ASCII.

    Backslashes, single quotes and everything but printable ASCII become ``\0`` and three octal
    digits.
    """
    escaped = _TO_ESCAPE.sub(lambda match: b"\\0%03o" % match[0][0], name)
    return escaped.decode("ascii")


def url_text(url: str) -> str:
    """Percent-encode all quotes and all characters that URLs may not contain."""
    return quote(url, safe=_URL_MARKS, errors="surrogateescape")


def readable(name: bytes) -> str:
    r"""Escape the invisible characters of a name.

    Examples of the result are ``\n``, ``\u202e``, and ``\xff`` for a byte that is not UTF-8.
    Backslashes are doubled.
    """
    return escape_hidden(os.fsdecode(name).replace("\\", "\\\\"), _hidden)


def _hidden(character: str) -> str:
    if _SURROGATE_BYTES[0] <= character <= _SURROGATE_BYTES[1]:
        return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
    return character.encode("unicode_escape").decode("ascii")


def one_line(name: bytes) -> str:
    """Return a name as one line of printable ASCII, for comments."""
    return readable(name).encode("ascii", "backslashreplace").decode("ascii")


def presign_entry(
    repository: Repository,
    entry: Entry,
    path: bytes,
    *,
    expires_in: timedelta,
    now: datetime | None = None,
    inline: bool = False,
    may_be_unsigned: bool = False,
) -> PresignedUrl:
    """Return a URL that reads an entry's bytes without credentials.

    The URL sets the content type and the file name of the response, since one data object may be at
    many paths. Browsers save objects of unknown type, and objects whose code they would run.

    Presigning sends no request to the storage namespace. For each other S3 bucket, the region is
    requested once, since a signature is valid for one region.

    Args:
        expires_in: how long the URL is valid from `now` on.
        now: the time of signing; ``None``: the present.
        inline: let browsers show every object, even if they would run its code.
        may_be_unsigned: leave slow signatures to the caller; see `PresignRequest`.

    Raises:
        Unsupported: the store has no presigned URLs.
        LakeError: the entry's address cannot be resolved; see `AddressResolver`.
    """
    store, key = repository.addresses.locate(entry.physical_address)
    name, kind = os.fsdecode(path[path.rfind(b"/") + 1 :]), entry.content_type
    is_saved, encoding = not (inline or _SHOWN.fullmatch(kind)), entry.content_encoding
    how = kind, name, is_saved, may_be_unsigned
    request = PresignRequest("GET", expires_in, *how, content_encoding=encoding)
    return store.presign(key, request, now=now or repository.lake.runtime.clock())
