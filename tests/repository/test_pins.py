"""Addresses of versions: every one has one meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import UsageError
from lakecli.repository.pins import (
    MARK,
    Pin,
    is_pinned,
    pinned,
    pinned_bytes,
    split_pin,
    unpinned,
    unpinned_bytes,
)

IDS = st.text("aZ09._~-", min_size=1, max_size=40)
PIECES = st.sampled_from([MARK, "?", "=", "versionId", "a", "/", "é", "\n", " ", "%3F", "\udcff"])
URIS = st.lists(PIECES | IDS, max_size=8).map(lambda pieces: "s3://b/" + "".join(pieces))


@given(URIS, st.just("") | IDS)
def test_round_trip(uri: str, version: str) -> None:
    address = pinned(uri, version) if version else unpinned(uri)
    assert split_pin(address) == Pin(uri, version)
    assert is_pinned(address) is bool(version)
    as_bytes = uri.encode("utf-8", "surrogateescape")
    there = pinned_bytes(as_bytes, version) if version else unpinned_bytes(as_bytes)
    assert there == address.encode("utf-8", "surrogateescape")


@given(URIS)
def test_every_address_means_something(address: str) -> None:
    uri, version = split_pin(address)
    assert address in {uri, uri + MARK + version}


def test_the_form_is_fixed() -> None:
    assert pinned("s3://b/k", "v.1") == "s3://b/k?versionId=v.1"
    assert unpinned("s3://b/k") == "s3://b/k"
    assert unpinned("s3://b/k?versionId=v.1") == "s3://b/k?versionId=v.1?versionId="
    assert split_pin("s3://b/k?versionId=v 1") == Pin("s3://b/k?versionId=v 1", "")
    assert not is_pinned("data/ab?versionId=1")


@pytest.mark.parametrize("version", ["", "a b", "é", "a?b", "a\n", "x" * 1_025])
def test_what_no_address_can_hold_is_refused(version: str) -> None:
    with pytest.raises(UsageError):
        pinned("s3://b/k", version)
