"""Check the addresses of a source's objects, and whether the objects exist.

A store must be able to read an address, and the address must be allowed.

``--verify`` sends requests for the objects of a manifest at their addresses. For a listing of a
bucket this is not needed, since the listing has just seen the objects. With ``--copy`` it is not
needed either, since the objects are read. A manifest may be old, so by default HEAD requests check
a sample of its objects, in the processes that run the parts.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.committed.values import decode_entry
from lakecli.engine.runner import open_by_uri
from lakecli.errors import LakeError, Refused
from lakecli.imports.model import Choice, Failures, Rows, Task
from lakecli.repository.contract import Repository
from lakecli.repository.reading import addresses
from lakecli.stores.azure.names import check_name
from lakecli.stores.contract import ObjectNotFound
from lakecli.stores.read_only import at_version
from lakecli.stores.uri import is_local

MARK: Final = addresses.MARK.encode()
COPY_IT: Final = "copy it into the repository"
"""The end of a reason if the object can be imported only by copying its bytes."""

_NOT_ON_AZURE: Final = re.compile(rb"\Aaz://.*(/\.\.?(?![^/\0])|[\\\x01-\x08\x0b-\x1f])", re.DOTALL)
"""Matches addresses, joined by NULs, if `check_name` may refuse one of them."""

PINNABLE: Final = ("s3://", "gs://", "az://", "memory://")
"""Prefixes of addresses that may name a version."""


def names_version(value: bytes) -> bool:
    """Return whether the address in an encoded entry names one version of an object."""
    return MARK in value and bool(
        addresses.split_pin(decode_entry(value).physical_address).version_id
    )


class Addresses:
    """Checks the addresses of one part's objects; fast if consecutive addresses share a bucket.

    Attributes:
        places: buckets and directories outside the namespace that contain the objects; see
            `addresses.place_of`.
    """

    def __init__(self, task: Task, failures: Failures) -> None:
        self.places: set[str] = set()
        self._task, self._failures = task, failures
        self._root: bytes | None = None
        self._is_directory = False
        self._inside = (task.location.uri + "/").encode("utf-8", "surrogateescape")
        self._own_bucket = addresses.bucket_of(task.location.uri)

    def checked(self, rows: Rows) -> Rows:
        """Return the rows, except those whose address cannot be read or recorded.

        Raises:
            Refused: an object is in the repository's own namespace, or in a directory that is
                not allowed.
        """
        bad = self._unknown(rows.addresses)
        if not self._task.copies:
            for at in _not_text(rows.addresses):
                bad.setdefault(at, f"its name is not UTF-8, as addresses are: {COPY_IT}")
        for at in _not_text(rows.checksums):
            bad.setdefault(at, "its checksum is not UTF-8")
        for at in _not_text(rows.content_types or []):
            bad.setdefault(at, "its content type is not UTF-8")
        return self._failures.leave_out(rows, self._task.prefix, bad)

    def _unknown(self, listed: list[bytes]) -> dict[int, str]:
        """Return the problems of addresses, by their positions in the list."""
        if self._are_known(listed):
            return {}
        bad = {}
        for at, address in enumerate(listed):
            if not self._is_known(address) and (why := self._problem(address)):
                bad[at] = why
            if address.startswith(self._inside):
                raise inside_error(address.decode("utf-8", "replace"), self._task.location.uri)
        return bad

    def _are_known(self, listed: list[bytes]) -> bool:
        """Return whether all addresses are in the bucket of the address checked last.

        Only the first and the last address in sort order are compared with the bucket: every text
        that sorts between two addresses of a bucket is an address in that bucket, too.
        """
        root = self._root
        return (
            root is not None
            and not self._is_directory
            and min(listed).startswith(root)
            and max(listed).startswith(root)
            and not self._inside.startswith(root)
            and MARK not in b"".join(listed)
            and not _NOT_ON_AZURE.match(b"\0".join(listed))
        )

    def _is_known(self, address: bytes) -> bool:
        """Return whether an address is in the bucket or directory of the address checked last."""
        root = self._root
        if root is None or not address.startswith(root) or MARK in address:
            return False
        if _NOT_ON_AZURE.match(address):
            return False
        return not self._is_directory or (
            b"/" not in address[len(root) :] and not address.endswith((b"/", b"/.", b"/.."))
        )

    def _problem(self, address: bytes) -> str:
        """Record the bucket or directory of an address; return the address's problem, or ``""``."""
        text = address.decode("utf-8", "surrogateescape")
        text, version_id = addresses.split_pin(text)
        scheme, colon, rest = text.partition("://")
        if not colon:
            local = " (of a file: local:///…)" if text.startswith("/") else ""
            return f"its address is not a URI: {text!r}{local}"
        try:
            place, key = addresses.split_address(text)
            if version_id and not place.startswith(PINNABLE):
                return f"it names a version, and only buckets keep versions: {text}"
            if is_local(place):
                return self._problem_of_file(text, place, key)
            addresses.check_host(place)
            if place.startswith("az://"):
                check_name(key, key, reads=True)
        except LakeError as error:
            return error.message
        if place == self._own_bucket and not self._task.copies:
            return self._problem_beside(text, place, key)
        self.places.add(place)
        if scheme.lower() != "https":
            size = 2 if place.startswith("az://") else 1
            self._root = f"{scheme}://{'/'.join(rest.split('/')[:size])}/".encode()
            self._is_directory = False
        return ""

    def _problem_beside(self, text: str, bucket: str, key: str) -> str:
        """Return the problem of an address in the namespace's bucket, or ``""``.

        Other programs may use the bucket, too. So only a prefix of it is recorded as a place.
        """
        place = addresses.place_of(self._task.location.uri, bucket, key)
        if place == self._task.location.uri:
            raise inside_error(text, place)
        if place == bucket:
            return f"only the whole bucket of the repository covers its address: {COPY_IT}"
        self.places.add(place)
        self._root = f"{place}/".encode("utf-8", "surrogateescape")
        self._is_directory = False
        return ""

    def _problem_of_file(self, text: str, directory: str, name: str) -> str:
        task = self._task
        if not task.copies and not is_local(task.location.uri):
            return f"a file on this machine cannot be referenced from a bucket: {COPY_IT}"
        if task.walks:
            if not any(f"{directory}/".startswith(f"{root}/") for root in task.roots):
                self.places.add(directory)  # outside the source, reached by a symbolic link
            self._root = text[: len(text) - len(name)].encode("utf-8", "surrogateescape")
            self._is_directory = True
            return ""
        # A manifest is untrusted. It may name files of this machine only beside itself, or where
        # the user allowed it.
        trust = task.location.trust()
        if not addresses.lies_below(directory, name, (*task.roots, *trust.allowed)):
            raise trust.refusal(directory)
        self.places.add(directory)
        return ""


def _not_text(column: list[bytes]) -> list[int]:
    """Return the positions of values that are not UTF-8."""
    if b"".join(column).isascii():
        return []
    found = []
    for at, data in enumerate(column):
        try:
            data.decode()
        except UnicodeDecodeError:
            found.append(at)
    return found


def inside_error(address: str, namespace: str) -> Refused:
    """Return the error for a source in the repository's own namespace."""
    return Refused(
        f"the source {address} lies in the repository's own namespace {namespace}",
        hint="merge, or copy objects between branches: `fs cp PATH DEST`",
    )


def check_outside(repository: Repository, uri: str) -> None:
    """Refuse a source that contains the repository's namespace, or is inside the namespace."""
    own = addresses.real_uri(repository.record.storage_namespace)
    other = addresses.real_uri(uri)
    if (other + "/").startswith(own + "/"):
        raise inside_error(uri, repository.record.storage_namespace)
    if (own + "/").startswith(other + "/"):
        hint = "import a prefix that does not contain it"
        raise Refused(f"the source {uri} contains the repository's own namespace {own}", hint=hint)


AT_ONCE: Final = 32
"""Number of requests that one part sends at a time."""

SAMPLE: Final = 1_000
"""Approximate number of objects in a sample; a smaller manifest is verified completely."""

ROW_SIZE: Final = 100
"""Approximate bytes of a row of a manifest: about 30 in Parquet, 150 in text."""


class Verify(StrEnum):
    """Which objects of a manifest are verified."""

    NONE = "none"
    SAMPLE = "sample"
    ALL = "all"


def choose(verify: Verify, size: int, seed: bytes) -> Choice:
    """Choose the objects of a manifest to verify, from the size of the manifest in bytes."""
    step = {Verify.NONE: 0, Verify.SAMPLE: max(1, size // ROW_SIZE // SAMPLE), Verify.ALL: 1}
    return Choice(step[verify], seed)


@dataclass
class Verifier:
    """Verifies the chosen objects of one part.

    Attributes:
        count: number of objects that were requested.
        archived: number of requested objects that are in an archive tier.
    """

    _choice: Choice
    _prefix: bytes
    _failures: Failures
    _account: Account = NO_ACCOUNT
    count: int = 0
    archived: int = 0

    def checked(self, rows: Rows) -> Rows:
        """Return the rows, except those of objects that are missing or have another size."""
        positions = self._choice.positions(rows) if rows.keys else range(0)
        if not positions:
            return rows
        with ThreadPoolExecutor(min(AT_ONCE, len(positions))) as pool:
            found = list(pool.map(lambda at: _ask(rows, at, self._account), positions))
        self.count += len(positions)
        self.archived += sum(is_archived for _, is_archived in found)
        bad = {at: why for at, (why, _) in zip(positions, found, strict=True) if why}
        return self._failures.leave_out(rows, self._prefix, bad)


def _ask(rows: Rows, at: int, account: Account) -> tuple[str, bool]:
    """Request an object; return why it cannot be imported (or ``""``), and if it is archived."""
    address = rows.addresses[at].decode("utf-8", "surrogateescape")
    plain, version_id = addresses.split_pin(address)
    uri, key = addresses.split_address(plain)
    try:
        info = at_version(store_of(uri, account=account), version_id).head(key)
    except ObjectNotFound:
        return f"the object is missing: {address}", False
    except LakeError as error:
        return f"the object cannot be verified: {error.message}", False
    if info.size != rows.sizes[at]:
        return f"the object has {info.size} bytes instead of {rows.sizes[at]}: {address}", False
    return "", bool(info.archive)


store_of = lru_cache(maxsize=16)(open_by_uri)
