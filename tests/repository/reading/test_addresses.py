"""Addresses: their bucket and key, and which place outside the namespace an object needs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import UsageError
from lakecli.repository.reading.addresses import OutsideAddress, Trust, place_of, split_address

if TYPE_CHECKING:
    from pathlib import Path

SALES = "s3://b/lake/sales"


@pytest.mark.parametrize(
    ("namespace", "key", "place"),
    [
        (SALES, "lake/sales/data/x", SALES),
        (SALES, "lake/sales//x", SALES),
        (SALES, "lake/sales/nested/data/x", SALES),
        (SALES, "lake/sales2/x", "s3://b/lake/sales2"),
        (SALES, "lake/raw/2026/x", "s3://b/lake/raw"),
        (SALES, "lake/x", "s3://b/lake/x"),
        (SALES, "lake//sales/x", "s3://b/lake//sales"),
        (SALES, "//x", "s3://b///x"),
        (SALES, "raw/2026/x", "s3://b/raw"),
        (SALES, "lake/sales", "s3://b"),
        (SALES, "lake", "s3://b"),
        (SALES, "/", "s3://b"),
        (SALES, "lake/sales/../other/x", "s3://b"),
        (SALES, "raw/./x", "s3://b"),
        ("s3://b/lake/sales/nested", "lake/sales/data/x", "s3://b/lake/sales/data"),
        ("s3://b", "any/x", "s3://b"),
        ("s3://other/lake", "lake/x", "s3://b"),
        ("gs://b/lake", "lake/x", "s3://b"),
    ],
)
def test_the_place_of_an_object(namespace: str, key: str, place: str) -> None:
    assert place_of(namespace, "s3://b", key) == place
    Trust("demo", namespace, (place,)).check("s3://b", key)


@pytest.mark.parametrize(
    ("allowed", "key"),
    [
        ((), "lake/sales2/x"),
        ((), "lake/x"),
        ((), "lake/sales"),
        ((), "lake/sales/../x"),
        ((), "x"),
        (("s3://b/raw",), "raw2/x"),
        (("s3://b/raw",), "raw/../lake/other/x"),
        (("s3://b/raw", "s3://c"), "x"),
        (("s3://b/raw/x",), "raw/xy"),
    ],
)
def test_what_no_place_covers_is_refused(allowed: tuple[str, ...], key: str) -> None:
    with pytest.raises(OutsideAddress, match="not allowed"):
        Trust("demo", SALES, allowed).check("s3://b", key)


@pytest.mark.parametrize("key", ["data/x", "nested/x", "a b/x"])
def test_the_namespace_of_a_whole_bucket_covers_it(key: str) -> None:
    Trust("demo", "s3://b").check("s3://b", key)


def test_azure_containers_are_buckets() -> None:
    trust = Trust("demo", "az://acc1/box/lake")
    trust.check("az://acc1/box", "lake/x")
    with pytest.raises(OutsideAddress) as refused:
        trust.check("az://acc1/box", "team/x")
    assert refused.value.hint is not None
    assert "trust.addresses az://acc1/box/team" in refused.value.hint
    with pytest.raises(OutsideAddress):
        trust.check("az://acc1/boxes", "lake/x")


@pytest.mark.parametrize(
    ("address", "bucket", "key"),
    [
        ("s3://bucket/a/b.csv", "s3://bucket", "a/b.csv"),
        ("S3://bucket/a", "s3://bucket", "a"),
        ("s3://bucket//a//b/", "s3://bucket", "/a//b/"),
        ("s3://bucket/100%25 #?", "s3://bucket", "100%25 #?"),
        ("gs://bucket/a/b", "gs://bucket", "a/b"),
        ("az://account/container/a/b", "az://account/container", "a/b"),
        (
            "https://account.blob.core.windows.net/container/a%20b//c",
            "az://account/container",
            "a b//c",
        ),
        ("local:///data/files/a.csv", "local:///data/files", "a.csv"),
    ],
)
def test_an_address_is_a_bucket_and_a_key(address: str, bucket: str, key: str) -> None:
    assert split_address(address) == (bucket, key)


@pytest.mark.parametrize("address", ["ftp://host/a", "s3:///a", "nowhere"])
def test_an_address_of_no_store_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        split_address(address)


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("in/f.csv", "s3://raw/in"),
        ("in/2026/f.csv", "s3://raw/in/2026"),  # allowed as it is
        ("other/f.csv", "s3://raw/other"),
        ("f.csv", "s3://raw"),
        ("/f.csv", "s3://raw"),
        ("in/../f.csv", "s3://raw"),
        ("../f.csv", "s3://raw"),
    ],
)
def test_the_place_that_is_named_is_no_wider_than_needed(key: str, place: str) -> None:
    trust = Trust("demo", "s3://b/ns", ("s3://raw/in/2026",))
    assert trust.place_to_allow("s3://raw", key) == place
    with pytest.raises(OutsideAddress) if place != "s3://raw/in/2026" else nullcontext():
        trust.check("s3://raw", key)
    trust._replace(allowed=(place,)).check("s3://raw", key)


def test_a_link_out_of_an_allowed_directory_is_refused_for_where_it_leads(tmp_path: Path) -> None:
    for name in ("allowed", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside/file").write_text("x")
    (tmp_path / "allowed/link").symlink_to(tmp_path / "outside/file")
    allowed, outside = f"local://{tmp_path}/allowed", f"local://{tmp_path}/outside"
    trust = Trust("demo", f"local://{tmp_path}/ns", (allowed,))
    with pytest.raises(OutsideAddress, match=f"not allowed: {outside}$") as raised:
        trust.check(allowed, "link")
    command = f"`config set repo.demo.trust.addresses '{allowed} {outside}'`"
    assert str(raised.value.hint).endswith(command)
    trust._replace(allowed=(allowed, outside)).check(allowed, "link")
