"""The repository in a namespace: which one it is, and whether it can be read, written and shared.

Sharing rests on compare-and-set, and a store that ignores conditions answers like one that honours
them. So the store is tested once, before this clone first writes a ref, and the result is recorded
in the local store. A namespace that passed is not tested again. One that failed is tested again
after a day or by ``lakecli doctor``, since stores are upgraded and replaced.

::

    META  sharing/ ‖ repository  -> the result as JSON, its time as unix seconds
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from lakecli.base import layout
from lakecli.base.model import RepositoryRecord
from lakecli.doctor import checks
from lakecli.doctor.checks import CONDITIONS_FIX, ScratchObjects
from lakecli.errors import NotFound, Refused, Unsupported
from lakecli.kv.local_store import ReadTransaction, Table
from lakecli.repository.contract import Repository, Runtime
from lakecli.repository.handle import namespace
from lakecli.repository.journal.operation_log import CLOCK_FIX, CLOCK_LIMIT, wrong_by
from lakecli.stores.capabilities import access_of
from lakecli.stores.contract import ObjectStore
from lakecli.stores.uri import is_local

VERSION: Final = 1
"""The version of the tests; a namespace that passed an older version is tested again."""

REFUSED_FOR: Final = timedelta(days=1)
"""How long a store that failed is refused without another test."""

PROMISES: Final = ("read-after-write", "create-only", "compare-and-set", "race")
"""The checks of `lakecli.doctor.probe` that sharing needs."""


class CannotShare(Unsupported):
    """The store lacks what writing from several machines needs."""


class OtherRepository(Refused):
    """Another repository lies in the storage namespace by now."""


class ClockOff(Refused):
    """This machine's clock is far from the store's: its dates would mislead other clones."""


class SharingTest(NamedTuple):
    """The result of testing a namespace.

    Attributes:
        reason: why it cannot be shared; ``""`` if it can.
        at: when it was tested.
        version: the version of the tests, see `VERSION`.
        namespace: its URI.
    """

    reason: str
    at: datetime
    version: int
    namespace: str


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
    description = namespace.describe(store)
    if description is None:
        suggested = "NAME" if "/" in name else name
        marker = namespace.find_lakefs_marker(store)
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
    namespace.check_needs(store, description, writing=False)
    return store, RepositoryRecord(
        name=name,
        uuid=description.uuid,
        storage_namespace=uri,
        default_branch=description.default_branch,
        created_at=description.created_at,
        range_entries=description.range_entries,
        region=region,
    )


def check_writable(repository: Repository) -> None:
    """Refuse a namespace that this version or this clone must not write refs to.

    Raises:
        CannotShare: the store has no working compare-and-set.
        NewerRepository: only newer versions may write it.
        OtherRepository: the namespace is no longer this repository's.
    """
    description = check_readable(repository)
    namespace.check_needs(repository.store, description, writing=True)
    ensure_shareable(repository)


def check_readable(repository: Repository) -> namespace.Description:
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
    description = namespace.describe(store)
    if description is None or description.uuid != repository.record.uuid:
        found = "no repository" if description is None else f"repository {description.uuid}"
        raise OtherRepository(
            f"{store.uri} holds {found}, not {repository.record.uuid}",
            hint=f"is the right disk mounted? examine it: lakecli doctor {repository.uri}",
        )
    namespace.check_needs(store, description, writing=False)
    return description


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
        known = find_finding(txn, repository)
    now = repository.lake.now()
    if known is None or (known.reason and abs(now - known.at) >= REFUSED_FOR):
        known = remember(repository, _try_out(repository))
    if known.reason:
        raise CannotShare(
            f"{known.namespace} cannot be shared: {known.reason}",
            hint=f"{CONDITIONS_FIX}; to test it again: lakecli doctor {repository.uri}",
        )


def find_finding(txn: ReadTransaction, repository: Repository) -> SharingTest | None:
    """Return the recorded finding; ``None`` if there is none of this namespace and `VERSION`."""
    data = txn.get(Table.META, _key(repository))
    if data is None:
        return None
    fields = json.loads(data)
    at = datetime.fromtimestamp(fields["at"], UTC)
    found = SharingTest(fields["reason"], at, fields["version"], fields["namespace"])
    current = (VERSION, repository.record.storage_namespace)
    return found if (found.version, found.namespace) == current else None


def remember(repository: Repository, reason: str) -> SharingTest:
    """Record the result of a test; `reason` is ``""`` if the namespace can be shared."""
    uri = repository.record.storage_namespace
    found = SharingTest(reason, repository.lake.now(), VERSION, uri)
    fields = {**found._asdict(), "at": int(found.at.timestamp())}
    with repository.lake.kv.write() as txn:
        txn.put(Table.META, _key(repository), json.dumps(fields).encode("ascii"))
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
    scratch = ScratchObjects(store, prefix)
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


def _key(repository: Repository) -> bytes:
    return b"sharing/" + repository.key
