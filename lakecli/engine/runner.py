"""Runners apply a function to the parts of a plan: the interface, and the in-process runner.

A part finds its objects by a `StoreLocation`: plain values from which the process that runs the
part opens stores. This process may be an executor, which has no `Runtime`. So this module opens
stores through the registry; no other module of bulk work opens stores.

The number of parts depends on the size of the work: the entries of trees, or the objects below
``data/``. Digests are evenly distributed, so the first few thousand keys of a listing are enough to
estimate the number of objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import lru_cache, partial
from itertools import islice
from typing import Final, NamedTuple, Self, TypeVar

from lakecli.base.identity import DIGEST_SIZE
from lakecli.base.layout import DATA, data_digest
from lakecli.base.model import EMPTY_TREE, NO_ACCOUNT, Account, MetarangeId
from lakecli.committed.check import count_entries
from lakecli.committed.tree_store import TreeStore
from lakecli.errors import IntegrityError
from lakecli.repository.contract import Repository
from lakecli.repository.guard import GcGuard
from lakecli.repository.reading.addresses import Resolver, Trust, trust_of
from lakecli.stores.contract import ObjectStore
from lakecli.stores.registry import open_store, prepare_namespace

P = TypeVar("P")
R = TypeVar("R")


class Runner(ABC):
    """Applies functions to parts. Close it, or use it as a context manager.

    Attributes:
        name: ``local`` or ``spark``.
        parallelism: number of parts that run at the same time.
    """

    name: str
    parallelism: int

    @abstractmethod
    def run(self, task: Callable[[P], R], parts: Iterable[P]) -> Iterator[tuple[P, R]]:
        """Yield (part, result) as parts finish, in any order; memory is bounded.

        Args:
            task: a module-level function, or a `functools.partial` of one. It must be idempotent:
                a part may run again after a failure, or twice at the same time.
            parts: the parts, small and picklable; read from the iterable as earlier parts finish.

        Raises:
            LakeError: a part failed in all attempts; the other parts are stopped.
        """

    def location_of(self, repository: Repository) -> Location:
        """Return the location at which parts find a repository's namespace."""
        return StoreLocation.of(repository)

    def close(self) -> None:  # noqa: B027 - most runners have no resources
        """Release the runner's resources; safe to repeat."""

    def __enter__(self) -> Self:
        """Return the runner itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the runner."""
        self.close()


class LocalRunner(Runner):
    """Runs parts in this process: one by one, or on threads, which are faster with slow stores."""

    name = "local"

    def __init__(self, *, parallelism: int = 1) -> None:
        self.parallelism = parallelism

    def run(self, task: Callable[[P], R], parts: Iterable[P]) -> Iterator[tuple[P, R]]:
        """Yield (part, result) as parts finish; see `Runner.run`."""
        if self.parallelism == 1:
            for part in parts:
                yield part, task(part)
            return
        with ThreadPoolExecutor(self.parallelism) as pool:
            try:
                most = 2 * self.parallelism
                yield from filter(None, run_in_pool(pool, task, parts, most=most))
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def location_of(self, repository: Repository) -> Location:
        """Return the store that is already open, because parts run in this process."""
        return OpenStore(repository.store)


def run_in_pool(
    pool: ThreadPoolExecutor,
    task: Callable[[P], R],
    parts: Iterable[P],
    *,
    most: int,
    beat: float | None = None,
) -> Iterator[tuple[P, R] | None]:
    """Yield (part, result) as parts finish in a pool; ``None`` after `beat` seconds without result.

    Args:
        most: the number of parts that run or wait in the pool.
    """
    waiting: dict[Future[R], P] = {}
    rest = iter(parts)
    while True:
        free = most - len(waiting)
        waiting.update((pool.submit(task, part), part) for part in islice(rest, free))
        if not waiting:
            return
        finished = wait(waiting, beat, return_when=FIRST_COMPLETED).done
        future = next(iter(finished), None)
        yield None if future is None else (waiting.pop(future), future.result())


def open_by_uri(uri: str, region: str = "", *, account: Account = NO_ACCOUNT) -> ObjectStore:
    """Return the store of a bucket, prefix or directory; works in any process."""
    return open_store(uri, region=region, account=account)


def account_of(repository: Repository) -> Account:
    """Return the account for a repository's buckets, and for other buckets that it refers to."""
    return repository.lake.runtime.account(repository.name)


class OpenStore(NamedTuple):
    """A storage namespace that is open in this process; used instead of a `StoreLocation`."""

    opened: ObjectStore

    def store(self) -> ObjectStore:
        """Return the storage namespace."""
        return self.opened


class StoreLocation(NamedTuple):
    """A repository's storage namespace, and the places outside it that its entries may refer to.

    Attributes:
        uri: the normalised URI, without a trailing slash.
        region: the region of the bucket, or ``""``.
        range_entries: the tree parameter N; see `lakecli.committed.splitter`.
        name: the repository's name on the driver's machine, for messages.
        allowed: buckets and directories outside the namespace that entries may refer to.
    """

    uri: str
    region: str
    range_entries: int
    name: str = ""
    allowed: tuple[str, ...] = ()
    account: Account = NO_ACCOUNT

    @classmethod
    def of(cls, repository: Repository) -> StoreLocation:
        """Return the location of a repository's objects."""
        record = repository.record
        return cls(
            record.storage_namespace,
            record.region,
            record.range_entries,
            record.name,
            trust_of(repository).allowed,
            account_of(repository),
        )

    @lru_cache(maxsize=16)  # noqa: B019 - one client for each location and process is wanted
    def store(self) -> ObjectStore:
        """Return the storage namespace, opened once per process."""
        return open_by_uri(self.uri, region=self.region, account=self.account)

    def trust(self) -> Trust:
        """Return which buckets and directories outside the namespace may be read."""
        return Trust(self.name, self.uri, self.allowed)

    @lru_cache(maxsize=16)  # noqa: B019
    def addresses(self) -> Resolver:
        """Return the resolver of entries' addresses, created once per process."""
        find_region = partial(prepare_namespace, account=self.account)
        open_store = partial(open_by_uri, account=self.account)
        return Resolver(self.store(), self.trust(), open_store, find_region, self.region)

    @lru_cache(maxsize=16)  # noqa: B019
    def guard(self) -> GcGuard:
        """Return the guard that protects objects that this process uses from garbage collection."""
        return GcGuard(self.store())

    def trees(self) -> TreeStore:
        """Return the repository's trees, read without a cache on disk."""
        return TreeStore(
            self.store(), cache=None, range_entries=self.range_entries, guard=self.guard
        )


Location = StoreLocation | OpenStore


FEW: Final = 20_000
"""Maximum number of objects below ``data/`` that are listed as one part."""

OBJECTS_PER_PREFIX: Final = 250_000
"""Target for the maximum number of objects that one task lists, which takes 250 requests."""

LEAST_DIGITS: Final = 2
MOST_DIGITS: Final = 5
_DIGEST_DIGITS: Final = 2 * DIGEST_SIZE


def digits_for(store: ObjectStore) -> int:
    """Return the number of hex digits of the prefixes by which ``data/`` is listed; 0 for none."""
    keys = [info.key for info in islice(store.list(DATA), FEW + 1)]
    if len(keys) <= FEW:
        return 0
    own = [digest for key in keys if (digest := data_digest(key)) is not None]
    # The fraction of the space of digests up to the last listed digest.
    behind = (int(own[-1], 16) + 1) / (1 << 4 * _DIGEST_DIGITS) if own else 1.0
    return digits_of(int(len(own) / behind))


def digits_of(objects: int) -> int:
    """Return the number of hex digits of prefixes that divide a listing of `objects` objects."""
    digits = LEAST_DIGITS
    while digits < MOST_DIGITS and objects > OBJECTS_PER_PREFIX << 4 * digits:
        digits += 1
    return digits


def divided(prefix: str, digits: int) -> list[str]:
    """Divide a prefix of the form ``data/ab/`` into prefixes with `digits` hex digits in total."""
    more = digits - LEAST_DIGITS
    if more <= 0:
        return [prefix]
    return [f"{prefix}{number:0{more}x}" for number in range(1 << 4 * more)]


def count_head_entries(repository: Repository, *, check_from: int) -> int | None:
    """Return how many entries the largest branch has; ``None`` if a tree cannot be read.

    Only metaranges are read. If one of them claims at least `check_from` entries, the counts of the
    one that claims the most are checked against the objects in the namespace; see
    `lakecli.committed.check`.
    """
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        heads = {branch.commit_id for branch in refs.iter_branches()}
        trees = {commit.metarange_id for head in heads if (commit := refs.find_commit(head))}

    def claimed(tree: MetarangeId) -> int:
        return sum(max(0, record.count) for record in repository.trees.metarange(tree).records())

    try:
        largest = max(trees, key=claimed, default=EMPTY_TREE)
        return count_entries(repository.trees, largest, check_from=check_from)
    except IntegrityError:
        return None
