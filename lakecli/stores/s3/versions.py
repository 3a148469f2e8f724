"""Conditions and versions of objects, as S3 has them.

Versions for conditions are ETags, in headers and arguments. Versions with IDs are kept by buckets
that have versioning enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from lakecli.stores.contract import (
    Absent,
    Attributes,
    Condition,
    Match,
    ObjectInfo,
    Version,
    key_bytes,
)
from lakecli.stores.responses import etag_of, required, token_of


def headers_of(condition: Condition) -> dict[str, str]:
    """Return the arguments of a conditional request."""
    match condition:
        case Absent():
            return {"IfNoneMatch": "*"}
        case Match():
            return {"IfMatch": condition.checked()}
        case _:
            return {}


def arguments_of(attributes: Attributes) -> dict[str, Any]:
    """Return the arguments of a request that writes an object with these attributes."""
    named = {"ContentType": attributes.content_type, "Metadata": dict(attributes.metadata)}
    return {name: value for name, value in named.items() if value}


def version_of(answer: Mapping[str, Any]) -> Version:
    """Return the version that a response names, or ``""``.

    Raises:
        UnusableAnswerError: the ETag could not be sent back in a header.
    """
    return Version(etag_of(str(answer.get("ETag", ""))))


PAGE_SIZE: Final = 1_000
"""Objects in one page of a listing or one batch of deletions, at most."""

ENABLED: Final = "Enabled"


def wanted(version_id: str) -> dict[str, str]:
    """Return the parameters of a request for a version; none for the current object."""
    return {"VersionId": version_id} if version_id else {}


def status_of(client: Any, bucket: str) -> str:  # noqa: ANN401 - the SDK is not typed
    """Return the bucket's versioning: ``Enabled``, ``Suspended``, or ``""`` where it never was."""
    return str(client.get_bucket_versioning(Bucket=bucket).get("Status", ""))


def current(page: Mapping[str, Any], *, after: str) -> Iterator[Mapping[str, Any]]:
    """Yield the current versions of a page; a deleted object has none.

    Args:
        page: answer to ``list_object_versions``.
        after: the key after which the listing begins; some servers include it.
    """
    floor = after.encode("utf-8", "surrogateescape")
    for item in page.get("Versions", ()):
        key = required(item, "Key")
        if required(item, "IsLatest") and key.encode("utf-8", "surrogateescape") > floor:
            yield item


def joined(
    objects: Iterator[ObjectInfo],
    versions: Iterator[tuple[ObjectInfo, str]],
    ask: Callable[[str], tuple[ObjectInfo, str] | None],
) -> Iterator[tuple[ObjectInfo, str]]:
    """Yield the current version of each object that a plain listing names.

    Servers differ in where a listing of versions begins, and a missing object would be removed from
    a branch. So the plain listing decides which objects exist.

    Args:
        objects: in order of their keys.
        versions: with their IDs, in the same order.
        ask: describes one object that is not among the versions; ``None`` if it is gone.
    """
    waiting = next(versions, None)
    for info in objects:
        name = key_bytes(info.key)
        while waiting is not None and key_bytes(waiting[0].key) < name:
            waiting = next(versions, None)
        found = waiting if waiting and waiting[0].key == info.key else ask(info.key)
        if found is not None:
            yield found


def next_page(page: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the parameters that ask for the page after this one, if there is one."""
    if not page["IsTruncated"]:
        return None
    marker = {"KeyMarker": str(required(page, "NextKeyMarker"))}
    if page.get("NextVersionIdMarker"):
        marker["VersionIdMarker"] = token_of(page["NextVersionIdMarker"])
    return marker
