"""Listings: the objects of a ref, or of all branches and tags in turn.

Below the prefix ``main/`` a listing is that of one ref. Without a ref in the prefix, all branches
and tags are listed, in the order of their names with a slash: with the delimiter ``/`` each of them
is a common prefix, even if it has no objects; otherwise all their objects are walked. Other ref
expressions can be read, but are not listed here.

A page begins with a search for its first name, so its cost does not depend on the pages before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from lakecli.committed.scan import ListedObject, ListedPrefix, list_prefix
from lakecli.committed.values import decode_entry
from lakecli.refs.ref_store import RefStore
from lakecli.serving.s3 import pages, xml
from lakecli.serving.s3.buckets import OWNER, check_bucket
from lakecli.serving.s3.call import Call, S3Answer, xml_answer
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.objects import etag_of, iso_date

SLASH: Final = b"/"

Listed = tuple[bytes, ListedObject | ListedPrefix]
"""What stands before a name, such as its ref and a slash, and the rest of it."""


class ListingPage(NamedTuple):
    """What a client asks to be listed, and how.

    Attributes:
        after: the name after which the page begins; ``b""``: from the beginning.
        most: the largest number of names.
        encoding: how names are written: ``url`` or ``""``.
    """

    prefix: bytes
    delimiter: bytes
    after: bytes
    most: int
    encoding: str

    @classmethod
    def of(cls, call: Call, after: bytes) -> ListingPage:
        """Return what the parameters of a request ask for."""
        query = call.query
        return cls(
            _bytes(query.get("prefix", "")),
            _bytes(query.get("delimiter", "")),
            after,
            pages.most_of(query.get("max-keys")),
            pages.encoding_of(query.get("encoding-type")),
        )

    def leaf(self, name: str, key: bytes) -> xml.Markup:
        """Return an element with a name of an object or prefix."""
        return xml.leaf(name, xml.name_of(key, encoding=self.encoding))

    def echoed(self, call: Call) -> list[xml.Markup]:
        """Return the elements that repeat the request."""
        encoding = [xml.leaf("EncodingType", self.encoding)] if self.encoding else []
        delimiter = [self.leaf("Delimiter", self.delimiter)] if self.delimiter else []
        return [
            xml.leaf("Name", call.bucket),
            self.leaf("Prefix", self.prefix),
            *delimiter,
            xml.leaf("MaxKeys", self.most),
            *encoding,
        ]


async def list_objects(call: Call) -> S3Answer:
    """Answer ListObjects, the first version."""
    marker = _bytes(call.query.get("marker", ""))
    page = ListingPage.of(call, marker)
    items, last, is_truncated = await call.in_thread(_listed, call, page, has_owner=True)
    follows = [page.leaf("NextMarker", last)] if is_truncated and page.delimiter else []
    children = [
        *page.echoed(call),
        page.leaf("Marker", marker),
        xml.leaf("IsTruncated", is_truncated),
        *follows,
        *items,
    ]
    return xml_answer(xml.document("ListBucketResult", children))


async def list_objects_v2(call: Call) -> S3Answer:
    """Answer ListObjects, the second version."""
    query = call.query
    if query["list-type"] != "2":
        raise S3Error("InvalidArgument", f"no such list-type: {query['list-type']}")
    secret = call.context.access.signing
    token = query.get("continuation-token")
    start = _bytes(query.get("start-after", ""))
    listing = (call.bucket, query.get("prefix", ""), query.get("delimiter", ""))
    page = ListingPage.of(
        call, start if token is None else pages.position_of(secret, listing, token)
    )
    has_owner = query.get("fetch-owner") == "true"
    items, last, is_truncated = await call.in_thread(_listed, call, page, has_owner=has_owner)
    children = [*page.echoed(call), xml.leaf("KeyCount", len(items))]
    if start:
        children.append(page.leaf("StartAfter", start))
    if token is not None:
        children.append(xml.leaf("ContinuationToken", token))
    children.append(xml.leaf("IsTruncated", is_truncated))
    if is_truncated:
        children.append(xml.leaf("NextContinuationToken", pages.token_of(secret, listing, last)))
    return xml_answer(xml.document("ListBucketResult", [*children, *items]))


def _listed(
    call: Call, page: ListingPage, *, has_owner: bool
) -> tuple[list[xml.Markup], bytes, bool]:
    """Return the elements of a page, its last name, and whether more follow."""
    if not page.most:
        check_bucket(call)
        return [], b"", False
    items: list[xml.Markup] = []
    prefixes: list[xml.Markup] = []
    last = b""
    owner = OWNER if has_owner else ""
    for own, item in _walk(call, page):
        if len(items) + len(prefixes) == page.most:
            return items + prefixes, last, True
        last = own + item.path
        if isinstance(item, ListedPrefix):
            prefixes.append(xml.branch("CommonPrefixes", [page.leaf("Prefix", last)]))
            continue
        entry = decode_entry(item.value)
        items.append(
            xml.Markup(
                f"<Contents>{page.leaf('Key', last)}<LastModified>{iso_date(entry.modified_at)}"
                f"</LastModified><ETag>&quot;{etag_of(entry)}&quot;</ETag>"
                f"<Size>{entry.size}</Size>{owner}<StorageClass>STANDARD</StorageClass></Contents>"
            )
        )
    return items + prefixes, last, False


def _walk(call: Call, page: ListingPage) -> Iterator[Listed]:
    """Yield objects and common prefixes in order, from the first one of the page."""
    ref, slash, below = page.prefix.partition(SLASH)
    if slash:
        try:
            yield from _of_ref(call, ref, below, page)
        except S3Error as error:
            if error.code != "NoSuchKey":  # there is no such ref, so there is nothing
                raise
        return
    names = _refs(call, page.prefix)
    if page.delimiter == SLASH:
        yield from ((b"", ListedPrefix(name)) for name in names if name > page.after)
        return
    cut = b""
    for name in names:
        if page.after and name < page.after and not page.after.startswith(name):
            continue
        common = _common(name, page)
        if common is None:
            yield from _of_ref(call, name[:-1], b"", page)
        elif common != cut and not page.after.startswith(common):
            # The delimiter is in the name of the ref: an empty ref has no prefix.
            with call.view(os.fsdecode(name[:-1])) as view:
                is_there = next(view.scan(), None) is not None
            if is_there:
                cut = common
                yield b"", ListedPrefix(common)


def _common(name: bytes, page: ListingPage) -> bytes | None:
    """Return the common prefix within the name of a ref and its slash, or ``None``."""
    at = name.find(page.delimiter, len(page.prefix)) if page.delimiter else -1
    return None if at < 0 else name[: at + len(page.delimiter)]


def _refs(call: Call, prefix: bytes) -> list[bytes]:
    """Return the names of branches and tags with a prefix, each with a slash, ordered."""
    check_bucket(call)
    repository = call.context.served.repository(call.bucket)
    with repository.lake.kv.read() as txn:
        names = {os.fsencode(name) for _, name, _ in RefStore(txn, repository.key).iter_refs()}
    return sorted(name + SLASH for name in names if name.startswith(prefix))


def _of_ref(call: Call, ref: bytes, below: bytes, page: ListingPage) -> Iterator[Listed]:
    """Yield the objects and common prefixes of one ref."""
    own = ref + SLASH
    after = b""
    if page.after.startswith(own):
        after = page.after[len(own) :]
    elif page.after > own:
        return
    with call.view(os.fsdecode(ref)) as view:
        scan: Callable[[bytes], Iterator[tuple[bytes, bytes]]] = partial(_scan, view.scan, below)
        for item in list_prefix(scan, prefix=below, delimiter=page.delimiter, after=after):
            yield own, item


def _scan(
    scan: Callable[..., Iterator[tuple[bytes, bytes]]], prefix: bytes, start: bytes
) -> Iterator[tuple[bytes, bytes]]:
    return scan(prefix=prefix, start=start)


def _bytes(text: str) -> bytes:
    """Return the bytes of a parameter."""
    return text.encode("utf-8", "surrogateescape")
