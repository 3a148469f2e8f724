"""Reading refs in the bucket: one ref, the listing, or many in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.layout import MAX_REF_SIZE, REFS, ref_key, ref_of_key
from lakecli.base.model import RefKind
from lakecli.remote.ref_records import NotOurs, RemoteRef, parse_ref
from lakecli.stores.contract import ObjectNotFound, Version

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

PARALLEL_READS: Final = 16


class Listed(NamedTuple):
    """A ref in the listing; its version shows whether it has moved since it was last read."""

    kind: RefKind
    name: str
    version: Version


class BadRef(NamedTuple):
    """An object at the key of a ref that is not a valid ref, and why."""

    kind: RefKind
    name: str
    what: str


def find_ref(store: ObjectStore, kind: RefKind, name: str) -> RemoteRef | None:
    """Return a ref, deleted or not, or ``None`` if it never existed.

    Raises:
        NotOurs: the object is not a ref that lakecli wrote.
    """
    try:
        data, version = store.get_versioned(ref_key(kind, name), length=MAX_REF_SIZE + 1)
    except ObjectNotFound:
        return None
    return parse_ref(kind, name, data, version)


def iter_refs(store: ObjectStore) -> Iterator[Listed]:
    """Yield the refs, deleted ones too, in the order of their keys; other objects are skipped.

    It takes one LIST per thousand. A store may list late, so a ref missing here may exist.
    """
    for info in store.list(REFS):
        ref = ref_of_key(info.key)
        if ref is not None:
            yield Listed(*ref, info.version)


def read_refs(
    store: ObjectStore,
    wanted: Iterable[Listed],
    *,
    parallelism: int = PARALLEL_READS,
    on_bad: Callable[[BadRef], None] | None = None,
) -> Iterator[RemoteRef]:
    """Yield refs in the order of `wanted`, one GET each; absent refs are left out.

    Args:
        store: of the namespace.
        wanted: the refs.
        parallelism: requests at a time.
        on_bad: called with each object that is not a valid ref, which is then left out; without it,
            `NotOurs` is raised.

    Raises:
        NotOurs: an object is not a ref that lakecli wrote.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    def read(listed: Listed) -> RemoteRef | BadRef | None:
        try:
            return find_ref(store, listed.kind, listed.name)
        except NotOurs as error:
            if on_bad is None:
                raise
            return BadRef(listed.kind, listed.name, error.message)

    reading: deque[Future[RemoteRef | BadRef | None]] = deque()

    def take() -> Iterator[RemoteRef]:
        found = reading.popleft().result()
        if isinstance(found, BadRef):
            assert on_bad is not None
            on_bad(found)
        elif found is not None:
            yield found

    pool = ThreadPoolExecutor(parallelism)
    try:
        for listed in wanted:
            reading.append(pool.submit(read, listed))
            if len(reading) == 2 * parallelism:
                yield from take()
        while reading:
            yield from take()
    finally:
        pool.shutdown(cancel_futures=True)
