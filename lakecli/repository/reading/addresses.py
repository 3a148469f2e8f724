"""The addresses of entries: how they are written, and which of them are outside the namespace.

An address outside the namespace is a URI. With ``?versionId=ID`` at its end it is pinned: it names
one version of the object, and not the current one::

    s3://bucket/key                  the current object
    s3://bucket/key?versionId=ID     one version of it
    s3://bucket/key?versionId=a?versionId=     the current object of the key "key?versionId=a"

The form is the same for all schemes. An ID has letters, digits and ``._~-``, 1,024 at most. If a
key itself ends like a pinned address, an empty ID follows it, so every address has one meaning.

An address is followed by `lakecli.repository.reading.places` only.
"""

import re
from contextlib import suppress
from typing import Final, NamedTuple

from lakecli.base.layout import lakefs_object
from lakecli.base.model import Entry
from lakecli.errors import IntegrityError, UsageError
from lakecli.repository.contract import Repository
from lakecli.stores.uri import parse


def is_external(entry: Entry) -> bool:
    """Return whether an entry's bytes lie outside the layout of the repository's own namespace."""
    return is_outside(entry.physical_address)


def may_change(entry: Entry) -> bool:
    """Return whether an entry's bytes may change: they are outside, and of no fixed version."""
    return is_external(entry) and not split_pin(entry.physical_address).version_id


def is_outside(address: str) -> bool:
    """Return whether an address is a full URI, and not relative to the namespace."""
    return "://" in address


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
