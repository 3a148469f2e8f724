"""Queries, conditional requests and byte ranges, for all surfaces."""

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl

from lakecli.base.model import Entry
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.contents import damaged, gone, read_object
from lakecli.repository.reading.recorded import locate
from lakecli.stores.contract import ObjectNotFound
from lakecli.stores.streams import open_range

PIECE: Final = 1 << 20
"""The maximum number of bytes per read, and of a body that is passed to a thread whole."""

_RANGE: Final = re.compile(r"bytes\s*=\s*(?:([0-9]{1,40})\s*-\s*([0-9]{0,40})|-\s*([0-9]{1,40}))")


def query_of(raw: bytes, *, most: int | None = None) -> list[tuple[str, str]]:
    """Return the decoded names and values of a query; bytes that are not UTF-8 become surrogates.

    Raises:
        UsageError: there are more than `most` parameters.
    """
    try:
        text = raw.decode("utf-8", "surrogateescape")
        return parse_qsl(
            text, keep_blank_values=True, errors="surrogateescape", max_num_fields=most
        )
    except ValueError:
        raise UsageError("too many parameters in the address") from None


def has_tag(tags: str, etag: str | None, *, is_weak: bool = False) -> bool:
    """Return whether a list of ETags has the ETag of an object, or is ``*`` and the object exists.

    Args:
        tags: the value of ``If-Match`` or ``If-None-Match``.
        etag: the object's ETag, without quotes; ``None`` if there is no object.
        is_weak: whether weak ETags (``W/"…"``) match, too.
    """
    if etag is None:
        return False
    found = (each.strip().removeprefix("W/" if is_weak else "") for each in tags.split(","))
    return tags.strip() == "*" or etag in (each.strip('"') for each in found)


@lru_cache(1 << 12)
def http_date(moment: datetime) -> str:
    """Return a time in the format of HTTP headers such as ``Last-Modified``."""
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def part_of(header: str, size: int) -> tuple[int, int] | None:
    """Return the start and the end (exclusive) of the bytes that a ``Range`` header requests.

    ``None`` means the whole object: the header is empty, malformed or has several ranges, and RFC
    9110 lets a server ignore it. If the range is outside the object, the start is at or after the
    end.
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None or (found[2] and int(found[2]) < int(found[1])):
        return None
    if found[3]:
        return max(size - int(found[3]), 0), size
    return int(found[1]), min(int(found[2]) + 1, size) if found[2] else size


def read_part(repository: Repository, entry: Entry, start: int, size: int) -> Iterator[bytes]:
    """Yield a part of an object, and verify its size; if it is the whole object, its contents, too.

    Raises:
        NotFound: the object is not where its entry says.
        IntegrityError: the object is too short, or damaged.
    """
    if size == entry.size:
        yield from read_object(repository, entry)
        return
    store, key = locate(repository, entry)
    try:
        if size <= PIECE:  # one request, and nothing to close
            data = store.get(key, start=start, length=size)
            size -= len(data)
            if not size:
                yield data
        else:
            with closing(open_range(store, key, start=start, length=size)) as source:
                while size and (piece := source.read(min(PIECE, size))):
                    size -= len(piece)
                    yield piece
    except ObjectNotFound as error:
        raise gone(repository.uri, store, key) from error
    if size:
        raise damaged(repository.uri, store, key)
