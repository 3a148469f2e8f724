"""The environment of a lake: the directories of this machine, clocks and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lakecli.base.directories import StrPath
from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.base.progress import NO_PROGRESS, Progress, elapsed, ignore_step
from lakecli.stores.uri import is_local

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

DEFAULT_CACHE_SIZE = 10 << 30
DEFAULT_MEMORY_SIZE = 1 << 30


def _open_store(uri: str, region: str, *, account: Account = NO_ACCOUNT) -> ObjectStore:
    from lakecli.stores.registry import open_store

    return open_store(uri, region=region, account=account)


def _prepare_namespace(uri: str, *, account: Account = NO_ACCOUNT) -> str:
    from lakecli.stores.registry import prepare_namespace

    return prepare_namespace(uri, account=account)


class Home(NamedTuple):
    """The directories of a lake on this machine.

    Attributes:
        store: the directory of the LMDB environment.
        cache: the directory of cached SSTables; it may be deleted at any time.
        cache_size: maximum size of the cache of one repository, in bytes.
        memory_size: maximum size of the parts of trees that one repository keeps in memory, in
            bytes.
    """

    store: StrPath
    cache: StrPath
    cache_size: int = DEFAULT_CACHE_SIZE
    memory_size: int = DEFAULT_MEMORY_SIZE


class Runtime(NamedTuple):
    """The clocks, random numbers and stores that a lake uses; tests replace them.

    Attributes:
        clock: returns the present time as an aware UTC datetime.
        new_id: returns 16 random bytes.
        command: the command line that the operation log records, without secrets.
        on_step: called with the name of each step of a protocol before it is taken.
        trusted: given the name of a repository, returns the URIs outside its namespace that the
            configuration allows the repository to read; see `lakecli.repository.reading.addresses`.
        open_store: given the URI of a storage namespace and its region, returns its store.
        prepare_namespace: given the URI of a storage namespace, makes its directory if it is
            missing, and returns its region.
        elapsed: returns the seconds of a monotonic clock that includes the machine's sleep.
        sleep: waits for some seconds.
        show_rebuild: given the number of entries of a lakeFS tree, shows the progress of rebuilding
            it; see `lakecli.committed.writer`.
        account: given the name of a repository, returns the access settings of its S3 buckets.
        on_answer: called with the result of undo, redo or restore; shows the result, then calls
            `GivenLater.give`. By default, the result counts as shown immediately.
    """

    clock: Callable[[], datetime]
    new_id: Callable[[], bytes]
    command: str = ""
    on_step: Callable[[str], None] = ignore_step
    trusted: Callable[[str], Sequence[str]] = lambda _repository: ()
    open_store: Callable[[str, str], ObjectStore] = _open_store
    prepare_namespace: Callable[[str], str] = _prepare_namespace
    elapsed: Callable[[], float] = elapsed
    sleep: Callable[[float], None] = sleep
    show_rebuild: Callable[[int], AbstractContextManager[Progress]] = lambda _entries: nullcontext(
        NO_PROGRESS
    )
    account: Callable[[str], Account] = lambda _repository: NO_ACCOUNT
    on_answer: Callable[[GivenLater], None] = lambda answer: answer.give()

    def now(self) -> datetime:
        """Return the present time in whole seconds."""
        return self.clock().replace(microsecond=0)

    def random_number(self) -> float:
        """Return a random number from 0 to 1."""
        return int.from_bytes(self.new_id()[:4]) / 0xFFFFFFFF

    def for_repository(self, name: str) -> Runtime:
        """Return a runtime that opens stores with the settings of a repository."""
        account = self.account(name)
        if account == NO_ACCOUNT:
            return self
        return self._replace(
            open_store=partial(_open_store, account=account),
            prepare_namespace=partial(_prepare_namespace, account=account),
        )

    def find_store(self, uri: str) -> tuple[ObjectStore, str]:
        """Return the store of an existing namespace, and the region of its bucket.

        A missing directory is not created: it may be on a disk that is not mounted.

        Raises:
            BucketNotFound: no such bucket.
        """
        region = "" if is_local(uri) else self.prepare_namespace(uri)
        return self.open_store(uri, region), region


class GivenLater(Protocol):
    """The result of a verb, which is kept on disk until the caller has shown it."""

    def give(self) -> None:
        """Record that the result was shown."""

    def leave(self) -> None:
        """Release the result, so that a later command can show it."""
