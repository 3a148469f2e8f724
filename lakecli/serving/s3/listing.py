"""Listings: the objects of a ref, or of all branches and tags in turn.

A prefix such as ``main/`` lists one ref. A prefix without a slash lists all branches and tags,
ordered by their names with a trailing slash: with the delimiter ``/`` each ref is a common prefix,
even if it has no objects; otherwise the objects of each ref are listed, and a delimiter counts only
in their paths. Commits and other ref expressions are listed only if the prefix names them.

A page seeks to its first name, so its cost does not depend on the pages before it. The continuation
token is the last name of the page before, in base64.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, Self

from starlette.responses import Response

from lakecli.base.model import Entry
from lakecli.committed.scan import ListedObject
from lakecli.committed.values import decode_entry
from lakecli.refs.ref_store import RefStore
from lakecli.serving.s3 import checksums, xml
from lakecli.serving.s3.call import Call, xml_response
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.objects import etag_of, iso_date

MOST: Final = 1000
"""The maximum number of names on a page."""

SLASH: Final = b"/"
_NUMBER: Final = re.compile("[0-9]{1,10}", re.ASCII)
_LARGEST: Final = (1 << 31) - 1


class ListingPage(NamedTuple):
    """The parameters of a listing request.

    Attributes:
        most: the maximum number of names on the page.
        encoding: the encoding of names in the response: ``url`` or ``""``.
    """

    prefix: bytes
    delimiter: bytes
    most: int
    encoding: str

    @classmethod
    def of(cls, call: Call, most: str) -> Self:
        """Return the listing parameters of a request.

        Args:
            most: the name of the query parameter that limits the number of names.
        """
        return cls(
            bytes_of(call, "prefix"),
            bytes_of(call, "delimiter"),
            most_of(call.query.get(most), most),
            encoding_of(call.query.get("encoding-type")),
        )

    def name(self, key: bytes) -> xml.Markup:
        """Return the name of an object or prefix in the encoding of the listing."""
        return xml.name_of(key, encoding=self.encoding)

    def echoed(self) -> dict[str, xml.Markup | None]:
        """Return the elements of the response that repeat parameters of the request."""
        return {
            "Prefix": self.name(self.prefix),
            "Delimiter": self.name(self.delimiter) if self.delimiter else None,
            "EncodingType": xml.Markup(self.encoding) if self.encoding else None,
        }


def bytes_of(call: Call, parameter: str) -> bytes:
    """Return a query parameter as bytes; ``b""`` if it is absent."""
    return call.query.get(parameter, "").encode("utf-8", "surrogateescape")


def list_objects(call: Call) -> Response:
    """Answer ListObjects and ListObjectsV2 with one page of objects and common prefixes."""
    query = call.query
    is_second = query.get("list-type") == "2"
    if not is_second and "list-type" in query:
        raise S3Error("InvalidArgument", f"no such list-type: {query['list-type']}")
    page = ListingPage.of(call, "max-keys")
    start = bytes_of(call, "start-after" if is_second else "marker")
    token = query.get("continuation-token") if is_second else None
    after = start if token is None else checksums.decoded(token)
    if token is not None and not after:
        raise S3Error("InvalidArgument", "The continuation token is malformed.")
    call.check_bucket()
    found = list(islice(_walk(call, page, after), page.most + 1))
    shown = found[: page.most]
    last = shown[-1][0] if shown and len(found) > len(shown) else b""
    marker = page.name(last) if last and page.delimiter else None
    has_owner = not is_second or query.get("fetch-owner") == "true"
    owner = xml.elements(Owner=xml.OWNER) if has_owner else xml.Markup()
    return xml_response(
        "ListBucketResult",
        Name=call.bucket,
        **page.echoed(),
        MaxKeys=page.most,
        IsTruncated=bool(last),
        Marker=None if is_second else page.name(start),
        NextMarker=None if is_second else marker,
        StartAfter=page.name(start) if is_second and start else None,
        ContinuationToken=token,
        NextContinuationToken=checksums.encoded(last) if is_second and last else None,
        KeyCount=len(shown) if is_second else None,
        Contents=[
            _described(page.name(name), decode_entry(value), owner)
            for name, value in shown
            if value is not None
        ],
        CommonPrefixes=[
            xml.elements(Prefix=page.name(name)) for name, value in shown if value is None
        ],
    )


def _described(name: xml.Markup, entry: Entry, owner: xml.Markup) -> xml.Markup:
    return xml.Markup(
        f"<Key>{name}</Key><LastModified>{iso_date(entry.modified_at)}</LastModified>"
        f"<ETag>&quot;{etag_of(entry)}&quot;</ETag><Size>{entry.size}</Size>{owner}"
        "<StorageClass>STANDARD</StorageClass>"
    )


def _walk(call: Call, page: ListingPage, after: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield objects and common prefixes after a name, in order.

    Yields:
        the name, and the encoded entry; ``None`` instead of it for a common prefix.
    """
    ref, slash, below = page.prefix.partition(SLASH)
    for before in [ref + SLASH] if slash else _refs(call, ref):
        is_begun = after.startswith(before)
        if after > before and not is_begun:
            continue
        if slash or page.delimiter != SLASH:
            rest = after[len(before) :] if is_begun else b""
            yield from _of_ref(call, before, below, page.delimiter, rest)
        elif not is_begun:
            yield before, None


def _of_ref(
    call: Call, before: bytes, prefix: bytes, delimiter: bytes, after: bytes
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the objects and common prefixes of one ref, whose name and a slash are `before`.

    There are none if the ref does not exist; it may also have been deleted meanwhile.
    """
    try:
        with call.view(os.fsdecode(before[:-1])) as view:
            for each in view.list_paths(prefix=prefix, delimiter=delimiter, after=after):
                yield before + each.path, each.value if isinstance(each, ListedObject) else None
    except S3Error as error:
        if error.code != "NoSuchKey":
            raise


def _refs(call: Call, prefix: bytes) -> list[bytes]:
    """Return the names of branches and tags with a prefix, in order, each with a slash added."""
    call.check_bucket()
    repository = call.context.served.repository(call.bucket)
    with repository.lake.kv.read() as txn:
        names = {os.fsencode(name) for _, name, _ in RefStore(txn, repository.key).iter_refs()}
    return sorted(name + SLASH for name in names if name.startswith(prefix))


def most_of(text: str | None, name: str = "max-keys") -> int:
    """Return the maximum number of names on a page, 0 to `MOST`.

    Raises:
        S3Error: InvalidArgument; the parameter is not a number.
    """
    return min(number_of(text, name), MOST) if text else MOST


def number_of(text: str, name: str) -> int:
    """Return a parameter that is a number; raise `S3Error` InvalidArgument if it is not."""
    if _NUMBER.fullmatch(text) is None or int(text) > _LARGEST:
        raise S3Error("InvalidArgument", f"{name} must be an integer between 0 and {_LARGEST}.")
    return int(text)


def encoding_of(text: str | None) -> str:
    """Return the encoding of names, ``url`` or ``""``; raise `S3Error` InvalidArgument if other."""
    if text and text.lower() != "url":
        raise S3Error("InvalidArgument", "encoding-type must be url.")
    return "url" if text else ""
