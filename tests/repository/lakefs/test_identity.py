"""An upload recognises the objects of lakeFS by their MD5, and keeps their entries."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import CLIENT_MTIME
from lakecli.committed.values import decode_entry
from lakecli.repository.commit import commit
from lakecli.repository.diff import diff_uncommitted
from lakecli.repository.download_tree import download_tree
from lakecli.repository.reading.addresses import Resolver
from lakecli.repository.reading.view import open_view
from lakecli.repository.transfer.ingest import SMALL
from lakecli.repository.transfer.plan import PathAction, PathStep
from lakecli.repository.upload import (
    UploadOptions,
    deposit,
    stage_together,
    upload_file,
    upload_stream,
)
from lakecli.repository.upload_tree import upload_tree
from lakecli.stores.contract import ANY
from tests.repository.lakefs.test_restore import files
from tests.support.lakefs_entries import address_of, lakefs_value, stage_lakefs, stage_values

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

SMALL_DATA = b"a few bytes"
LARGE_DATA = bytes(range(256)) * (SMALL // 128)  # 2 MiB
OPTIONS = UploadOptions()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecli.repository.transfer.multipart_upload.PART_SIZE", 1 << 20)


def values_of(repository: Repository, ref: str) -> dict[bytes, bytes]:
    with open_view(repository, ref) as view:
        return dict(view.scan())


def uncommitted(repository: Repository) -> list[bytes]:
    with diff_uncommitted(repository, "main") as changes:
        return [each.path for each in changes]


def test_uploading_what_was_downloaded_changes_nothing(
    borrowed: Repository, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    downloaded = download_tree(borrowed, "main", b"", target=target)
    too_long = [path for path, _ in downloaded.failures]  # a name that no disk has
    assert [len(path) for path in too_long] == [1024]
    again = download_tree(borrowed, "main", b"", target=target)
    assert (again.downloaded, again.unchanged) == (0, downloaded.downloaded)
    before = files(tmp_path / "foreign")
    overlay = files(tmp_path / "objects") if (tmp_path / "objects").exists() else {}
    entries = values_of(borrowed, "main")
    count = sum(not path.endswith(b"/") and path not in too_long for path in entries)
    steps: list[PathStep] = []
    upload_tree(borrowed, "main", b"", source=target, options=OPTIONS, listed=steps.append)
    assert [step.action for step in steps] == [PathAction.UNCHANGED] * count
    report = upload_tree(borrowed, "main", b"", source=target, options=OPTIONS)
    assert (report.uploaded, report.unchanged) == (0, count)
    assert uncommitted(borrowed) == []
    assert values_of(borrowed, "main") == entries
    assert files(tmp_path / "foreign") == before
    if overlay:
        assert files(tmp_path / "objects") == overlay


WAYS: dict[str, Callable[[Repository, Path, UploadOptions], object]] = {
    "file": lambda repository, source, options: upload_file(
        repository, "main", b"f.csv", source=source / "f.csv", options=options
    ),
    "tree": lambda repository, source, options: upload_tree(
        repository, "main", b"", source=source, options=options
    ),
    "stream": lambda repository, source, options: upload_stream(
        repository, "main", b"f.csv", source=io.BytesIO(_data(source)), options=options
    ),
    "file handle": lambda repository, source, options: stage_together(
        repository,
        "main",
        {
            b"f.csv": deposit(
                repository, "main", b"f.csv", source=io.BytesIO(_data(source)), options=options
            )
        },
        kind="test",
    ),
    "spooled file": lambda repository, source, options: stage_together(
        repository,
        "main",
        {b"f.csv": deposit(repository, "main", b"f.csv", source=source / "f.csv", options=options)},
        kind="test",
    ),
}


def _data(source: Path) -> bytes:
    return (source / "f.csv").read_bytes()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    return path


def write(source: Path, data: bytes) -> None:
    path = source / "f.csv"
    path.write_bytes(data)
    os.utime(path, (1_600_000_000, 1_600_000_000))  # old enough to be remembered


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the namespace is; a bucket is asked for first, so that the repository is in it."""
    if request.param == "bucket":
        request.getfixturevalue("bucket")
    return str(request.param)


@pytest.mark.parametrize("data", [b"", SMALL_DATA, LARGE_DATA], ids=["empty", "small", "large"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_uploading_keeps_the_entry_of_the_same_bytes(
    place: str, repository: Repository, source: Path, way: str, data: bytes
) -> None:
    del place
    metadata = {"user": "said", "::lakefs::client-mtime": "1"}
    stage_values(repository, "main", {b"f.csv": lakefs_value(data, metadata=metadata)})
    repository.store.put(address_of(data), data, ANY)
    commit(repository, "main", message="m", committer="c")
    before = values_of(repository, "main")
    write(source, data)
    keys = {each.key for each in repository.store.list("data/")}
    for _ in range(2):  # with the cache of hashes as well
        WAYS[way](repository, source, OPTIONS)
        assert uncommitted(repository) == []
    assert values_of(repository, "main") == before
    assert {each.key for each in repository.store.list("data/")} == keys


@pytest.mark.parametrize("data", [SMALL_DATA, LARGE_DATA], ids=["small", "large"])
@pytest.mark.parametrize("way", WAYS)
def test_other_bytes_of_the_same_size_are_uploaded(
    place: str, repository: Repository, source: Path, way: str, data: bytes
) -> None:
    del place
    stage_lakefs(repository, "main", {b"f.csv": data})
    write(source, data[::-1])
    WAYS[way](repository, source, OPTIONS)
    with open_view(repository, "main") as view:
        entry = view.entry(b"f.csv")
    assert len(entry.checksum) == 64
    assert repository.store.get(entry.physical_address) == data[::-1]


@pytest.mark.parametrize("data", [SMALL_DATA, LARGE_DATA], ids=["small", "large"])
@pytest.mark.parametrize("way", WAYS)
def test_an_object_that_is_lost_is_uploaded(
    place: str, repository: Repository, source: Path, way: str, data: bytes
) -> None:
    del place
    stage_lakefs(repository, "main", {b"f.csv": data})
    repository.store.delete([address_of(data)])
    write(source, data)
    WAYS[way](repository, source, OPTIONS)
    with open_view(repository, "main") as view:
        assert repository.store.get(view.entry(b"f.csv").physical_address) == data


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("options", "keeps"),
    [
        (UploadOptions(content_type="text/x", metadata={"k": "v"}), True),
        (UploadOptions(content_type="text/y"), False),
        (UploadOptions(metadata={"k": "w"}), False),
        (UploadOptions(metadata={"k": "v", "more": ""}), False),
        (UploadOptions(metadata={"k": "v", CLIENT_MTIME: "7"}), True),
    ],
)
def test_a_type_and_metadata_that_are_asked_for_must_agree(
    repository: Repository, source: Path, way: str, options: UploadOptions, *, keeps: bool
) -> None:
    value = lakefs_value(SMALL_DATA, content_type="text/x", metadata={"k": "v"})
    stage_values(repository, "main", {b"f.csv": value})
    repository.store.put(address_of(SMALL_DATA), SMALL_DATA, ANY)
    write(source, SMALL_DATA)
    WAYS[way](repository, source, options)
    assert (values_of(repository, "main")[b"f.csv"] == value) == keeps


@pytest.mark.parametrize("is_changed", [False, True])
def test_an_object_outside_is_recognised_while_its_store_reports_the_same_md5(
    repository: Repository, source: Path, monkeypatch: pytest.MonkeyPatch, *, is_changed: bool
) -> None:
    value = lakefs_value(SMALL_DATA, address="s3://elsewhere/f")
    stage_values(repository, "main", {b"f.csv": value})
    write(source, SMALL_DATA)
    store = repository.store
    store.put("f", SMALL_DATA, ANY)
    checksum = "0" * 32 if is_changed else decode_entry(value).checksum

    class Outside:
        def head(self, key: str) -> object:
            return store.head(key)._replace(etag=f'"{checksum}"')

    monkeypatch.setattr(Resolver, "locate", lambda _self, _address: (Outside(), "f"))
    WAYS["file"](repository, source, OPTIONS)
    assert (values_of(repository, "main")[b"f.csv"] == value) == (not is_changed)


def test_an_object_outside_that_may_not_be_read_is_uploaded(
    repository: Repository, source: Path
) -> None:
    value = lakefs_value(SMALL_DATA, address="s3://elsewhere/f")
    stage_values(repository, "main", {b"f.csv": value})
    write(source, SMALL_DATA)
    WAYS["file"](repository, source, OPTIONS)
    assert values_of(repository, "main")[b"f.csv"] != value


def test_bytes_that_the_namespace_has_under_their_blake3_change_nothing(
    repository: Repository, source: Path
) -> None:
    """The cache of hashes knows the file, and the namespace an object of it."""
    write(source, LARGE_DATA)
    upload_file(repository, "main", b"other", source=source / "f.csv", options=OPTIONS)
    values = stage_lakefs(repository, "main", {b"f.csv": LARGE_DATA})
    WAYS["file"](repository, source, OPTIONS)
    assert values_of(repository, "main")[b"f.csv"] == values[b"f.csv"]


def test_an_upload_answers_with_the_entry_that_it_keeps(
    repository: Repository, source: Path
) -> None:
    values = stage_lakefs(repository, "main", {b"f.csv": SMALL_DATA})
    write(source, SMALL_DATA)
    entry = upload_file(repository, "main", b"f.csv", source=source / "f.csv", options=OPTIONS)
    assert entry == decode_entry(values[b"f.csv"])
