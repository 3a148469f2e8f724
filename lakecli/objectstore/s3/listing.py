"""Listings of a bucket, a page at a time: by plain requests, by the SDK where they do not suffice.

The SDK takes five times the processor time for a page, and 250 ms before the first one.
"""

from __future__ import annotations

import re
from datetime import datetime
from urllib.parse import quote, unquote_plus

from lakecli.named_tuple import NamedTuple
from lakecli.objectstore.answer_checks import (
    MAX_ANSWER,
    UnusableAnswerError,
    name_below,
    required,
    token_of,
)
from lakecli.objectstore.base import ObjectInfo
from lakecli.objectstore.s3 import versions
from lakecli.objectstore.s3.conditions import version_of
from lakecli.typed import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.objectstore.s3.connection import S3Connection
    from lakecli.objectstore.s3.direct import DirectRequests

_SIZE: Final = re.compile("[0-9]{1,18}", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)
_MAX_DEPTH: Final = 8
"""Elements within each other; S3 sends four, and each new one is compared with those around it."""

_ROOT: Final = "ListBucketResult"
_OF_OBJECTS: Final = frozenset({"Key", "Size", "LastModified", "ETag"})
_OF_PAGES: Final = frozenset({"IsTruncated", "NextContinuationToken", "EncodingType"})
_TRUE_OR_FALSE: Final = {"true": True, "false": False}


class UnusualPageError(Exception):
    """A page is not written as S3 writes it; the SDK asks for it, and judges the answer."""


class Page(NamedTuple):
    """Objects by their full names, and the token of the next page, which is empty at the end."""

    objects: list[ObjectInfo]
    next_token: str


class S3Listing:
    """Lists the objects of one bucket; raises the SDK's errors, and `UnusableAnswerError`.

    Args:
        connection: of the store.
        bucket: its name.
        direct: plain requests, which are tried first.
    """

    def __init__(self, connection: S3Connection, bucket: str, direct: DirectRequests) -> None:
        self._connection = connection
        self._bucket = bucket
        self._direct = direct

    def page(self, prefix: str, *, after: str, token: str) -> Page:
        """Return a page.

        Args:
            prefix: of the full names.
            after: the full name that comes before the first one; ``""`` begins at the prefix.
            token: of the page; ``""`` for the first one.
        """
        named = {"Prefix": prefix}
        if token:
            named["ContinuationToken"] = token
        elif after:
            named["StartAfter"] = after
        page = self._plain_page(named)
        if page is None:
            answer = self._connection.client().list_objects_v2(
                Bucket=self._bucket, MaxKeys=versions.PAGE_SIZE, **named
            )
            objects = [_described(item) for item in answer.get("Contents", ())]
            is_last = not answer["IsTruncated"]
            page = Page(objects, "" if is_last else token_of(answer.get("NextContinuationToken")))
        if page.next_token:
            token_of(page.next_token, token)
        for info in page.objects:
            name_below(prefix, info.key)
        return page

    def _plain_page(self, named: Mapping[str, str]) -> Page | None:
        """Return a page, or ``None`` if the SDK has to ask for it."""
        parameters = {
            "encoding-type": "url",
            "list-type": "2",
            "max-keys": str(versions.PAGE_SIZE),
            "prefix": named["Prefix"],
        }
        if "ContinuationToken" in named:
            parameters["continuation-token"] = named["ContinuationToken"]
        if "StartAfter" in named:
            parameters["start-after"] = named["StartAfter"]
        try:
            pairs = [f"{name}={quote(parameters[name], safe='')}" for name in sorted(parameters)]
            body = self._direct.list("&".join(pairs), limit=MAX_ANSWER)
            return None if body is None else read_page(body)
        except (UnicodeError, UnusualPageError, UnusableAnswerError):
            return None


def _described(item: Mapping[str, Any]) -> ObjectInfo:
    version = version_of(item)
    modified_at = required(item, "LastModified").replace(microsecond=0)
    size = required(item, "Size")
    return ObjectInfo(required(item, "Key"), size, modified_at, version, version)


def read_page(body: bytes) -> Page:
    """Read a page of a listing with URL-encoded keys.

    Raises:
        UnusualPageError: it is not written as S3 writes it.
    """
    from xml.parsers.expat import ExpatError

    reader = _PageReader()
    try:
        reader.parse(body)
    except ExpatError as error:
        raise UnusualPageError(str(error)) from error
    is_truncated = _TRUE_OR_FALSE.get(reader.page.get("IsTruncated", ""))
    token = reader.page.get("NextContinuationToken", "")
    if is_truncated is None or (is_truncated and not token):
        raise UnusualPageError("it does not say whether another page follows")
    is_encoded = reader.page.get("EncodingType") == "url"
    objects = [_object_of(item, is_encoded=is_encoded) for item in reader.objects]
    return Page(objects, token if is_truncated else "")


def _object_of(item: Mapping[str, str], *, is_encoded: bool) -> ObjectInfo:
    try:
        key, size, moment = item["Key"], item["Size"], item["LastModified"]
    except KeyError as error:
        raise UnusualPageError("an object lacks a property") from error
    if not _SIZE.fullmatch(size) or not _MOMENT.fullmatch(moment):
        raise UnusualPageError("a size or a time is malformed")
    try:
        full = unquote_plus(key, errors="strict") if is_encoded else key
        modified_at = datetime.fromisoformat(f"{moment[:19]}+00:00")
    except ValueError as error:
        raise UnusualPageError("a key or a time is malformed") from error
    version = version_of({"ETag": item.get("ETag", "")})
    return ObjectInfo(full, int(size), modified_at, version, version)


class _PageReader:
    """Collects the texts of a page.

    Attributes:
        page: the texts below the root, by their names.
        objects: the texts below each object.
    """

    def __init__(self) -> None:
        from xml.parsers import expat

        self.page: dict[str, str] = {}
        self.objects: list[dict[str, str]] = []
        self._names: list[str] = []
        self._text: list[str] = []
        self._parser = expat.ParserCreate("UTF-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.StartDoctypeDeclHandler = self._refuse  # there are no entities without it

    def parse(self, body: bytes) -> None:
        """Read a page to its end."""
        self._parser.Parse(body, True)  # noqa: FBT003 - it takes no name

    def _refuse(self, *_: object) -> None:
        raise UnusualPageError("a document type")

    def _start(self, name: str, _: object) -> None:
        self._names.append(name)
        self._text.clear()
        if self._names[0] != _ROOT or len(self._names) > _MAX_DEPTH:
            raise UnusualPageError("another document")
        if self._names == [_ROOT, "Contents"]:
            self.objects.append({})
        if not (_OF_PAGES | _OF_OBJECTS).isdisjoint(self._names[:-1]):
            raise UnusualPageError("an element within a text")

    def _end(self, name: str) -> None:
        self._names.pop()
        if len(self._names) == 1:
            self._note(self.page, name, _OF_PAGES)
        elif self._names == [_ROOT, "Contents"]:
            self._note(self.objects[-1], name, _OF_OBJECTS)

    def _note(self, values: dict[str, str], name: str, known: frozenset[str]) -> None:
        if name not in known:
            return
        if name in values:
            raise UnusualPageError(f"{name} comes twice")
        values[name] = "".join(self._text)
