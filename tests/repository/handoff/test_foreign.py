from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.errors import IntegrityError, NotFound, Refused, UsageError
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.handoff.incoming import record_object
from lakecli.repository.reading.contents import read_object
from lakecli.repository.stat import stat

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.model import Entry
    from lakecli.repository.contract import Repository


def record(repository: Repository, location: str, **options: Any) -> Entry:
    given: dict[str, Any] = {
        "size": 5,
        "checksum": "an-etag",
        "modified_at": None,
        "content_type": None,
        "metadata": {},
        **options,
    }
    return record_object(repository, "main", b"a.csv", location=location, **given)


def test_an_external_object_is_staged(repository: Repository) -> None:
    at = datetime(2020, 1, 2, tzinfo=UTC)
    entry = record(
        repository, "s3://other/dir//key", modified_at=at, metadata={"k": "v"}, content_type="x/y"
    )
    assert entry == stat(repository, "main", b"a.csv")
    assert entry.physical_address == "s3://other/dir//key"
    assert (entry.size, entry.checksum, entry.modified_at) == (5, "an-etag", at)
    assert (entry.content_type, entry.metadata) == ("x/y", {"k": "v"})
    assert record(repository, "s3://other/key").content_type == "text/csv"


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("S3://other/key", "s3://other/key"),
        ("gs://other/key", "gs://other/key"),
        ("https://account.blob.core.windows.net/container/a%20b", "az://account/container/a b"),
    ],
)
def test_locations_have_one_spelling(repository: Repository, location: str, address: str) -> None:
    assert record(repository, location).physical_address == address


def test_a_file_can_be_read_afterwards(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_bytes(b"hello")
    digest = blake3_of(b"hello").hex()
    entry = record(repository, str(tmp_path / "elsewhere" / "f"), checksum=digest)
    assert entry.physical_address == f"local://{tmp_path}/elsewhere/f"
    assert b"".join(read_object(repository, entry)) == b"hello"
    opaque = record(repository, str(tmp_path / "elsewhere" / "f"))
    with pytest.raises(IntegrityError, match="cannot be verified"):
        b"".join(read_object(repository, opaque))


def test_the_namespace_itself_is_refused(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "namespace")
    for place in ("namespace/data/aa/bb", "namespace//data", "link/data/x", "namespace"):
        with pytest.raises(Refused, match="inside the storage namespace"):
            record(repository, f"local://{tmp_path}/{place}")
    assert record(repository, f"local://{tmp_path}/namespaces/x").size == 5


def test_the_namespace_is_refused_in_buckets_too(repository: LocalRepository) -> None:

    repository.record = repository.record._replace(storage_namespace="s3://bucket/ns")
    for location in ("s3://bucket/ns/data/x", "s3://bucket/ns//x", "S3://bucket/ns/"):
        with pytest.raises(Refused):
            record(repository, location)
    for location in ("s3://bucket/nsx/a", "s3://bucket/n", "s3://other/ns/a", "gs://bucket/ns/a"):
        assert record(repository, location).size == 5


@pytest.mark.parametrize(
    "location", ["", "a.csv", "s3://bucket", "s3://bucket/", "ftp://h/a", "s3://"]
)
def test_an_unsupported_location_is_refused(repository: Repository, location: str) -> None:
    with pytest.raises(UsageError):
        record(repository, location)


def test_a_missing_branch_is_not_found(repository: Repository) -> None:
    with pytest.raises(NotFound):
        record_object(
            repository,
            "nowhere",
            b"a",
            location="s3://b/k",
            size=1,
            checksum="e",
            modified_at=None,
            content_type=None,
            metadata={},
        )


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket/key?X-Amz-Signature=SECRET",
        "s3://bucket/key#SECRET",
        "gs://bucket/key?SECRET",
        "az://account/container/key?sig=SECRET",
        "https://account.blob.core.windows.net/container/key?sig=SECRET",
        "s3://user:SECRET@bucket/key",
        "https://SECRET@account.blob.core.windows.net/container/key",
        "local:///tmp/x?SECRET",
    ],
)
def test_locations_with_secrets_are_refused(repository: Repository, location: str) -> None:
    with pytest.raises(UsageError) as refused:
        record(repository, location)
    assert "SECRET" not in refused.value.message + (refused.value.hint or "")
    with pytest.raises(NotFound):
        stat(repository, "main", b"a.csv")
