"""Reading the refs of a bucket: one of them, their listing, or many in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.layout import MAX_REF_SIZE, REFS, ref_key, ref_of_key
from lakecli.objectstore.base import ObjectNotFound
from lakecli.remote.ref_records import NotOurs, parse_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.objectstore.base import ObjectStore, Version
    from lakecli.remote.ref_records import RemoteRef

PARALLEL_READS: Final = 16


class Listed(NamedTuple):
    """A ref as the listing knows it: its version tells whether it moved since it was last read."""

    kind: str
    name: str
    version: Version


class BadRef(NamedTuple):
    """An object in the place of a ref that is none of ours, and why."""

    kind: str
    name: str
    what: str


def find_ref(store: ObjectStore, kind: str, name: str) -> RemoteRef | None:
    """Return a ref, deleted or not, or ``None`` if there never was one.

    Raises:
        NotOurs: the object in its place is no ref object of ours.
    """
    try:
        data, version = store.get_versioned(ref_key(kind, name), length=MAX_REF_SIZE + 1)
    except ObjectNotFound:
        return None
    return parse_ref(kind, name, data, version)


def iter_refs(store: ObjectStore) -> Iterator[Listed]:
    """Yield the refs, deleted ones too, in the order of their keys; what is no ref is passed over.

    One LIST for each thousand. A store may list late: a ref that is missing here may be there.
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
    """Yield refs in the order of `wanted`, one GET each; those that are not there are left out.

    Args:
        store: of the namespace.
        wanted: the refs.
        parallelism: requests at a time.
        on_bad: told of each object that is no ref object of ours, which is then left out; without
            it that is raised.

    Raises:
        NotOurs: an object in the place of one is no ref object of ours.
    """
    from collections import deque
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
