"""Find the store and the key of an entry's bytes; refuse addresses in places not allowed.

Every reader uses `Resolver`: on this machine, and on Spark executors, which get the allowed places
as strings.

An address outside the namespace is a URI. With ``?versionId=ID`` at its end it is pinned: it names
one version of the object instead of the current object::

    s3://bucket/key                  the current object
    s3://bucket/key?versionId=ID     one version of it
    s3://bucket/key?versionId=a?versionId=     the current object of the key "key?versionId=a"

The form is the same for all schemes. An ID has letters, digits and ``._~-``, 1,024 at most. If a
key itself ends like a pinned address, an empty ID follows it, so every address has one meaning.

A place outside the namespace is a bucket, a container, a prefix in a bucket or container, or a
directory of this machine, written as a normalised URI. An entry may name any address, and everybody
who can write to the namespace can write an entry. So bytes are read only from an allowed place:

- the namespace itself: its prefix in the bucket, or its directory;
- places in the setting ``trust.addresses``, for all repositories or for one;
- places from which this clone imported or staged objects, or that were allowed when it was cloned;
  the local store remembers these places.

If the namespace is in a bucket, a file of this machine is never read, even from an allowed place.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from threading import Lock
from typing import Any, Final, NamedTuple

from lakecli.base.layout import lakefs_object
from lakecli.base.model import Entry
from lakecli.errors import IntegrityError, LakeError, Refused, UsageError
from lakecli.kv.local_store import ReadTransaction, Table
from lakecli.repository.contract import Repository
from lakecli.stores.contract import ObjectInfo, ObjectStore
from lakecli.stores.uri import is_local, parse

MAX_OPEN: Final = 64
"""The largest number of stores outside the namespace that are kept open."""

SETTING: Final = "trust.addresses"

MAX_REMEMBERED: Final = 1_000
"""The largest number of places that are remembered for one repository."""

_HOST_ADDRESS: Final = r"[0-9.]+|metadata(\.google\.internal)?"
"""Bucket names that are refused: a bucket named like a host may lead to a credential server."""


def is_external(entry: Entry) -> bool:
    """Return whether an entry's bytes are outside the repository's namespace."""
    return is_outside(entry.physical_address)


def may_change(entry: Entry) -> bool:
    """Return whether an entry's bytes may change: its address is outside, and not pinned."""
    return is_external(entry) and not split_pin(entry.physical_address).version_id


def is_outside(address: str) -> bool:
    """Return whether an address is a full URI, instead of relative to the namespace."""
    return "://" in address


class Resolver:
    """Opens the stores that entries' addresses name; threads can share a resolver.

    Args:
        trusting: the places outside the namespace that may be read, or a repository. The allowed
            places of a repository are read again before an address is refused, since another
            command may have allowed the place meanwhile.
        open_store: opens the store of a bucket in a region.
        find_region: returns the region of a bucket.
        region: the region of the namespace.

    Attributes:
        compared: see `AddressResolver`.
    """

    def __init__(
        self,
        store: ObjectStore,
        trusting: "Trust | Repository",
        open_store: Callable[[str, str], ObjectStore],
        find_region: Callable[[str], str],
        region: str,
    ) -> None:
        self._store = store
        self._trusting = trusting
        self._open_store = open_store
        self._find_region = find_region
        self._region = region
        self.compared: dict[Any, str] = {}
        self._trust: Trust | None = None
        self._lock = Lock()
        self._opened = lru_cache(MAX_OPEN)(self._open)  # the stores that were opened last

    def locate(self, address: str) -> tuple[ObjectStore, str]:
        """Return the store and the key of the bytes at an address.

        The store of a pinned address reads the version that the address names; see `split_pin`.

        Raises:
            Unsupported: a pinned address in a store whose versions lakecli cannot read.
            IntegrityError: a relative address that leads out of the namespace.
            OutsideAddress: the address is in a place that this user has not allowed, or in no store
                that lakecli supports.
        """
        place = self.check(address)
        if place is None:
            return self._store, address
        from lakecli.stores.read_only import at_version

        bucket, key = place
        if is_local(bucket):
            parent, _, key = real_path(f"{bucket}/{key}").rpartition("/")
            bucket = f"local://{parent}"
        with self._lock:  # open each store once
            store = self._opened(bucket)
        return at_version(store, split_pin(address).version_id), key

    def check(self, address: str) -> tuple[str, str] | None:
        """Raise the errors that `locate` raises for an address, without opening a store.

        Returns:
            The URI of the bucket or directory outside the namespace, and the key in it; ``None``
            for an address inside the namespace.
        """
        if not is_outside(address):
            if not is_key(address):
                what = f"not an address in the storage namespace: {address!r}"
                hint = "remove the object or upload it again; its entry is damaged or forged"
                raise IntegrityError(what, hint=hint)
            return None
        try:
            bucket, key = split_address(split_pin(address).uri)
        except UsageError as error:
            hint = "addresses are s3://, gs://, az:// or local:// URIs"
            what = f"never followed: an address of no store: {address!r}"
            raise OutsideAddress(what, hint=hint) from error
        self._check(bucket, key)
        return bucket, key

    def _check(self, bucket: str, key: str) -> None:
        if self._trust is not None:
            with suppress(OutsideAddress):
                self._trust.check(bucket, key)
                return
        trusting = self._trusting
        self._trust = trusting if isinstance(trusting, Trust) else trust_of(trusting)
        self._trust.check(bucket, key)

    def _open(self, bucket: str) -> ObjectStore:
        """Open the store of a bucket with the bucket's region, which signatures need."""
        assert self._trust is not None
        region = ""
        if bucket == bucket_of(self._trust.namespace):
            region = self._region
        elif bucket.startswith("s3://"):
            with suppress(LakeError):  # then try the configured region
                region = self._find_region(bucket)
        return self._open_store(bucket, region)


def is_key(address: str) -> bool:
    """Return whether a relative address is a valid key in the namespace.

    It is not valid if it is empty or absolute, or has a NUL, or an empty, ``.`` or ``..``
    component: it could then lead out of the namespace.
    """
    return {"", ".", ".."}.isdisjoint(address.split("/")) and "\0" not in address


def find_object(repository: Repository, entry: Entry) -> ObjectInfo | None:
    """Return a description of the object with an entry's bytes; ``None`` if it cannot be read."""
    with suppress(LakeError):
        store, key = repository.addresses.locate(entry.physical_address)
        return store.head(key)
    return None


def split_address(address: str) -> tuple[str, str]:
    """Split an external address into the URI of its bucket and the key.

    For a file the result is the URI of its directory and its name. An entry's address may be
    pinned: pass only the URI that `split_pin` returns. The key is not normalised: it may begin with
    a slash, or contain several in a row. The result is not checked against the allowed places.

    Raises:
        UsageError: no store that lakecli supports has addresses of this kind.
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
    """Return the key of an address in the namespace; ``None`` if the address is outside.

    Args:
        address: a relative address; or a full URI, which is in the namespace only if lakeFS has
            named the object.
    """
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
_ID: Final = r"(?:[A-Za-z0-9._~-]|%[0-9A-F]{2}){0,1024}"
# Compiled on first use: most addresses have no mark.
_PINNED: Final = rf"\?versionId=({_ID})\Z"
_PINNED_BYTES: Final = _PINNED.encode()


class Pin(NamedTuple):
    """An address of an object, split into its parts.

    Attributes:
        uri: the URI of the object, with the key as it is in the store.
        version_id: the ID of the version that the address names; ``""`` for the current object.
    """

    uri: str
    version_id: str


def pinned_bytes(uri: bytes, version_id: str) -> bytes:
    """Return the address of one version of the object at a URI, as bytes.

    The ID is percent-encoded: a store may use any characters in its IDs.

    Raises:
        UsageError: the ID is empty, or too long.
    """
    from urllib.parse import quote

    written = quote(version_id, safe="")
    if not written or not re.fullmatch(_ID, written):
        raise UsageError(f"not a version ID that an address can hold: {version_id!r}")
    return uri + _MARK + written.encode()


def unpinned_bytes(uri: bytes) -> bytes:
    """Return the address of the current object at a URI; see the module's description."""
    return uri + _MARK if _MARK in uri and re.search(_PINNED_BYTES, uri) else uri


def split_pin(address: str) -> Pin:
    """Split an address into the URI of the object and the ID of its version."""
    found = re.search(_PINNED, address) if MARK in address else None
    if found is None:
        return Pin(address, "")
    from urllib.parse import unquote

    return Pin(address[: found.start()], unquote(found[1]))


class OutsideAddress(Refused):
    """An address outside the storage namespace, in a place that this user has not allowed."""


class Trust(NamedTuple):
    """The places outside its namespace that a repository may read, as strings for Spark executors.

    Attributes:
        repository: the repository's name on this machine, for messages; ``""`` if it has none.
        namespace: the repository's storage namespace, normalised.
        allowed: the allowed places, normalised.
    """

    repository: str
    namespace: str
    allowed: tuple[str, ...] = ()

    def check(self, bucket: str, key: str) -> None:
        """Refuse an object outside the namespace that is in no allowed place.

        Raises:
            OutsideAddress: the object is refused; the error names the place and the command that
                allows it.
        """
        if is_local(bucket):
            self._check_file(bucket, key)
            return
        check_host(bucket)
        if not _covers(self.namespace, bucket, key) and self.narrowest(bucket, key) is None:
            raise self.refusal(self.place_to_allow(bucket, key))

    def narrowest(self, bucket: str, key: str) -> str | None:
        """Return the longest URI of an allowed place that contains an object, or ``None``."""
        if is_local(bucket):
            found = [each for each in self.allowed if lies_below(bucket, key, [each])]
        else:
            uri = f"{bucket}/{key}"
            found = [each for each in self.allowed if _covers(each, bucket, key) or each == uri]
        return max(found, key=len, default=None)

    def place_to_allow(self, bucket: str, key: str) -> str:
        """Return the allowed place that contains an object, or the place that must be allowed.

        If the object is in another bucket than the namespace, the place that must be allowed is the
        first directory of the key, or the bucket if the key has no directory.
        """
        if is_local(bucket):
            return bucket
        if (allowed := self.narrowest(bucket, key)) is not None:
            return allowed
        place, (first, *rest) = place_of(self.namespace, bucket, key), key.split("/")
        is_narrow = place != bucket or not first or not rest
        # A key with a `.` or `..` component needs the whole bucket; see `_covers`.
        return place if is_narrow or {".", ".."} & {first, *rest} else f"{bucket}/{first}"

    def _check_file(self, directory: str, name: str) -> None:
        if not is_local(self.namespace):
            file = f"a file of this machine, {directory}/{name}"
            what = f"never followed: {file}, named in the shared namespace {self.namespace}"
            hint = "upload the file, or copy it: `import --from SOURCE --to PATH --copy`"
            raise OutsideAddress(what, hint=hint)
        if not lies_below(directory, name, (self.namespace, *self.allowed)):
            is_led_out = lies_below(directory, "", (self.namespace, *self.allowed))
            leads_to = real_path(f"{directory}/{name}").rpartition("/")[0]
            raise self.refusal(f"local://{leads_to}" if is_led_out else directory)

    def refusal(self, place: str) -> OutsideAddress:
        """Return the error for an address in a place that is not allowed."""
        what = f"outside the storage namespace, in a place that is not allowed: {place}"
        hint = f"if you trust the repository to name objects there: {self.allowing(place)}"
        return OutsideAddress(what, hint=hint)

    def allowing(self, *places: str) -> str:
        """Return the command line that allows some places for this repository only."""
        has_settings = self.repository and "/" not in self.repository  # a name, not a namespace
        key = f"repo.{self.repository}.{SETTING}" if has_settings else SETTING
        # Spaces and commas separate a list: a place that contains one is replaced by its parent.
        cut = [re.split(r"(?=/[^/]*[,\s])", place)[0] for place in places]
        listed = dict.fromkeys([*self.allowed, *cut])
        return f"`config set {key} {shlex.quote(' '.join(listed))}`"


def bucket_of(uri: str) -> str:
    """Return the bucket or container of a normalised URI; return a directory unchanged."""
    return uri if is_local(uri) else str(parse(uri)._replace(path=""))


def place_of(namespace: str, bucket: str, key: str) -> str:
    """Return the place that has to be allowed before an object is read.

    Usually this place is the bucket or directory of the object. The bucket of the namespace may
    also have data of other owners. There, the place is the shortest prefix of the key that does not
    contain the namespace, or the whole bucket if there is no such prefix. For an object inside the
    namespace, the place is the namespace.
    """
    if is_local(bucket) or bucket != bucket_of(namespace):
        return bucket
    if _covers(namespace, bucket, key):
        return namespace
    parts = key.split("/")
    if {".", ".."}.isdisjoint(parts):
        own = namespace.removeprefix(f"{bucket}/").split("/")
        for end, part in enumerate(parts, 1):
            if part and parts[:end] != own[:end]:
                return "/".join((bucket, *parts[:end]))
    return bucket


def real_path(uri: str) -> str:
    """Return the path that a ``local://`` URI names, with its symbolic links resolved."""
    return os.path.realpath(uri.removeprefix("local://"))


def real_uri(uri: str) -> str:
    """Return a URI; in a URI of a directory, symbolic links are resolved."""
    return "local://" + real_path(uri).rstrip("/") if is_local(uri) else uri


def lies_below(directory: str, name: str, roots: Iterable[str]) -> bool:
    """Return whether a file is below one of some directories, after resolving symbolic links.

    Args:
        roots: URIs of places; places that are not directories of this machine are ignored.
    """
    path = real_path(f"{directory}/{name}")
    return any(f"{path}/".startswith(f"{real_path(root)}/") for root in filter(is_local, roots))


def check_host(bucket: str) -> None:
    """Refuse a bucket that has the name or the IP address of a host."""
    if re.fullmatch(_HOST_ADDRESS, parse(bucket).bucket.rpartition("/")[2], re.ASCII):
        hint = "the name of this bucket is the address of a machine"
        raise OutsideAddress(f"never followed: an address in {bucket}", hint=hint)


def _covers(place: str, bucket: str, key: str) -> bool:
    if is_local(place):
        return False
    if place == bucket:
        return True
    # A server or a proxy may resolve `..`, so that the key leads out of the prefix.
    if not set(key.split("/")).isdisjoint((".", "..")):
        return False
    return f"{bucket}/{key}".startswith(f"{place}/")


def _row(repository: Repository) -> bytes:
    return b"trust/" + repository.key


def remembered(txn: ReadTransaction, repository: Repository) -> tuple[str, ...]:
    """Return the places whose objects this clone imported, staged, or was allowed to read."""
    data = txn.get(Table.META, _row(repository))
    return () if data is None else tuple(json.loads(data))


def remember(repository: Repository, places: Iterable[str]) -> None:
    """Allow places for one repository of this machine permanently.

    The namespace itself is not recorded: it is always allowed.

    Raises:
        Refused: there would be more than `MAX_REMEMBERED` places.
    """
    wanted = [place for place in places if place != repository.record.storage_namespace]
    with repository.lake.kv.read() as txn:
        if set(wanted) <= set(remembered(txn, repository)):
            return
    with repository.lake.kv.write() as txn:
        present = remembered(txn, repository)
        merged = list(dict.fromkeys((*present, *wanted)))
        if len(merged) > MAX_REMEMBERED:
            what = f"{repository.uri} has objects in more than {MAX_REMEMBERED} places"
            raise Refused(what, hint=f"allow a place that holds them all: `config set {SETTING} …`")
        txn.put(Table.META, _row(repository), json.dumps(merged).encode())


def trust_of(repository: Repository) -> Trust:
    """Return the places outside its namespace that a repository of this machine may read."""
    try:
        configured = [str(parse(each)) for each in repository.lake.runtime.trusted(repository.name)]
    except UsageError as error:
        raise UsageError(f"{SETTING} names no place: {error.message}", hint=error.hint) from None
    with repository.lake.kv.read() as txn:
        known = remembered(txn, repository)
    allowed = tuple(dict.fromkeys((*configured, *known)))
    return Trust(repository.name, repository.record.storage_namespace, allowed)
