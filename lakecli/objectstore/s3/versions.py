"""Versions of objects in a bucket of S3 that has versioning enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakecli.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENABLED: Final = "Enabled"


def wanted(version_id: str) -> dict[str, str]:
    """Return the parameters that ask for a version; none for the current object."""
    return {"VersionId": version_id} if version_id else {}


def status_of(client: Any, bucket: str) -> str:  # noqa: ANN401 - the SDK is not typed
    """Return the bucket's versioning: ``Enabled``, ``Suspended``, or ``""`` where it never was."""
    return str(client.get_bucket_versioning(Bucket=bucket).get("Status", ""))


def kept_no_more(bucket: str, status: str) -> Unsupported:
    """Return the error of a bucket that does not keep the versions of its objects."""
    state = "is suspended" if status else "was never enabled"
    return Unsupported(
        f"the bucket keeps no versions of its objects, versioning {state}: {bucket}",
        hint="enable versioning of the bucket, or copy the bytes into the repository: --copy",
    )


def current(page: Mapping[str, Any], *, after: str) -> Iterator[Mapping[str, Any]]:
    """Yield the current versions of a page; an object that was deleted has none.

    Args:
        page: answer to ``list_object_versions``.
        after: the key from which on was asked; servers differ in whether they include it.
    """
    floor = after.encode("utf-8", "surrogateescape")
    for item in page.get("Versions", ()):
        if item["IsLatest"] and item["Key"].encode("utf-8", "surrogateescape") > floor:
            yield item


def next_page(page: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the parameters that ask for the page after this one, if there is one."""
    if not page.get("IsTruncated"):
        return None
    marker = {"KeyMarker": page["NextKeyMarker"]}
    if page.get("NextVersionIdMarker"):
        marker["VersionIdMarker"] = page["NextVersionIdMarker"]
    return marker
