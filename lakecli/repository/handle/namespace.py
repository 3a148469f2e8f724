"""The storage namespace of a repository: its claim, what it holds, and whether it can be shared.

The claim is a create-only PUT of ``_lakecli/repository.json``: the repository named in it owns the
namespace. lakeFS's own marker follows, so that both systems see that the namespace is taken.

Sharing rests on compare-and-set, and a store that ignores conditions answers like one that honours
them. So the store is tested once, before this clone first writes a ref, and the result is recorded
in the local store. A namespace that passed is not tested again. One that failed is tested again
after a day or by ``lakecli doctor``, since stores are upgraded and replaced.

::

    META  sharing/ ‖ repository  -> the result as JSON, its time as unix seconds
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from lakecli.base import layout
from lakecli.base.ids import RepositoryUuid
from lakecli.base.layout import MAX_RANGE_ENTRIES, MIN_RANGE_ENTRIES
from lakecli.base.model import RepositoryRecord
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.retry import CLAIMS, Retries
from lakecli.base.validation import (
    MAX_COUNT,
    Invalid,
    Record,
    identifier,
    list_of,
    moment,
    optional,
    power_of_two,
    text,
    text_that,
    whole,
)
from lakecli.doctor import checks
from lakecli.errors import (
    AlreadyExists,
    IntegrityError,
    NotFound,
    Refused,
    Unreachable,
    Unsupported,
)
from lakecli.kv.local_store import ReadTransaction, Table
from lakecli.refs.names import is_branch_name
from lakecli.repository.contract import Repository, Runtime
from lakecli.repository.journal.operation_log import CLOCK_FIX, CLOCK_LIMIT, wrong_by
from lakecli.stores.capabilities import access_of, settle
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    JSON,
    PLAIN,
    ConditionFailed,
    ObjectNotFound,
    ObjectStore,
    exists,
)
from lakecli.stores.uri import is_local

FORMAT = 1

LAKEFS: Final = "lakefs"
"""The system from which a namespace was taken over."""

_NEED_SIZE: Final = 100
_MOST_NEEDS: Final = 100

_REPOSITORY: Final = "repository "

TESTS_VERSION: Final = 1
"""The version of the tests; a namespace that passed an older version is tested again."""

REFUSED_FOR: Final = timedelta(days=1)
"""How long a store that failed is refused without another test."""

PROMISES: Final = ("read-after-write", "create-only", "compare-and-set", "race")
"""The checks of `lakecli.doctor.probe` that sharing needs."""


class NamespaceTaken(AlreadyExists):
    """Another repository, or a lakeFS, lives in the storage namespace."""


class NewerRepository(Refused):
    """A newer lakecli created or changed the repository in a way that this one does not support."""


class CannotShare(Unsupported):
    """The store lacks what writing from several machines needs."""


class OtherRepository(Refused):
    """Another repository lies in the storage namespace by now."""


class ClockOff(Refused):
    """This machine's clock is far from the store's: its dates would mislead other clones."""


class Description(NamedTuple):
    """The contents of ``_lakecli/repository.json``.

    Attributes:
        uuid: 32 hex digits, the same in every clone.
        range_entries: the tree parameter N.
        default_branch: the name of the branch that the repository began with.
        created_at: when it was created, by the clock of that machine.
        needs_read: features needed to read it; this version supports none of them.
        needs_write: features needed to write to it; this version supports none of them.
        is_from_lakefs: whether it was taken over from lakeFS.
    """

    uuid: RepositoryUuid
    range_entries: int
    default_branch: str
    created_at: datetime
    needs_read: tuple[str, ...]
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


_DESCRIPTION: Final = Record(
    {
        "format": whole(1, FORMAT),
        "uuid": identifier(RepositoryUuid),
        "range_entries": power_of_two(MIN_RANGE_ENTRIES, MAX_RANGE_ENTRIES),
        "default_branch": text_that(is_branch_name, "a name that a branch can have"),
        "created": moment,
        "needs_read": optional(list_of(text(_NEED_SIZE, min_size=1), _MOST_NEEDS), ()),
        "needs_write": optional(list_of(text(_NEED_SIZE, min_size=1), _MOST_NEEDS), ()),
    }
)


def owner_of(store: ObjectStore) -> RepositoryUuid | None:
    """Return the UUID of the repository that claimed a namespace, or ``None``.

    Raises:
        IntegrityError: its ``repository.json`` cannot be understood.
    """
    found = _read(store)
    if found is None:
        return None
    try:
        uuid: RepositoryUuid = Record({"uuid": identifier(RepositoryUuid)}).read(found)["uuid"]
    except Invalid as error:
        raise _damaged(store, error) from error
    return uuid


def origin_of(store: ObjectStore) -> Mapping[str, object] | None:
    """Return what a namespace was made of, not validated; ``None`` if lakecli created it.

    Raises:
        IntegrityError: its ``repository.json`` cannot be understood.
    """
    return _origin_in(_read(store) or {})


def _origin_in(fields: Mapping[str, object]) -> Mapping[str, object] | None:
    origin = fields.get("origin")
    return origin if isinstance(origin, dict) and origin.get("system") == LAKEFS else None


def describe(store: ObjectStore) -> Description | None:
    """Return the description of the repository in a namespace, or ``None`` if there is none.

    Raises:
        IntegrityError: its ``repository.json`` cannot be understood.
        NewerRepository: its format is newer than this lakecli.
    """
    found = _read(store)
    if found is None:
        return None
    try:
        known = whole(1, MAX_COUNT)(found.get("format"))
        if known > FORMAT:
            raise _newer(store, f"format {known}")
        fields = _DESCRIPTION.read(found)
    except Invalid as error:
        raise _damaged(store, error) from error
    return Description(
        uuid=fields["uuid"],
        range_entries=fields["range_entries"],
        default_branch=fields["default_branch"],
        created_at=fields["created"],
        needs_read=tuple(fields["needs_read"]),
        needs_write=tuple(fields["needs_write"]),
        is_from_lakefs=_origin_in(found) is not None,
    )


def _read(store: ObjectStore) -> dict[str, Any] | None:
    """Return the fields of ``repository.json``, none of them checked, or ``None``."""
    try:
        data = store.get(layout.REPOSITORY, start=0, length=layout.MAX_REPOSITORY_SIZE + 1)
        return parse_json_object(data, max_size=layout.MAX_REPOSITORY_SIZE)
    except ObjectNotFound:
        return None
    except Unparsable as error:
        raise _damaged(store, error) from error


def _damaged(store: ObjectStore, reason: ValueError) -> IntegrityError:
    return IntegrityError(
        f"{store.uri}/{layout.REPOSITORY} is not a repository description: {reason}",
        hint="restore it from a backup, or use another storage namespace",
    )


def check_needs(store: ObjectStore, description: Description, *, writing: bool) -> None:
    """Refuse a repository that needs features which this version does not support.

    Raises:
        NewerRepository: naming the features.
    """
    lacking = (*description.needs_read, *(description.needs_write if writing else ()))
    if lacking:
        raise _newer(store, ", ".join(map(repr, sorted(set(lacking)))))


def _newer(store: ObjectStore, need: str) -> NewerRepository:
    return NewerRepository(
        f"the repository in {store.uri} needs a newer lakecli: {need}", hint="upgrade lakecli"
    )


def claim(store: ObjectStore, record: RepositoryRecord) -> None:
    """Take a namespace for a repository; repeating it for the same UUID changes nothing.

    Args:
        store: the namespace.
        record: the repository.

    Raises:
        NamespaceTaken: it belongs to another repository, or to a lakeFS.
        Unreachable: the store neither takes the claim nor shows that of another.
    """
    if owner_of(store) is None:
        marker = find_lakefs_marker(store)
        if marker is not None:
            raise _taken(store, f"a lakeFS repository (found {marker})")
        _create(store, layout.REPOSITORY, _document(record))
    _check_owner(store, record)
    _create(store, layout.LAKEFS_MARKER, layout.LAKEFS_MARKER_BODY)


def take_over(store: ObjectStore, record: RepositoryRecord, origin: Mapping[str, str]) -> None:
    """Take a namespace that lakeFS has marked as its own.

    Args:
        store: the namespace.
        record: the repository.
        origin: the IDs and times of the refs dump that the repository was made of, kept in the
            claim.

    Raises:
        NamespaceTaken: another repository of lakecli has it.
        Unreachable: the store neither takes the claim nor shows that of another.
    """
    body = _document(record, {"origin": {"system": LAKEFS, **origin}})
    _create(store, layout.REPOSITORY, body)
    _check_owner(store, record)


def _check_owner(store: ObjectStore, record: RepositoryRecord) -> None:
    owner = owner_of(store)
    if owner is None:
        raise _not_created(store, layout.REPOSITORY)
    if owner != record.uuid:
        raise _taken(store, f"{_REPOSITORY}{owner}")


def _create(store: ObjectStore, key: str, body: bytes) -> None:
    """Create an object, or accept an existing one; make sure that it exists afterwards.

    A failed condition does not prove that: S3 answers 409 during a concurrent write.

    Raises:
        Unreachable: it does not exist.
    """
    attributes = JSON if key == layout.REPOSITORY else PLAIN
    for _ in Retries(CLAIMS).attempts():
        try:
            store.put(key, body, ABSENT, attributes)
        except ConditionFailed:
            if not exists(store, key):
                continue
            settle(store, key)
        return
    raise _not_created(store, key)


def _not_created(store: ObjectStore, key: str) -> Unreachable:
    return Unreachable(
        f"{store.uri} refuses to create {key}, which does not exist",
        hint="wait and repeat the command; the storage namespace is not claimed",
    )


def restore(store: ObjectStore, record: RepositoryRecord) -> None:
    """Write ``repository.json`` again if it is missing or damaged.

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
        store.put(layout.REPOSITORY, _document(record), ANY, JSON)


def find_lakefs_marker(store: ObjectStore) -> str | None:
    """Return the key by which lakeFS marks a namespace as its own, or ``None`` if it does not."""
    markers = (layout.LAKEFS_MARKER, layout.LEGACY_LAKEFS_MARKER)
    return next((marker for marker in markers if exists(store, marker)), None)


def _taken(store: ObjectStore, owner: str) -> NamespaceTaken:
    hint = "use another prefix or directory; a repository owns its namespace alone"
    if owner.startswith(_REPOSITORY):
        hint = f"clone it: lakecli clone {store.uri} lakefs://NAME; or {hint}"
    return NamespaceTaken(f"storage namespace {store.uri} belongs to {owner}", hint=hint)


def describe_there(runtime: Runtime, uri: str, name: str) -> tuple[ObjectStore, RepositoryRecord]:
    """Return the store of a namespace, and the record of the repository in it.

    Args:
        runtime: opens the store.
        uri: of the namespace, normalised.
        name: of the repository on this machine, for the record.

    Raises:
        NotFound: there is no repository in that namespace.
        Refused: it belongs to lakeFS, or needs a newer lakecli.
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
                f"lakecli clone --from-lakefs {uri} lakefs://{suggested} --refs refs.json",
            )
        raise NotFound(
            f"no repository in {uri}",
            hint=f"create one there: lakecli repo create lakefs://{suggested} {uri}",
        )
    check_needs(store, description, writing=False)
    return store, RepositoryRecord(
        name=name,
        uuid=description.uuid,
        storage_namespace=uri,
        default_branch=description.default_branch,
        created_at=description.created_at,
        range_entries=description.range_entries,
        region=region,
        is_from_lakefs=description.is_from_lakefs,
    )


def check_writable(repository: Repository) -> None:
    """Refuse a namespace that this version or this clone must not write refs to.

    Raises:
        CannotShare: the store has no working compare-and-set.
        NewerRepository: only newer versions may write it.
        OtherRepository: the namespace is no longer this repository's.
    """
    description = check_readable(repository)
    check_needs(repository.store, description, writing=True)
    ensure_shareable(repository)


def check_readable(repository: Repository) -> Description:
    """Return the description of a repository in its namespace.

    Raises:
        NewerRepository: only newer versions may read it.
        OtherRepository: the namespace is no longer this repository's.
        Refused: the namespace belongs to lakeFS.
    """
    store = repository.store
    if repository.record.is_borrowed:
        raise Refused(
            f"the storage namespace of {repository.uri} belongs to lakeFS, where only lakeFS moves "
            "branches and tags",
            hint="clone it with --take-over to push to it and to collect garbage",
        )
    description = describe(store)
    if description is None or description.uuid != repository.record.uuid:
        found = "no repository" if description is None else f"repository {description.uuid}"
        raise OtherRepository(
            f"{store.uri} holds {found}, not {repository.record.uuid}",
            hint=f"is the right disk mounted? examine it: lakecli doctor {repository.uri}",
        )
    check_needs(store, description, writing=False)
    return description


class SharingTest(NamedTuple):
    """The result of testing a namespace.

    Attributes:
        reason: why it cannot be shared; ``""`` if it can.
        at: when it was tested.
        version: the version of the tests, see `TESTS_VERSION`.
        namespace: its URI.
    """

    reason: str
    at: datetime
    version: int
    namespace: str


def ensure_shareable(repository: Repository) -> None:
    """Test, once, whether several machines may write to this repository's namespace.

    The test sends about 100 small requests below a prefix that nothing else uses, and removes the
    prefix afterwards if deleting is allowed. A namespace that has passed is sent no request.

    Raises:
        CannotShare: the store ignores conditions, or does not show what was written.
        ClockOff: this machine's clock is more than `CLOCK_LIMIT` from the store's.
        PermissionDenied: reading or writing is not allowed there.
        Unreachable: the store does not answer; nothing is recorded then.
    """
    with repository.lake.kv.read() as txn:
        known = _find_test(txn, repository)
    now = repository.lake.runtime.now()
    if known is None or (known.reason and abs(now - known.at) >= REFUSED_FOR):
        known = remember_test(repository, _try_out(repository))
    if known.reason:
        raise CannotShare(
            f"{known.namespace} cannot be shared: {known.reason}",
            hint=f"{checks.CONDITIONS_FIX}; to test it again: lakecli doctor {repository.uri}",
        )


def _find_test(txn: ReadTransaction, repository: Repository) -> SharingTest | None:
    """Return the recorded result; ``None`` if there is none of this namespace and version."""
    data = txn.get(Table.META, _test_key(repository))
    if data is None:
        return None
    fields = json.loads(data)
    at = datetime.fromtimestamp(fields["at"], UTC)
    found = SharingTest(fields["reason"], at, fields["version"], fields["namespace"])
    current = (TESTS_VERSION, repository.record.storage_namespace)
    return found if (found.version, found.namespace) == current else None


def remember_test(repository: Repository, reason: str) -> SharingTest:
    """Record the result of a test; `reason` is ``""`` if the namespace can be shared."""
    uri = repository.record.storage_namespace
    found = SharingTest(reason, repository.lake.runtime.now(), TESTS_VERSION, uri)
    fields = {**found._asdict(), "at": int(found.at.timestamp())}
    with repository.lake.kv.write() as txn:
        txn.put(Table.META, _test_key(repository), json.dumps(fields).encode("ascii"))
    return found


def check_clock(ahead: timedelta) -> None:
    """Refuse to share from a machine whose clock is far off.

    Args:
        ahead: how far the store's clock is ahead of this machine's.

    Raises:
        ClockOff: it differs by more than `CLOCK_LIMIT`, in either direction.
    """
    if abs(ahead) > CLOCK_LIMIT:
        raise ClockOff(wrong_by(ahead), hint=CLOCK_FIX)


def _try_out(repository: Repository) -> str:
    """Return why the namespace cannot be shared, or ``""``."""
    clock, store = repository.lake.runtime.clock, repository.store
    prefix = f"{layout.DOCTOR}{repository.lake.runtime.new_id().hex()}/"
    scratch = checks.ScratchObjects(store, prefix)
    try:
        before = clock()
        checks.check_write(scratch)
        after = clock()
        # A store without credentials is on this machine, and has its clock.
        if not is_local(store.uri) and access_of(store) is not None:
            written = store.head(prefix + checks.OBJECT).modified_at
            check_clock(checks.distance(written, before, after))
        try:
            checks.check_read_after_write(scratch)
            checks.check_create_only(scratch)
            checks.check_match(scratch)
            checks.check_races(scratch)
        except Unsupported as error:
            return error.message
        return ""
    finally:
        scratch.remove_after_failure()  # sharing needs no permission to delete


def _test_key(repository: Repository) -> bytes:
    return b"sharing/" + repository.key
