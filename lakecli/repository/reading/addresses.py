"""From an entry's physical address to the store and key that hold its bytes.

Every reader uses `Resolver`: on this machine, and on executors, which get the allowed places as
strings.

An address outside the namespace is a URI. With ``?versionId=ID`` at its end it is pinned: it names
one version of the object, and not the current one::

    s3://bucket/key                  the current object
    s3://bucket/key?versionId=ID     one version of it
    s3://bucket/key?versionId=a?versionId=     the current object of the key "key?versionId=a"

The form is the same for all schemes. An ID has letters, digits and ``._~-``, 1,024 at most. If a
key itself ends like a pinned address, an empty ID follows it, so every address has one meaning.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.layout import lakefs_object
from lakecli.base.model import Entry
from lakecli.errors import IntegrityError, LakeError, UsageError
from lakecli.repository.contract import Repository
from lakecli.stores.contract import ObjectStore
from lakecli.stores.uri import is_local, parse

if TYPE_CHECKING:
    from lakecli.repository.reading.trust import Trust

MAX_OPEN: Final = 64
"""How many stores outside the namespace are kept open."""


def is_external(entry: Entry) -> bool:
    """Return whether an entry's bytes lie outside the layout of the repository's own namespace."""
    return is_outside(entry.physical_address)


def may_change(entry: Entry) -> bool:
    """Return whether an entry's bytes may change: they are outside, and of no fixed version."""
    return is_external(entry) and not split_pin(entry.physical_address).version_id


def is_outside(address: str) -> bool:
    """Return whether an address is a full URI, and not relative to the namespace."""
    return "://" in address


class Resolver:
    """Opens what the addresses of one repository's entries name; safe to share between threads.

    Args:
        store: the repository's namespace.
        trust: says which places outside it may be read; asked again before anything is refused,
            since another command may have allowed the place meanwhile.
        open_store: given the URI of a bucket or directory and its region, returns its store.
        find_region: returns the region of a bucket.
        region: of the namespace's bucket, or ``""``.
    """

    def __init__(
        self,
        store: Callable[[], ObjectStore],
        trust: Callable[[], Trust],
        *,
        open_store: Callable[[str, str], ObjectStore],
        find_region: Callable[[str], str],
        region: str,
    ) -> None:
        self._store = store
        self._ask = trust
        self._trust: Trust | None = None
        self._open_store = open_store
        self._find_region = find_region
        self._region = region
        self._stores: OrderedDict[str, ObjectStore] = OrderedDict()
        self._lock = Lock()

    def locate(self, address: str) -> tuple[ObjectStore, str]:
        """Return the store and the key of the bytes at an address.

        The store of a pinned address reads the version that the address names; see `split_pin`.

        Raises:
            Unsupported: a pinned address in a store whose versions lakecli cannot read.
            IntegrityError: a relative address that leads out of the namespace.
            OutsideAddress: it lies in a place that this user has not allowed, or in no store.
        """
        place = self.check(address)
        if place is None:
            return self._store(), address
        from lakecli.repository.reading.trust import real_path
        from lakecli.stores.wrappers import at_version

        bucket, key = place
        if is_local(bucket):
            parent, _, key = real_path(f"{bucket}/{key}").rpartition("/")
            bucket = f"local://{parent}"
        return at_version(self._open(bucket), split_pin(address).version_id), key

    def check(self, address: str) -> tuple[str, str] | None:
        """Refuse an address as `locate` does, without opening a store.

        Returns:
            The URI of the bucket or directory outside the namespace, and the key in it; ``None``
            for an address inside the namespace.
        """
        if not is_outside(address):
            check_key(address)
            return None
        from lakecli.repository.reading.trust import OutsideAddress

        try:
            bucket, key = split_address(split_pin(address).uri)
        except UsageError as error:
            raise OutsideAddress(
                f"never followed: an address of no store: {address!r}",
                hint="addresses are s3://, gs://, az:// or local:// URIs",
            ) from error
        self._check(bucket, key)
        return bucket, key

    def _check(self, bucket: str, key: str) -> None:
        from lakecli.repository.reading.trust import OutsideAddress

        if self._trust is not None:
            with suppress(OutsideAddress):
                self._trust.check(bucket, key)
                return
        self._trust = self._ask()
        self._trust.check(bucket, key)

    def _open(self, bucket: str) -> ObjectStore:
        with self._lock:
            store = self._stores.get(bucket)
            if store is None:
                store = self._stores[bucket] = self._open_store(bucket, self._region_of(bucket))
                if len(self._stores) > MAX_OPEN:
                    self._stores.popitem(last=False)
            self._stores.move_to_end(bucket)
            return store

    def _region_of(self, bucket: str) -> str:
        """Return the region of a bucket, which its signatures contain; it is requested once."""
        from lakecli.repository.reading.trust import bucket_of

        assert self._trust is not None
        if bucket == bucket_of(self._trust.namespace):
            return self._region
        if bucket.startswith("s3://"):
            with suppress(LakeError):  # the region that is configured may be right
                return self._find_region(bucket)
        return ""


def check_key(address: str) -> None:
    """Refuse a relative address that leads out of the namespace, or that nothing writes.

    Raises:
        IntegrityError: it is empty, absolute, or has an empty, ``.`` or ``..`` component.
    """
    parts = address.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in address:
        raise IntegrityError(
            f"not an address in the storage namespace: {address!r}",
            hint="remove the object or upload it again; its entry is damaged or forged",
        )


def locate(repository: Repository, entry: Entry) -> tuple[ObjectStore, str]:
    """Return the store and the key of an entry's bytes.

    Raises:
        LakeError: what `Resolver.locate` raises.
    """
    return repository.addresses.locate(entry.physical_address)


def split_address(address: str) -> tuple[str, str]:
    """Split an external address into the URI of its bucket and the key.

    For a file these are the directory and the name. An entry's address may be pinned: pass only the
    URI that `split_pin` returns. The key is not changed, even if it begins with a slash or
    contains two in a row. The result is not checked against the allowed places.

    Raises:
        UsageError: no store of lakecli has addresses of this kind.
    """
    parsed = parse(address)
    if not parsed.bucket:
        parent, _, name = address.rpartition("/")
        if name in {"", ".", ".."}:
            raise UsageError(f"not the address of a file: {address!r}")
        return str(parse(parent)), name
    scheme, _, rest = address.partition("://")
    if scheme.lower() == "https":
        # Azure's own form, which lakeFS records: the host stands for the account.
        from urllib.parse import unquote

        key = unquote(rest.split("/", 2)[2], errors="surrogateescape")
    else:
        key = rest[len(parsed.bucket) + 1 :]
    return str(parsed._replace(path="")), key


def key_of(repository: Repository, address: str) -> str | None:
    """Return the key of an address inside the namespace, which may be a full URI; else ``None``."""
    if not is_outside(address):
        return address
    if lakefs_object(address.rpartition("/")[2]) is None:
        return None  # only lakeFS records full URIs of its own namespace

    with suppress(UsageError):
        uri = str(parse(split_pin(address).uri))
        prefix = f"{repository.record.storage_namespace}/"
        return uri.removeprefix(prefix) if uri.startswith(prefix) else None
    return None


def full_address(repository: Repository, entry: Entry) -> str:
    """Return the URI of an entry's bytes."""
    if is_external(entry):
        return entry.physical_address
    return f"{repository.record.storage_namespace}/{entry.physical_address}"


MARK: Final = "?versionId="

_MARK: Final = MARK.encode()
_ID: Final = r"[A-Za-z0-9._~-]{0,1024}"
# Compiled on first use: most addresses have no mark.
_PINNED: Final = rf"\?versionId=({_ID})\Z"
_PINNED_BYTES: Final = _PINNED.encode()


class Pin(NamedTuple):
    """The parts of an address.

    Attributes:
        uri: of the object, with the key as it is in the store.
        version_id: of the version that it names; ``""`` for the current object.
    """

    uri: str
    version_id: str


def pinned(uri: str, version_id: str) -> str:
    """Return the address of one version of the object at a URI.

    Raises:
        UsageError: the ID is empty, or has characters that no ID in an address may have.
    """
    if not version_id or not re.fullmatch(_ID, version_id):
        raise UsageError(f"not a version ID that an address can hold: {version_id!r}")
    return f"{uri}{MARK}{version_id}"


def pinned_bytes(uri: bytes, version_id: str) -> bytes:
    """Return what `pinned` does, as bytes.

    Raises:
        UsageError: as `pinned`.
    """
    return uri + pinned("", version_id).encode()


def unpinned_bytes(uri: bytes) -> bytes:
    """Return the address of the current object at a URI."""
    return uri + _MARK if _MARK in uri and re.search(_PINNED_BYTES, uri) else uri


def split_pin(address: str) -> Pin:
    """Split an address into its parts."""
    found = re.search(_PINNED, address) if MARK in address else None
    return Pin(address, "") if found is None else Pin(address[: found.start()], found[1])
