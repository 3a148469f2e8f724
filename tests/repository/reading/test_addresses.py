from __future__ import annotations

import pytest

from lakecli.errors import UsageError
from lakecli.repository.reading.addresses import split_address


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
