"""Addresses of object versions, each with one meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import UsageError
from lakecli.repository.reading.addresses import (
    MARK,
    OutsideAddress,
    Pin,
    Resolver,
    Trust,
    pinned_bytes,
    split_pin,
    unpinned_bytes,
)
from lakecli.stores.contract import ObjectStore
from lakecli.stores.read_only import AtVersion
from lakecli.stores.registry import open_store
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

IDS = st.text("aZ09._~-/=+&#%?", min_size=1, max_size=40)
PIECES = st.sampled_from([MARK, "?", "=", "versionId", "a", "/", "é", "\n", " ", "%3F", "\udcff"])
URIS = st.lists(PIECES | IDS, max_size=8).map(lambda pieces: "s3://b/" + "".join(pieces))


@given(URIS, st.just("") | IDS)
def test_a_pin_survives_a_round_trip(uri: str, version: str) -> None:
    as_bytes = uri.encode("utf-8", "surrogateescape")
    there = pinned_bytes(as_bytes, version) if version else unpinned_bytes(as_bytes)
    address = there.decode("utf-8", "surrogateescape")
    assert split_pin(address) == Pin(uri, version)


@given(URIS)
def test_every_address_is_split(address: str) -> None:
    uri, version = split_pin(address)
    assert address in {uri, uri + MARK + quote(version, safe="")}


def test_the_form_of_a_pin_is_fixed() -> None:
    assert pinned_bytes(b"s3://b/k", "v.1") == b"s3://b/k?versionId=v.1"
    assert pinned_bytes(b"s3://b/k", "v/1=") == b"s3://b/k?versionId=v%2F1%3D"
    assert unpinned_bytes(b"s3://b/k") == b"s3://b/k"
    assert unpinned_bytes(b"s3://b/k?versionId=v.1") == b"s3://b/k?versionId=v.1?versionId="
    assert split_pin("s3://b/k?versionId=v 1") == Pin("s3://b/k?versionId=v 1", "")


@pytest.mark.parametrize("version", ["", "x" * 1_025])
def test_a_version_that_no_address_can_hold_is_refused(version: str) -> None:
    with pytest.raises(UsageError):
        pinned_bytes(b"s3://b/k", version)


def resolver_of(trust: Trust) -> Resolver:
    """Return a resolver that opens real stores; none of these tests sends a request."""

    def opens(uri: str, region: str) -> ObjectStore:
        return open_store(uri, region=region)

    return Resolver(MemoryStore(), trust, opens, lambda _bucket: "", "")


@pytest.mark.parametrize(
    "address",
    [
        "s3://other/x?versionId=1",
        "s3://169.254.169.254/x?versionId=1",
        "s3://prefixed/other?versionId=1",
        "s3://prefixed/in/../x?versionId=1",
        "local:///etc/passwd?versionId=",
        "local:///etc/passwd?versionId=1",
        "?versionId=1://x",
        "gs://other/x?versionId=1",
    ],
)
def test_a_pin_stays_inside_its_bucket(address: str) -> None:
    trust = Trust("demo", "s3://own/ns", ("s3://prefixed/in", "gs://allowed"))
    with pytest.raises(OutsideAddress):
        resolver_of(trust).locate(address)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_pin_in_an_allowed_bucket_is_read_at_its_version(scheme: str) -> None:
    trust = Trust("demo", "s3://own/ns", (f"{scheme}://allowed",))
    resolver = resolver_of(trust)
    store, key = resolver.locate(f"{scheme}://allowed/x?versionId=1")
    assert (type(store), key) == (AtVersion, "x")


def test_a_link_is_followed_before_its_place_is_checked(tmp_path: Path) -> None:
    """A name with an empty ID after it is checked as the file that is read."""
    (tmp_path / "allowed").mkdir()
    (tmp_path / "secret").write_text("canary")
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "secret")
    trust = Trust("demo", f"local://{tmp_path}/ns", (f"local://{tmp_path}/allowed",))
    resolver = resolver_of(trust)
    with pytest.raises(OutsideAddress):
        resolver.locate(f"local://{tmp_path}/allowed/link?versionId=")
