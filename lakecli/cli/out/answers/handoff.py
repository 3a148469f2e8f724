"""JSON answers about presigned URLs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TypedDict

from lakecli.base.model import CommitId


class Presigned(TypedDict):
    """A presigned URL.

    Attributes:
        url: URL that reads the object; keep it secret.
        expires_at: time when the URL expires.
    """

    path: bytes | str
    url: str
    expires_at: datetime


class Link(TypedDict):
    """A presigned URL of one object among many.

    Attributes:
        size: size in bytes.
        checksum: BLAKE3 in 64 hex digits, or the ETag of an imported object.
        url: URL that reads the object; keep it secret.
        expires_at: time when the URL expires.
    """

    path: bytes | str
    size: int
    checksum: str
    url: str
    expires_at: datetime


class Handoff(TypedDict):
    """The files with presigned URLs that were written.

    Attributes:
        repository: URI of the repository.
        ref: the ref as given.
        commit_id: commit of the ref at that time.
        uncommitted: whether uncommitted changes are included.
        prefix: prefix of all paths.
        created_at: time when the URLs were signed.
        expires_at: time when the first URL expires.
        count: number of objects.
        size: bytes of all objects.
        manifest: the manifest file.
        script: the script file.
    """

    repository: str
    ref: str
    commit_id: CommitId
    uncommitted: bool
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    count: int
    size: int
    manifest: Path | None
    script: Path | None


class CheckedLink(TypedDict):
    """A URL of a manifest, compared with the current state.

    Attributes:
        state: same, changed or removed.
        expired: whether the URL has expired.
        expires_at: time when the URL expires or expired.
        seconds_left: seconds until it expires; negative if it has expired.
    """

    path: bytes | str
    state: str
    expired: bool
    expires_at: datetime
    seconds_left: int


class IncomingLink(TypedDict):
    """A URL for uploading an object.

    Attributes:
        id: 32 hex digits, for fs stage --incoming.
        url: URL for uploading an object; keep it secret.
        expires_at: time when the URL expires.
        headers: headers to send with the object.
        physical_address: URI of the uploaded object.
    """

    id: str
    url: str
    expires_at: datetime
    headers: Mapping[str, str]
    physical_address: str
