"""Which adapter serves which scheme; each is imported by the first namespace that needs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from lakecli.objectstore.uri import parse

if TYPE_CHECKING:
    from lakecli.objectstore.base import ObjectStore
    from lakecli.objectstore.uri import NamespaceUri

# A backend is one row here, its scheme in `uri.parse`, and its module with these two functions.
ADAPTERS = {
    "az": "lakecli.objectstore.azure.store",
    "gs": "lakecli.objectstore.gs.store",
    "local": "lakecli.objectstore.local.store",
    "memory": "lakecli.objectstore.memory.store",
    "s3": "lakecli.objectstore.s3.store",
}


class Adapter(Protocol):
    """What the module of an adapter offers."""

    def open_namespace(self, uri: NamespaceUri, *, region: str) -> ObjectStore:
        """Return the store of a namespace, without asking it anything yet."""

    def prepare_namespace(self, uri: NamespaceUri) -> str:
        """Get ready to create a repository; see `registry.prepare_namespace`."""


def open_store(uri: str, *, region: str = "") -> ObjectStore:
    """Return the store of a storage namespace, without asking it anything yet.

    Args:
        uri: of the namespace, in any spelling.
        region: of the bucket, as learned by `prepare_namespace`.

    Raises:
        UsageError: a malformed URI or an unsupported scheme.
    """
    parsed = parse(uri)
    return _adapter(parsed.scheme).open_namespace(parsed, region=region)


def prepare_namespace(uri: str) -> str:
    """Make a directory that is missing, and learn the region of a bucket, once.

    Buckets are never created. Called by what creates a repository, and by nothing else: a
    directory missing later is a disk that is not mounted, not a place to start afresh.

    Returns:
        The region, to be kept with the repository; ``""`` where there is none.

    Raises:
        UsageError: a malformed URI or an unsupported scheme.
        BucketNotFound: no such bucket.
    """
    parsed = parse(uri)
    return _adapter(parsed.scheme).prepare_namespace(parsed)


def _adapter(scheme: str) -> Adapter:
    return cast("Adapter", import_module(ADAPTERS[scheme]))
