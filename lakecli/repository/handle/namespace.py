"""The storage namespace of a repository: its claim, its description, and who may read or write it.

The claim is a create-only PUT of ``_lakecli/repository.json``: the repository named in this file
owns the namespace. Then lakeFS's marker file is written, so that lakeFS, too, sees that the
namespace is taken.

`lakecli.repository.handle.shareable` decides whether several machines may write to a namespace.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from lakecli.base import layout, validation
from lakecli.base.ids import RepositoryUuid
from lakecli.base.model import RepositoryRecord
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.retry import CLAIMS, Retries
from lakecli.errors import AlreadyExists, IntegrityError, NotFound, Refused, Unreachable
from lakecli.refs.names import is_branch_name
from lakecli.repository.contract import Repository
from lakecli.repository.handle.shareable import ensure_shareable
from lakecli.repository.runtime import Runtime
from lakecli.stores import contract as stores
from lakecli.stores.capabilities import settle
from lakecli.stores.contract import ObjectStore, exists

FORMAT = 1

LAKEFS: Final = "lakefs"
"""The system from which a namespace was taken over."""

POLICY_NEED: Final = "policy"
"""The feature that writers must support once rules about refs are set: checking the rules."""

_NEEDS: Final = validation.optional(validation.list_of(validation.text(100, min_size=1), 100), ())

_REPOSITORY: Final = "repository "


class NamespaceTaken(AlreadyExists):
    """Another repository, of lakecli or of lakeFS, owns the storage namespace."""


class NewerRepository(Refused):
    """A newer lakecli created or changed the repository in a way that this version cannot use."""


class OtherRepository(Refused):
    """The storage namespace now contains another repository."""


class Description(NamedTuple):
    """The contents of ``_lakecli/repository.json``.

    Attributes:
        uuid: 32 hex digits, the same in every clone.
        range_entries: the tree parameter N; see `lakecli.committed.splitter`.
        default_branch: the name of the first branch of the repository.
        created_at: when the repository was created, by the clock of the creating machine.
        needs_write: features that are needed for writing, and that this version does not support.
        is_from_lakefs: whether the repository was taken over from lakeFS.
    """

    uuid: RepositoryUuid
    range_entries: int
    default_branch: str
    created_at: datetime
    needs_write: tuple[str, ...]
    is_from_lakefs: bool = False


def _document(record: RepositoryRecord, more: Mapping[str, object] | None = None) -> bytes:
    fields = {
        "format": FORMAT,
        "uuid": record.uuid,
        "range_entries": record.range_entries,
        "default_branch": record.default_branch,
        "created": record.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "needs_read": [],
        "needs_write": [],
        **(more or {}),
    }
    return json.dumps(fields, indent=2).encode() + b"\n"


_OWNER: Final = validation.Record({"uuid": validation.identifier(RepositoryUuid)})
_DESCRIPTION: Final = validation.Record(
    {
        "format": validation.whole(1, FORMAT),
        "uuid": validation.identifier(RepositoryUuid),
        "range_entries": validation.power_of_two(
            layout.MIN_RANGE_ENTRIES, layout.MAX_RANGE_ENTRIES
        ),
        "default_branch": validation.text_that(is_branch_name, "a name that a branch can have"),
        "created": validation.moment,
        "needs_read": _NEEDS,
        "needs_write": _NEEDS,
    }
)


def owner_of(store: ObjectStore) -> RepositoryUuid | None:
    """Return the UUID of the repository that claimed a namespace, or ``None``.

    Raises:
        IntegrityError: the namespace's ``repository.json`` cannot be parsed.
    """
    found = _read(store)
    if found is None:
        return None
    try:
        uuid: RepositoryUuid = _OWNER.read(found)["uuid"]
    except validation.Invalid as error:
        raise _damaged(store, error) from error
    return uuid


def origin_of(store: ObjectStore) -> Mapping[str, object] | None:
    """Return the recorded origin of a namespace taken over from lakeFS, unvalidated, or ``None``.

    Raises:
        IntegrityError: the namespace's ``repository.json`` cannot be parsed.
    """
    return _origin_in(_read(store) or {})


def _origin_in(fields: Mapping[str, object]) -> Mapping[str, object] | None:
    origin = fields.get("origin")
    return origin if isinstance(origin, dict) and origin.get("system") == LAKEFS else None


def describe(store: ObjectStore) -> Description | None:
    """Return the description of the repository in a namespace, or ``None`` if there is none.

    Raises:
        IntegrityError: the namespace's ``repository.json`` cannot be parsed.
        NewerRepository: only newer versions may read the repository.
    """
    found = _read(store)
    if found is None:
        return None
    try:
        known = validation.whole(1, validation.MAX_COUNT)(found.get("format"))
        if known > FORMAT:
            raise _newer(store, [f"format {known}"])
        fields = _DESCRIPTION.read(found)
    except validation.Invalid as error:
        raise _damaged(store, error) from error
    if needs := fields.pop("needs_read"):
        raise _newer(store, map(repr, needs))
    del fields["format"]
    created_at, is_from_lakefs = fields.pop("created"), _origin_in(found) is not None
    fields["needs_write"] = tuple(need for need in fields["needs_write"] if need != POLICY_NEED)
    return Description(**fields, created_at=created_at, is_from_lakefs=is_from_lakefs)


def _read(store: ObjectStore) -> dict[str, Any] | None:
    """Return the unchecked fields of ``repository.json``, or ``None`` if it does not exist."""
    try:
        data = store.get(layout.REPOSITORY, start=0, length=layout.MAX_REPOSITORY_SIZE + 1)
        return parse_json_object(data, max_size=layout.MAX_REPOSITORY_SIZE)
    except stores.ObjectNotFound:
        return None
    except Unparsable as error:
        raise _damaged(store, error) from error


def _damaged(store: ObjectStore, reason: ValueError) -> IntegrityError:
    what = f"{store.uri}/{layout.REPOSITORY} is not a repository description: {reason}"
    return IntegrityError(what, hint="restore it from a backup, or use another storage namespace")


def _newer(store: ObjectStore, needs: Iterable[str]) -> NewerRepository:
    what = f"the repository in {store.uri} needs a newer lakecli: {', '.join(needs)}"
    return NewerRepository(what, hint="upgrade lakecli")


def claim(store: ObjectStore, record: RepositoryRecord) -> RepositoryRecord:
    """Claim a namespace for a repository; repeating the claim for the same UUID changes nothing.

    Returns:
        The record, with the parameters of the first claim: an interrupted command may have made it
        with other parameters.

    Raises:
        NamespaceTaken: another repository, of lakecli or of lakeFS, owns the namespace.
        Unreachable: the store neither accepts the claim nor shows the claim of another repository.
    """
    if owner_of(store) is None:
        marker = find_lakefs_marker(store)
        if marker is not None:
            raise _taken(store, f"a lakeFS repository (found {marker})")
        _create(store, layout.REPOSITORY, _document(record))
    claimed = _claimed(store, record)
    _create(store, layout.LAKEFS_MARKER, layout.LAKEFS_MARKER_BODY)
    return claimed


def take_over(
    store: ObjectStore, record: RepositoryRecord, origin: Mapping[str, str]
) -> RepositoryRecord:
    """Claim a namespace that lakeFS has marked as its own; return the record as `claim` does.

    Args:
        origin: the IDs and times of the refs dump from which the repository was made, to be
            recorded in the claim.

    Raises:
        NamespaceTaken: another repository of lakecli owns the namespace.
        Unreachable: the store neither accepts the claim nor shows the claim of another repository.
    """
    body = _document(record, {"origin": {"system": LAKEFS, **origin}})
    _create(store, layout.REPOSITORY, body)
    return _claimed(store, record)


def _claimed(store: ObjectStore, record: RepositoryRecord) -> RepositoryRecord:
    """Check that a claim is that of a repository; return its record as it was claimed."""
    found = describe(store)
    if found is None:
        raise _not_created(store, layout.REPOSITORY)
    if found.uuid != record.uuid:
        raise _taken(store, f"{_REPOSITORY}{found.uuid}")
    names = ("range_entries", "default_branch", "created_at")
    return record._replace(**{name: getattr(found, name) for name in names})


def _create(store: ObjectStore, key: str, body: bytes) -> None:
    """Create an object, or accept an existing object; make sure that it exists afterwards.

    A failed condition does not prove that the object exists: S3 answers 409 during a concurrent
    write.

    Raises:
        Unreachable: the object does not exist.
    """
    attributes = stores.JSON if key == layout.REPOSITORY else stores.PLAIN
    for _ in Retries(CLAIMS).attempts():
        try:
            store.put(key, body, stores.ABSENT, attributes)
        except stores.ConditionFailed:
            if not exists(store, key):
                continue
            settle(store, key)
        return
    raise _not_created(store, key)


def _not_created(store: ObjectStore, key: str) -> Unreachable:
    hint = "wait and repeat the command; the storage namespace is not claimed"
    return Unreachable(f"{store.uri} refuses to create {key}, which does not exist", hint=hint)


def restore(store: ObjectStore, record: RepositoryRecord) -> None:
    """Write ``repository.json`` again if it is missing or damaged.

    If the namespace was taken over from lakeFS, the refs dump of the take-over is not known any
    more. So garbage collection refuses to run.

    Raises:
        NamespaceTaken: another repository owns the namespace.
    """
    try:
        owner = owner_of(store)
    except IntegrityError:
        owner = None
    if owner is not None and owner != record.uuid:
        raise _taken(store, f"repository {owner}")
    if owner is None:
        needs = [POLICY_NEED] if exists(store, layout.POLICY) else []
        origin = {"origin": {"system": LAKEFS}} if record.is_from_lakefs else {}
        body = _document(record, {"needs_write": needs, **origin})
        store.put(layout.REPOSITORY, body, stores.ANY, stores.JSON)


def need_policy(store: ObjectStore) -> None:
    """Prevent versions of lakecli that ignore rules about refs from writing; safe to repeat.

    Raises:
        IntegrityError: the namespace's ``repository.json`` is not valid.
        LostRace: somebody else changed the description of the repository meanwhile.
    """
    data, version = store.get_versioned(layout.REPOSITORY, length=layout.MAX_REPOSITORY_SIZE + 1)
    try:
        fields = parse_json_object(data, max_size=layout.MAX_REPOSITORY_SIZE)
        needs = _DESCRIPTION.read(fields)["needs_write"]
    except (Unparsable, validation.Invalid) as error:
        raise _damaged(store, error) from error
    if POLICY_NEED not in needs:
        body = json.dumps(fields | {"needs_write": [*needs, POLICY_NEED]}, indent=2).encode()
        store.put(layout.REPOSITORY, body + b"\n", stores.Match(version), stores.JSON)


def find_lakefs_marker(store: ObjectStore) -> str | None:
    """Return the key of the object by which lakeFS marks a namespace as its own, or ``None``."""
    markers = (layout.LAKEFS_MARKER, layout.LEGACY_LAKEFS_MARKER)
    return next((marker for marker in markers if exists(store, marker)), None)


def _taken(store: ObjectStore, owner: str) -> NamespaceTaken:
    hint = "use another prefix or directory; a repository owns its namespace alone"
    if owner.startswith(_REPOSITORY):
        hint = f"clone it: `clone {store.uri} lakefs://NAME`; or {hint}"
    return NamespaceTaken(f"storage namespace {store.uri} belongs to {owner}", hint=hint)


def describe_there(runtime: Runtime, uri: str, name: str) -> tuple[ObjectStore, RepositoryRecord]:
    """Return the store of a namespace, and the record of the repository in it.

    Args:
        uri: the normalised URI of the namespace.
        name: the name for the repository on this machine, written into the record.

    Raises:
        NotFound: there is no repository in the namespace.
        Refused: lakeFS owns the namespace, or its repository needs a newer lakecli.
    """
    store, region = runtime.for_repository(name).find_store(uri)
    description = describe(store)
    if description is None:
        suggested = "NAME" if "/" in name else name
        marker = find_lakefs_marker(store)
        if marker is not None:
            raise Refused(
                f"{store.uri} belongs to a lakeFS repository (found {marker})",
                hint="dump its refs (lakectl refs-dump lakefs://REPO > refs.json) and clone it: "
                f"`clone --from-lakefs {uri} lakefs://{suggested} --refs refs.json`",
            )
        hint = f"create one there: `repo create lakefs://{suggested} {uri}`"
        raise NotFound(f"no repository in {uri}", hint=hint)
    fields = description._asdict()
    del fields["needs_write"]
    return store, RepositoryRecord(name=name, storage_namespace=uri, region=region, **fields)


def check_writable(repository: Repository) -> None:
    """Raise an error if this version or this clone must not write refs to the namespace.

    Raises:
        CannotShare: several machines must not write to the namespace; see `ensure_shareable`.
        NewerRepository: only newer versions may write to the repository.
        OtherRepository: this repository no longer owns the namespace.
        Refused: lakeFS owns the namespace.
    """
    if needs := check_readable(repository).needs_write:
        raise _newer(repository.store, map(repr, needs))
    ensure_shareable(repository)


def hint_to_take_over(uri: str) -> str:
    """Return the hint for a request that needs a take-over of the namespace from lakeFS.

    Args:
        uri: the URI of the clone, which only reads the namespace.
    """
    return f"delete the clone, then clone it again with `take_over=True`: `repo delete {uri}`"


def check_readable(repository: Repository) -> Description:
    """Return the description of a repository in its namespace.

    Raises:
        NewerRepository: only newer versions may read the repository.
        OtherRepository: this repository no longer owns the namespace.
        Refused: lakeFS owns the namespace.
    """
    store = repository.store
    if repository.record.is_borrowed:
        raise Refused(
            f"the storage namespace of {repository.uri} belongs to lakeFS, where only lakeFS moves "
            "branches and tags",
            hint=hint_to_take_over(repository.uri),
        )
    description = describe(store)
    if description is None or description.uuid != repository.record.uuid:
        found = "no repository" if description is None else f"repository {description.uuid}"
        hint = f"is the right disk mounted? examine it: `doctor {repository.uri}`"
        raise OtherRepository(f"{store.uri} holds {found}, not {repository.record.uuid}", hint=hint)
    return description
