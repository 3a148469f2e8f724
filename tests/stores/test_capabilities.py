"""The capabilities of each adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.stores import capabilities
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.gs.store import GsStore
from lakecli.stores.local.store import DirectoryStore
from lakecli.stores.s3.store import S3Store

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore
    from tests.support.memory_store import MemoryStore

STORES: dict[str, ObjectStore] = {
    "s3": S3Store("bucket"),
    "gs": GsStore("bucket"),
    "az": AzureStore("account", "container"),
    "local": DirectoryStore("/nowhere"),
}
HAVE = {
    "HasUploads": {"s3", "gs", "az"},
    "VersionedStore": {"s3", "gs", "az"},
    "DeletesMatching": {"gs", "az", "local"},
    "CopiesFrom": {"s3", "gs", "az"},
    "OpensRanges": {"s3"},
    "Renews": {"az", "local"},
    "ReportsAccess": {"s3", "gs", "az", "local"},
    "ShowsClock": {"s3", "gs", "az"},
    "WritesGarbled": {"gs", "az"},
    "Prunes": {"local"},
    "Settles": {"local"},
    "ClearsTemporaries": {"local"},
}


def declared(
    store: MemoryStore,
) -> tuple[
    capabilities.DeletesMatching, capabilities.HasUploads, capabilities.VersionedStore, ObjectStore
]:
    """Have mypy check the tests' own store, which names no protocol as its base class."""
    return store, store, store, store


def declared_locally(
    store: DirectoryStore,
) -> tuple[
    capabilities.ClearsTemporaries,
    capabilities.DeletesMatching,
    capabilities.Prunes,
    capabilities.Renews,
    capabilities.ReportsAccess,
    capabilities.Settles,
    ObjectStore,
]:
    """Have mypy check the adapter that names no protocol as its base class."""
    return store, store, store, store, store, store, store


def test_the_table_has_every_capability() -> None:
    protocols = {
        name
        for name, value in vars(capabilities).items()
        if getattr(value, "_is_runtime_protocol", False)
    }
    assert set(HAVE) == protocols


@pytest.mark.parametrize("name", HAVE)
def test_adapters_have_the_capabilities_of_the_table(name: str) -> None:
    protocol = getattr(capabilities, name)
    assert {kind for kind, store in STORES.items() if isinstance(store, protocol)} == HAVE[name]


@pytest.mark.parametrize("name", HAVE)
def test_the_documented_table_is_the_real_one(name: str) -> None:
    lines = (capabilities.__doc__ or "").splitlines()
    head = next(line for line in lines if line.startswith("capability"))
    row = next(line for line in lines if line.startswith(f"`{name}`"))
    kinds = {kind: head.index(kind) for kind in STORES}
    shown = {kind for kind, at in kinds.items() if row[at : at + 3] == "yes"}
    assert shown == HAVE[name]
