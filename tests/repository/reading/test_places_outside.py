"""Places outside a storage namespace: which object needs which, and what an allowed one covers."""

from __future__ import annotations

import pytest

from lakecli.repository.reading.addresses import OutsideAddress, Trust, place_of

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
