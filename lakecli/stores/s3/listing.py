"""Listings of a bucket, a page at a time: by plain requests, by the SDK where they do not suffice.

The SDK takes five times the processor time for a page, and 250 ms before the first one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote_plus

from lakecli.stores.contract import ObjectInfo
from lakecli.stores.responses import (
    MAX_ANSWER,
    UnusableAnswerError,
    name_below,
    read_xml,
    required,
    token_of,
)
from lakecli.stores.s3 import versions
from lakecli.stores.s3.connection import S3Connection
from lakecli.stores.s3.direct import DirectRequests
from lakecli.stores.s3.versions import version_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SIZE: Final = re.compile("[0-9]{1,18}", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)
_OF_OBJECTS: Final = frozenset({"Key", "Size", "LastModified", "ETag"})
_OF_PAGES: Final = frozenset({"IsTruncated", "NextContinuationToken", "EncodingType"})


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
        except (UnicodeError, UnusableAnswerError):
            return None


def _described(item: Mapping[str, Any]) -> ObjectInfo:
    version = version_of(item)
    modified_at = required(item, "LastModified").replace(microsecond=0)
    size = required(item, "Size")
    if size < 0:
        raise UnusableAnswerError("an object has a negative size")
    return ObjectInfo(required(item, "Key"), size, modified_at, version, version)


def read_page(body: bytes) -> Page:
    """Read a page of a listing with URL-encoded keys.

    Raises:
        UnusableAnswerError: it is not written as S3 writes it.
    """
    root = read_xml(body, "ListBucketResult", "IsTruncated")
    page = _texts(root, _OF_PAGES)
    is_truncated = page["IsTruncated"] == "true"
    token = page.get("NextContinuationToken", "")
    if is_truncated and not token:
        raise UnusableAnswerError("it does not say which page follows")
    is_encoded = page.get("EncodingType") == "url"
    objects = [_object_of(item, is_encoded=is_encoded) for item in root.iterfind("{*}Contents")]
    return Page(objects, token if is_truncated else "")


def _texts(element: Element, names: frozenset[str]) -> dict[str, str]:
    """Return the texts of the children that have these names; each comes once at most."""
    texts: dict[str, str] = {}
    for child in element:
        name = child.tag.rpartition("}")[2]
        if name in names:
            if name in texts or len(child):
                raise UnusableAnswerError(f"{name} comes twice, or is no text")
            texts[name] = child.text or ""
    return texts


def _object_of(element: Element, *, is_encoded: bool) -> ObjectInfo:
    item = _texts(element, _OF_OBJECTS)
    try:
        key, size, moment = item["Key"], item["Size"], item["LastModified"]
    except KeyError as error:
        raise UnusableAnswerError("an object lacks a property") from error
    if not _SIZE.fullmatch(size) or not _MOMENT.fullmatch(moment):
        raise UnusableAnswerError("a size or a time is malformed")
    try:
        full = unquote_plus(key, errors="strict") if is_encoded else key
        modified_at = datetime.fromisoformat(f"{moment[:19]}+00:00")
    except ValueError as error:
        raise UnusableAnswerError("a key or a time is malformed") from error
    version = version_of({"ETag": item.get("ETag", "")})
    return ObjectInfo(full, int(size), modified_at, version, version)
