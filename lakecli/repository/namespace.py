"""Claiming a storage namespace, and what stands in its ``_lakecli/repository.json``.

The claim is a create-only PUT of ``repository.json``; whoever wrote it owns the namespace. After
it comes lakeFS's own marker, so that both systems see a taken namespace.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from lakecli import layout
from lakecli.errors import AlreadyExists, IntegrityError
from lakecli.objectstore.base import ABSENT, ConditionFailed, ObjectNotFound

if TYPE_CHECKING:
    from lakecli.model import RepositoryRecord
    from lakecli.objectstore.base import ObjectStore

FORMAT = 1


class NamespaceTaken(AlreadyExists):
    """Another repository, or a lakeFS, lives in the storage namespace."""


def _document(record: RepositoryRecord) -> bytes:
    fields = {
        "format": FORMAT,
        "uuid": record.uuid,
        "range_entries": record.range_entries,
        "default_branch": record.default_branch,
        "created": record.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "needs_read": [],
        "needs_write": [],
    }
    return json.dumps(fields, indent=2).encode() + b"\n"


def owner_of(store: ObjectStore) -> str | None:
    """Return the UUID of the repository that claimed a namespace, or ``None``.

    Raises:
        IntegrityError: its ``repository.json`` cannot be understood.
    """
    try:
        data = store.get(layout.REPOSITORY)
    except ObjectNotFound:
        return None
    try:
        return str(json.loads(data)["uuid"])
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"{store.uri}/{layout.REPOSITORY} is not a repository description",
            hint="restore it from a backup, or use another storage namespace",
        ) from error


def claim(store: ObjectStore, record: RepositoryRecord) -> None:
    """Take a namespace for a repository; repeating it for the same UUID changes nothing.

    Raises:
        NamespaceTaken: it belongs to another repository, or to a lakeFS.
    """
    owner = owner_of(store)
    if owner is None:
        _refuse_lakefs(store)
        try:
            store.put(layout.REPOSITORY, _document(record), ABSENT, content_type="application/json")
        except ConditionFailed:
            owner = owner_of(store)
    if owner is not None and owner != record.uuid:
        raise _taken(store, f"repository {owner}")
    with suppress(ConditionFailed):  # written by an earlier attempt of this very claim
        store.put(layout.LAKEFS_MARKER, layout.LAKEFS_MARKER_BODY, ABSENT)


def _refuse_lakefs(store: ObjectStore) -> None:
    for marker in (layout.LAKEFS_MARKER, layout.LEGACY_LAKEFS_MARKER):
        try:
            store.head(marker)
        except ObjectNotFound:
            continue
        raise _taken(store, f"a lakeFS repository (found {marker})")


def _taken(store: ObjectStore, owner: str) -> NamespaceTaken:
    return NamespaceTaken(
        f"storage namespace {store.uri} belongs to {owner}",
        hint="use another prefix or directory; a repository owns its namespace alone",
    )
