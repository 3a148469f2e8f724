"""Claiming a storage namespace, and what stands in its ``_lakecli/repository.json``.

The claim is a create-only PUT of ``repository.json``; whoever wrote it owns the namespace. After
it comes lakeFS's own marker, so that both systems see a taken namespace.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli import layout
from lakecli.errors import AlreadyExists, IntegrityError, Refused
from lakecli.ids import MalformedId, RepositoryUuid
from lakecli.objectstore.base import ABSENT, ANY, ConditionFailed, ObjectNotFound

if TYPE_CHECKING:
    from lakecli.model import RepositoryRecord
    from lakecli.objectstore.base import ObjectStore

FORMAT = 1

KNOWN_NEEDS: Final = frozenset[str]()
"""What a repository may ask of whoever reads or writes it, as far as this version can do it."""


class NamespaceTaken(AlreadyExists):
    """Another repository, or a lakeFS, lives in the storage namespace."""


class NewerRepository(Refused):
    """A newer lakecli made or changed the repository in a way that this one cannot work with."""


class Description(NamedTuple):
    """What stands in ``_lakecli/repository.json``.

    Attributes:
        uuid: 32 hex digits, the same in every clone.
        range_entries: the tree parameter N.
        default_branch: the name of the branch that the repository began with.
        created_at: by the clock of whoever created it.
        needs_read: what one has to know to read it, as far as this version does not.
        needs_write: likewise, to write to it.
    """

    uuid: RepositoryUuid
    range_entries: int
    default_branch: str
    created_at: datetime
    needs_read: tuple[str, ...]
    needs_write: tuple[str, ...]


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


def describe(store: ObjectStore) -> Description | None:
    """Return what is written of the repository in a namespace, or ``None`` if there is none.

    Raises:
        IntegrityError: its ``repository.json`` cannot be understood.
        NewerRepository: its format is one that came later.
    """
    try:
        data = store.get(layout.REPOSITORY)
    except ObjectNotFound:
        return None
    try:
        fields: dict[str, Any] = json.loads(data)
        if fields["format"] > FORMAT:
            raise _newer(store, f"format {fields['format']}")
        return Description(
            uuid=RepositoryUuid(fields["uuid"]),
            range_entries=int(fields["range_entries"]),
            default_branch=str(fields["default_branch"]),
            created_at=datetime.strptime(fields["created"], "%Y-%m-%dT%H:%M:%SZ").replace(
                tzinfo=UTC
            ),
            needs_read=_unknown(fields.get("needs_read", [])),
            needs_write=_unknown(fields.get("needs_write", [])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, MalformedId) as error:
        raise IntegrityError(
            f"{store.uri}/{layout.REPOSITORY} is not a repository description",
            hint="restore it from a backup, or use another storage namespace",
        ) from error


def check_needs(store: ObjectStore, description: Description, *, writing: bool) -> None:
    """Refuse a repository that asks for more than this version can do.

    Raises:
        NewerRepository: naming what it asks for.
    """
    lacking = (*description.needs_read, *(description.needs_write if writing else ()))
    if lacking:
        raise _newer(store, ", ".join(map(repr, sorted(set(lacking)))))


def _unknown(needs: list[str]) -> tuple[str, ...]:
    return tuple(need for need in needs if need not in KNOWN_NEEDS)


def _newer(store: ObjectStore, need: str) -> NewerRepository:
    return NewerRepository(
        f"the repository in {store.uri} needs a newer lakecli: {need}", hint="upgrade lakecli"
    )


def claim(store: ObjectStore, record: RepositoryRecord) -> None:
    """Take a namespace for a repository; repeating it for the same UUID changes nothing.

    Raises:
        NamespaceTaken: it belongs to another repository, or to a lakeFS.
    """
    owner = owner_of(store)
    if owner is None:
        marker = find_lakefs_marker(store)
        if marker is not None:
            raise _taken(store, f"a lakeFS repository (found {marker})")
        try:
            store.put(layout.REPOSITORY, _document(record), ABSENT, content_type="application/json")
        except ConditionFailed:
            owner = owner_of(store)
    if owner is not None and owner != record.uuid:
        raise _taken(store, f"repository {owner}")
    with suppress(ConditionFailed):  # written by an earlier attempt of this very claim
        store.put(layout.LAKEFS_MARKER, layout.LAKEFS_MARKER_BODY, ABSENT)


def restore(store: ObjectStore, record: RepositoryRecord) -> None:
    """Write ``repository.json`` again where it is gone or cannot be understood.

    Raises:
        NamespaceTaken: it belongs to another repository.
    """
    try:
        owner = owner_of(store)
    except IntegrityError:
        owner = None
    if owner is not None and owner != record.uuid:
        raise _taken(store, f"repository {owner}")
    if owner is None:
        store.put(layout.REPOSITORY, _document(record), ANY, content_type="application/json")


def find_lakefs_marker(store: ObjectStore) -> str | None:
    """Return the key by which lakeFS marks a namespace as its own, or ``None`` if it does not."""
    for marker in (layout.LAKEFS_MARKER, layout.LEGACY_LAKEFS_MARKER):
        try:
            store.head(marker)
        except ObjectNotFound:
            continue
        return marker
    return None


def _taken(store: ObjectStore, owner: str) -> NamespaceTaken:
    return NamespaceTaken(
        f"storage namespace {store.uri} belongs to {owner}",
        hint="use another prefix or directory; a repository owns its namespace alone",
    )
