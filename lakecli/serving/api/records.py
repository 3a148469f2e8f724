"""The records of lakeFS's REST API as JSON: how each is made of lakecli's own."""

from __future__ import annotations

import re
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from lakecli.base.model import Branch, ChangeType, Commit, Difference, Entry, RepositoryRecord, Tag
from lakecli.committed.scan import ListedObject, ListedPrefix
from lakecli.committed.values import decode_entry
from lakecli.repository.handoff.links import presign_entry
from lakecli.repository.reading.addresses import is_external
from lakecli.serving.api.requests import ApiError
from lakecli.stores.uri import as_url, is_local

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

PRESIGNED_FOR: Final = timedelta(minutes=15)
"""How long presigned URLs work: as long as those of lakeFS."""


def shown_text(path: bytes) -> str:
    """Return a path as text; bytes that are not UTF-8 are replaced, as lakeFS does."""
    return path.decode("utf-8", "replace")


def repository_json(record: RepositoryRecord) -> dict[str, Any]:
    """Return lakeFS's ``Repository``."""
    return {
        "id": record.name,
        "creation_date": int(record.created_at.timestamp()),
        "default_branch": record.default_branch,
        "storage_id": "",
        "storage_namespace": as_url(record.storage_namespace),
        "read_only": record.is_borrowed,
    }


def ref_json(ref: Branch | Tag) -> dict[str, Any]:
    """Return lakeFS's ``Ref``."""
    return {"id": ref.name, "commit_id": ref.commit_id}


def commit_json(commit: Commit) -> dict[str, Any]:
    """Return lakeFS's ``Commit``."""
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "committer": commit.committer,
        "message": commit.message,
        "creation_date": int(commit.created_at.timestamp()),
        "meta_range_id": commit.metarange_id,
        "metadata": dict(commit.metadata),
        "generation": commit.generation,
        "version": commit.version,
    }


def object_json(
    repository: Repository,
    path: bytes,
    entry: Entry,
    *,
    presigned: bool = False,
    user_metadata: bool = True,
) -> dict[str, Any]:
    """Return lakeFS's ``ObjectStats``.

    Args:
        presigned: give a URL that reads the object, if the store can sign one, as its address.
    """
    address = entry.physical_address
    if not is_external(entry):
        address = f"{as_url(repository.record.storage_namespace)}/{address}"
    record: dict[str, Any] = {
        "path": shown_text(path),
        "path_type": "object",
        "physical_address": address,
        "checksum": entry.checksum,
        "size_bytes": entry.size,
        "mtime": int(entry.modified_at.timestamp()),
        "content_type": entry.content_type,
    }
    if presigned and can_presign(repository):
        url = presign_entry(repository, entry, path, expires_in=PRESIGNED_FOR)
        record["physical_address"] = url.url
        record["physical_address_expiry"] = int(url.expires_at.timestamp())
    if user_metadata:
        record["metadata"] = dict(entry.metadata)
    return record


def can_presign(repository: Repository) -> bool:
    """Return whether the namespace is in a bucket, for which URLs can be signed."""
    return not is_local(repository.record.storage_namespace)


def prefix_json(path: bytes) -> dict[str, Any]:
    """Return lakeFS's ``ObjectStats`` of a common prefix."""
    return {
        "path": shown_text(path),
        "path_type": "common_prefix",
        "physical_address": "",
        "checksum": "",
        "mtime": 0,
    }


def difference_json(
    found: ListedObject | ListedPrefix, *, has_right: bool = False
) -> dict[str, Any]:
    """Return lakeFS's ``Diff``.

    Args:
        found: a path with its `Difference` as the value, or a common prefix of several paths.
        has_right: whether to describe the object of the right side.
    """
    if isinstance(found, ListedPrefix):
        path, kind, path_type, size = found.path, "prefix_changed", "common_prefix", 0
        return {"type": kind, "path": shown_text(path), "path_type": path_type, "size_bytes": size}
    path, change = found.path, cast("Difference", found.value)
    value = change.left if change.type is ChangeType.REMOVED else change.right or change.left
    assert value is not None
    entry = decode_entry(value)
    record: dict[str, Any] = {
        "type": str(change.type),
        "path": shown_text(path),
        "path_type": "object",
        "size_bytes": entry.size,
    }
    if has_right and change.right is not None:
        record["right"] = {
            "checksum": entry.checksum,
            "mtime": int(entry.modified_at.timestamp()),
            "content_type": entry.content_type,
            "metadata": dict(entry.metadata),
        }
    return record


_RANGE: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the start and the end (excluded) of the bytes that a header ``Range`` asks for.

    ``None`` means all of them: without a header, and for what HTTP lets a server ignore.

    Raises:
        ApiError: the object has none of these bytes.
    """
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        start, end = max(size - int(last), 0), size if int(last) else 0
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= end:
        raise ApiError(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"the object has {size} bytes",
            {"Content-Range": f"bytes */{size}"},
        )
    return start, end
