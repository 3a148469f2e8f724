"""Where objects are, as plain values from which the processes that run parts open stores.

A part may run in an executor, which has no `Runtime`; so this module opens stores by the registry,
and no other module of the pipeline does.

Divide ``data/`` into prefixes for listing, by the number of its objects.

Digests are evenly distributed. So the first few thousand keys of a listing tell how many there are.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import islice
from typing import Final, NamedTuple

from lakecli.base.identity import DIGEST_SIZE
from lakecli.base.layout import DATA, data_digest
from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.committed.tree_store import TreeStore
from lakecli.engine.runner import Runner
from lakecli.repository.contract import Repository
from lakecli.repository.guard import GcGuard
from lakecli.repository.reading.addresses import Resolver, Trust, trust_of
from lakecli.stores.contract import ObjectStore
from lakecli.stores.registry import open_store, prepare_namespace


def open_by_uri(uri: str, *, region: str = "", account: Account = NO_ACCOUNT) -> ObjectStore:
    """Return the store of a bucket, prefix or directory, in any process."""
    return open_store(uri, region=region, account=account)


def account_of(repository: Repository) -> Account:
    """Return how the buckets of a repository are accessed, its own and others."""
    return repository.lake.runtime.account(repository.name)


class OpenStore(NamedTuple):
    """A storage namespace that this process has open, in place of its location."""

    opened: ObjectStore

    def store(self) -> ObjectStore:
        """Return the storage namespace."""
        return self.opened


class StoreLocation(NamedTuple):
    """A repository's storage namespace, and what its entries may name outside it.

    Attributes:
        uri: normalised, without a trailing slash.
        region: of the bucket, or ``""``.
        range_entries: the tree parameter N; see `lakecli.committed.writer`.
        name: the repository's name on the driver's machine, for messages.
        allowed: places outside the namespace that entries may refer to.
        account: how its buckets are accessed.
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

    @lru_cache(maxsize=16)  # noqa: B019
    def addresses(self) -> Resolver:
        """Return the resolver of entries' addresses, created once per process."""
        trust = Trust(self.name, self.uri, self.allowed)
        return Resolver(
            self.store,
            lambda: trust,
            open_store=lambda uri, region: open_by_uri(uri, region=region, account=self.account),
            find_region=partial(prepare_namespace, account=self.account),
            region=self.region,
        )

    @lru_cache(maxsize=16)  # noqa: B019
    def guard(self) -> GcGuard:
        """Return the guard that protects objects in use by this process from garbage collection."""
        return GcGuard(self.store())

    def trees(self) -> TreeStore:
        """Return the repository's trees, read without a cache on disk."""
        return TreeStore(
            self.store(), cache=None, range_entries=self.range_entries, guard=self.guard
        )


def location_for(repository: Repository, runner: Runner) -> StoreLocation | OpenStore:
    """Return where parts find the namespace: the open store if they run in this process."""
    return OpenStore(repository.store) if runner.name == "local" else StoreLocation.of(repository)


FEW: Final = 20_000
"""Objects up to which ``data/`` is not divided."""

OBJECTS_PER_PREFIX: Final = 250_000
"""Objects that one task lists, at most, which takes 250 requests."""

LEAST_DIGITS: Final = 2
MOST_DIGITS: Final = 5
_DIGEST_DIGITS: Final = 2 * DIGEST_SIZE


def digits_for(store: ObjectStore) -> int:
    """Return the number of hex digits of the prefixes of ``data/``; 0 if it has few objects."""
    keys = [info.key for info in islice(store.list(DATA), FEW + 1)]
    if len(keys) <= FEW:
        return 0
    own = [digest for key in keys if (digest := data_digest(key)) is not None]
    # Of all digests, the share that the last of these has behind it.
    behind = (int(own[-1], 16) + 1) / (1 << 4 * _DIGEST_DIGITS) if own else 1.0
    return digits_of(int(len(own) / behind))


def digits_of(objects: int) -> int:
    """Return the number of hex digits of the prefixes for a large number of objects."""
    digits = LEAST_DIGITS
    while digits < MOST_DIGITS and objects > OBJECTS_PER_PREFIX << 4 * digits:
        digits += 1
    return digits


def divided(prefix: str, digits: int) -> list[str]:
    """Return the prefixes with a number of digits that share a prefix of the form ``data/ab/``."""
    more = digits - LEAST_DIGITS
    if more <= 0:
        return [prefix]
    return [f"{prefix}{number:0{more}x}" for number in range(1 << 4 * more)]
