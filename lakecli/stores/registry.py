"""Finds the adapter of a URI's scheme; its module is imported when first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.stores.contract import ObjectStore
from lakecli.stores.uri import NamespaceUri, parse


class Adapter(Protocol):
    """The functions of an adapter's module."""

    def open_namespace(self, uri: NamespaceUri, *, region: str, account: Account) -> ObjectStore:
        """Return the store of a namespace, without a request; see `open_store`."""

    def prepare_namespace(self, uri: NamespaceUri, *, account: Account) -> str:
        """Prepare a namespace for a new repository; see the function of that name."""


# A new adapter needs a row here, its scheme in `uri.parse`, and a module with two functions.
ADAPTERS = {
    "az": "lakecli.stores.azure.store",
    "gs": "lakecli.stores.gs.store",
    "local": "lakecli.stores.local.store",
    "memory": "lakecli.stores.memory",
    "s3": "lakecli.stores.s3.store",
}


def open_store(uri: str, *, region: str = "", account: Account = NO_ACCOUNT) -> ObjectStore:
    """Return the store of a storage namespace, without a request.

    Args:
        uri: of the namespace, in any spelling.
        region: of the bucket, as learned by `prepare_namespace`.
        account: how a bucket of S3 is accessed; other stores ignore it.

    Raises:
        UsageError: a malformed URI or an unsupported scheme.
    """
    parsed = parse(uri)
    return _adapter(parsed.scheme).open_namespace(parsed, region=region, account=account)


def prepare_namespace(uri: str, *, account: Account = NO_ACCOUNT) -> str:
    """Create a missing directory, or find out the region of a bucket; create no bucket.

    Called only to create a repository: a directory that is missing later is an unmounted disk, and
    must not be created.

    Args:
        uri: of the namespace, in any spelling.
        account: how a bucket of S3 is accessed; other stores ignore it.

    Returns:
        The region, to store with the repository; ``""`` if the store has none.

    Raises:
        UsageError: a malformed URI or an unsupported scheme.
        BucketNotFound: no such bucket.
    """
    parsed = parse(uri)
    return _adapter(parsed.scheme).prepare_namespace(parsed, account=account)


def _adapter(scheme: str) -> Adapter:
    return cast("Adapter", import_module(ADAPTERS[scheme]))
