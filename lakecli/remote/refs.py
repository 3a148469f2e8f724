"""Reading the refs of a bucket: one of them, their listing, or many in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.layout import REFS, ref_key, ref_of_key
from lakecli.objectstore.base import ObjectNotFound
from lakecli.remote.records import parse_ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakecli.objectstore.base import ObjectStore, Version
    from lakecli.remote.records import RemoteRef

PARALLEL_READS: Final = 16


class Listed(NamedTuple):
    """A ref as the listing knows it: its version tells whether it moved since it was last read."""

    kind: str
    name: str
    version: Version


def find_ref(store: ObjectStore, kind: str, name: str) -> RemoteRef | None:
    """Return a ref, deleted or not, or ``None`` if there never was one.

    Raises:
        NotOurs: the object in its place is no ref object of ours.
    """
    try:
        data, version = store.get_versioned(ref_key(kind, name))
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
    store: ObjectStore, wanted: Iterable[Listed], *, parallelism: int = PARALLEL_READS
) -> Iterator[RemoteRef]:
    """Yield refs in the order of `wanted`, one GET each; those that are not there are left out.

    Raises:
        NotOurs: an object in the place of one is no ref object of ours.
    """
    from collections import deque
    from concurrent.futures import Future, ThreadPoolExecutor

    reading: deque[Future[RemoteRef | None]] = deque()
    pool = ThreadPoolExecutor(parallelism)
    try:
        for listed in wanted:
            reading.append(pool.submit(find_ref, store, listed.kind, listed.name))
            if len(reading) == 2 * parallelism:
                ref = reading.popleft().result()
                if ref is not None:
                    yield ref
        while reading:
            ref = reading.popleft().result()
            if ref is not None:
                yield ref
    finally:
        pool.shutdown(cancel_futures=True)
