"""Open the repository of a storage namespace for reading, without a clone.

Nothing is written to the bucket, and nothing to this machine but the cache, and until the handle is
closed a store in a temporary directory. Refs and commits are fetched into it when a verb asks for
them; staged changes and operations are of clones, so there are none. A verb that would write raises
`Refused`.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from lakecli.base.model import RepositoryRecord
from lakecli.base.uri import LakeUri
from lakecli.remote.ref_records import InvalidRecord
from lakecli.repository.contract import Home, Notice, Runtime
from lakecli.repository.handle.lake import Lake, LocalRepository
from lakecli.repository.sharing.on_demand import OnDemandStore
from lakecli.repository.sharing.shareable import describe_there
from lakecli.stores.uri import normalise
from lakecli.stores.wrappers import ReadOnlyStore

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore


class RemoteRepository(LocalRepository):
    """A repository that is read in its bucket; `open_remote` returns it.

    A handle shows one state: each ref is read once. Open another one for a newer state.

    Args:
        home: only its cache is used.
        runtime: clock, random numbers and stores.
        record: of the repository; its name is the URI of the namespace.
        store: the namespace.
    """

    def __init__(
        self, home: Home, runtime: Runtime, record: RepositoryRecord, store: ObjectStore
    ) -> None:
        readable = ReadOnlyStore(
            store, hint=f"clone it, and change the clone: lakecli clone {record.name} lakefs://NAME"
        )
        local = OnDemandStore(readable.put)
        super().__init__(Lake(home, local, runtime), record)
        self.uri = record.name
        self.store = readable
        filled = copy(self)
        filled.lake = Lake(home, local.filled, runtime)
        local.fetch_for(filled, self._leave_out)

    def at(self, ref: str, path: str = "") -> str:
        """Return the URI of a path, or of all of a ref, as it is typed."""
        return f"{LakeUri(self.record.name, ref)}/{path}"

    def _leave_out(self, damage: InvalidRecord) -> None:
        self.notify(
            Notice(
                f"left out {damage.kind} {damage.name!r}: {damage.what}",
                hint="examine and repair it from a clone: lakecli fsck --repair",
            )
        )


def open_remote(home: Home, runtime: Runtime, storage_namespace: str) -> RemoteRepository:
    """Open the repository of a storage namespace for reading.

    It takes one request for the repository's description, and where the bucket has a region one
    for that.

    Args:
        home: only its cache is used; no directory of it is created before something is cached.
        runtime: clock, random numbers and stores.
        storage_namespace: a URI or an absolute path.

    Raises:
        UsageError: an illegal namespace.
        NotFound: there is no repository in that namespace.
        Refused: it belongs to lakeFS, or needs a newer lakecli.
    """
    uri = normalise(storage_namespace)
    store, record = describe_there(runtime, uri, uri)
    return RemoteRepository(home, runtime, record, store)
