"""Bucket prefixes as sources: S3 by moto, and the division of a listing."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.identity import blake3_of
from lakecli.base.model import CLIENT_MTIME, CONTENT_ENCODING
from lakecli.committed.values import decode_entry
from lakecli.engine.runner import LocalRunner
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import IntegrityError, NotFound, NothingToDo
from lakecli.fsck.check import fsck
from lakecli.fsck.findings import FsckCounts
from lakecli.imports import bucket as buckets
from lakecli.imports import manifest as manifests
from lakecli.imports.address_checks import Verify
from lakecli.imports.bucket import BucketSource, KeyRange, divide
from lakecli.imports.job import ListedLess, import_objects
from lakecli.imports.report import ImportOptions, ImportReport
from lakecli.imports.sources import open_source
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.view import open_view
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.stores.capabilities import versions_of
from lakecli.stores.contract import ANY, Attributes
from lakecli.stores.registry import open_store
from lakecli.stores.s3.store import S3Store
from tests.imports.lists import inventory_manifest, inventory_row, write_csv
from tests.support.lakes import make_repository, open_lake
from tests.support.memory_store import MemoryStore
from tests.support.recorded_progress import Interrupting, RecordedProgress
from tests.support.servers import ACCESS_KEY, SECRET_KEY, new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.base.model import Entry
    from lakecli.engine.runner import Runner
    from lakecli.imports.model import Task
    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectInfo, ObjectStore

OBJECTS = {f"dir {n % 3}/é{n:02d}.txt": b"%d" % n for n in range(40)} | {"a": b"", "z/": b"1"}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


@pytest.fixture
def bucket(
    moto_endpoint: str, aws_environment: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return new_bucket(moto_endpoint)


@pytest.fixture
def source(bucket: str) -> ObjectStore:
    """A prefix with objects, and other objects whose keys begin like it."""
    store = open_store(f"s3://{bucket}/data")
    for key, body in OBJECTS.items():
        store.put(key, body, ANY)
    open_store(f"s3://{bucket}").put("database/x", b"no", ANY)
    return store


def run(
    repository: Repository, uri: str, runner: Runner | None = None, **options: Any
) -> ImportReport:
    return import_objects(
        repository,
        "main",
        b"in",
        source=open_source(repository, uri, links=LinkPolicy.FAIL),
        runner=runner or LocalRunner(parallelism=4),
        committer="c",
        options=ImportOptions(**options),
    )


def entries(repository: Repository) -> dict[str, Entry]:
    with open_view(repository, "main") as view:
        return {path.decode(): decode_entry(value) for path, value in view.scan()}


def test_zero_copy(repository: Repository, source: ObjectStore) -> None:
    report = run(repository, source.uri)
    assert report.tally.objects == len(OBJECTS)
    found = entries(repository)
    assert {path.removeprefix("in/") for path in found} == set(OBJECTS)
    entry = found["in/dir 1/é01.txt"]
    assert entry.physical_address == f"{source.uri}/dir 1/é01.txt"
    info = source.head("dir 1/é01.txt")
    assert entry.checksum == info.etag.strip('"') != ""
    assert entry.size == info.size
    assert entry.modified_at == info.modified_at.replace(microsecond=0)
    assert entry.content_type == ""


def test_pinning_works_in_parts(
    repository: Repository, moto_endpoint: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts of a listing of versions are complete, without old versions and delete markers."""
    del bucket
    store = open_store(f"s3://{new_bucket(moto_endpoint, keeps_versions=True)}/data")
    for _ in range(2):
        for key, body in OBJECTS.items():
            store.put(key, body, ANY)
    store.put("gone", b"", ANY)
    store.delete(["gone"])
    monkeypatch.setattr(buckets, "FIRST_PAGES", 5)
    monkeypatch.setattr(buckets, "LISTING_PARTS", 6)
    monkeypatch.setattr("lakecli.stores.s3.reading.PAGE_SIZE", 7)
    report = run(repository, store.uri, pins=True)
    assert report.parts > 3
    current = {info.key: version for info, version in versions_of(store).list_versions()}
    assert current.keys() == OBJECTS.keys()
    assert {path: entry.physical_address for path, entry in entries(repository).items()} == {
        f"in/{key}": f"{store.uri}/{key}?versionId={version}" for key, version in current.items()
    }


def test_pins_of_an_earlier_run_are_used_only_while_current(
    repository: Repository, moto_endpoint: str, bucket: str
) -> None:
    del bucket
    store = open_store(f"s3://{new_bucket(moto_endpoint, keeps_versions=True)}/data")
    store.put("a", b"same", ANY)

    with pytest.raises(KeyboardInterrupt):
        run(repository, store.uri, pins=True, progress=Interrupting(1))
    store.put("a", b"same", ANY)
    assert run(repository, store.uri, pins=True).resumed == 0
    ((_, version),) = versions_of(store).list_versions()
    assert entries(repository)["in/a"].physical_address == f"{store.uri}/a?versionId={version}"


def test_copies(repository: Repository, source: ObjectStore) -> None:
    run(repository, source.uri, copies=True)
    for key, body in OBJECTS.items():
        entry = entries(repository)[f"in/{key}"]
        assert entry.checksum == blake3_of(body).hex()
        assert repository.store.get(entry.physical_address) == body
    assert entries(repository)["in/dir 1/é01.txt"].content_type == "text/plain"


def test_copies_keep_how_the_source_serves_them(
    repository: Repository, source: ObjectStore
) -> None:
    source.put("log.csv", b"zipped", ANY, Attributes("text/x-log", content_encoding="gzip"))
    source.put("untyped.csv", b"1", ANY, Attributes("binary/octet-stream"))
    source.put("framed.csv", b"2", ANY, Attributes(content_encoding="aws-chunked,br"))
    run(repository, source.uri, copies=True)
    found = entries(repository)
    entry = found["in/log.csv"]
    assert (entry.content_type, entry.content_encoding) == ("text/x-log", "gzip")
    assert CLIENT_MTIME in entry.metadata
    assert found["in/untyped.csv"].content_type == "text/csv"
    assert found["in/untyped.csv"].metadata.keys() == {CLIENT_MTIME}
    assert found["in/framed.csv"].metadata[CONTENT_ENCODING] == "br"
    with pytest.raises(NothingToDo):
        run(repository, source.uri, copies=True)


def test_in_parts(
    repository: Repository, source: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(repository, source.uri)
    monkeypatch.setattr(buckets, "FIRST_PAGES", 5)
    monkeypatch.setattr(buckets, "LISTING_PARTS", 6)
    parts = run(repository, source.uri, allow_empty=True)
    assert parts.parts > 3
    assert parts.commit is not None
    assert whole.commit is not None
    assert parts.commit.metarange_id == whole.commit.metarange_id
    assert parts.tally.unchanged == len(OBJECTS)


def test_a_misspelled_prefix_removes_nothing(repository: Repository, source: ObjectStore) -> None:
    run(repository, source.uri)
    before = entries(repository)
    with pytest.raises(NotFound, match=r"no object at .*/dat/"):
        run(repository, source.uri.removesuffix("a"))
    assert entries(repository) == before


@pytest.mark.parametrize("change", [False, True])
def test_a_finished_part_is_listed_again(
    repository: Repository,
    source: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    change: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(buckets, "FIRST_PAGES", 5)
    monkeypatch.setattr(buckets, "LISTING_PARTS", 6)
    with pytest.raises(KeyboardInterrupt):
        run(repository, source.uri, LocalRunner(), progress=Interrupting(3))
    if change:
        source.put("a", b"other now", ANY)
    progress = RecordedProgress()
    report = run(repository, source.uri, LocalRunner(), progress=progress)
    assert 3 < progress.parts == progress.parts_expected == report.parts
    assert report.resumed == (2 if change else 3)
    assert entries(repository)["in/a"].size == (9 if change else 0)


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_an_inventory(repository: Repository, bucket: str, tmp_path: Path, partition: str) -> None:
    found = [inventory_row(f"k{n}", n) for n in range(10)]
    store = open_store(f"s3://{bucket}/inv")
    store.put(
        "data/1.csv.gz", write_csv(tmp_path / "1.csv.gz", found, header=False).read_bytes(), ANY
    )
    manifest = inventory_manifest(
        found, ["inv/data/1.csv.gz"], destinationBucket=f"arn:{partition}:s3:::{bucket}"
    )
    store.put("2026/manifest.json", manifest, ANY)
    run(repository, f"s3://{bucket}/inv/2026/manifest.json", verify=Verify.NONE)
    assert entries(repository)["in/k3"].physical_address == "s3://source/k3"


def test_a_manifest_that_is_replaced_meanwhile_is_not_imported(
    repository: Repository, source: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = b"path,uri,size,etag\n"
    source.put("x.csv", names + b"a,s3://b/a,1,e\n" * 2_000, ANY)
    found = open_source(repository, f"{source.uri}/x.csv", links=LinkPolicy.FAIL)
    assert isinstance(found, manifests.Manifest)
    (file,) = found.files
    with manifests.opened(file) as stream:
        assert len(stream.read()) == file.size
    monkeypatch.setattr(manifests, "READ_AHEAD", 16)
    with manifests.opened(file) as stream:
        assert stream.read(len(names)) == names
        source.put("x.csv", names + b"b,s3://b/b,1,e\n" * 2_000, ANY)
        with pytest.raises(IntegrityError, match="changed while it was read"):
            stream.read(100)
    with pytest.raises(IntegrityError, match="changed while it was read"):
        list(found.pieces()[0][0].rows(0))


def test_a_namespace_in_the_same_bucket(tmp_path: Path, source: ObjectStore) -> None:
    """Beside the source, then around it, then below it."""
    from lakecli.errors import Refused
    from lakecli.repository import repo

    bucket = source.uri.rsplit("/", 1)[0]
    with open_lake(tmp_path) as lake:
        beside = repo.create(lake, "beside", f"{bucket}/data-base", range_entries=16)
        run(beside, source.uri)
        with pytest.raises(Refused, match="contains the repository's own namespace"):
            run(beside, bucket)
        with pytest.raises(Refused, match="lies in the repository's own namespace"):
            run(beside, f"{bucket}/data-base/data")


@pytest.mark.xdist_group("spark")
def test_on_spark(
    repository: Repository,
    source: ObjectStore,
    spark: Any,
    spark_environment: Callable[[str, str], None],
    moto_endpoint: str,
) -> None:
    for name, text in {
        "AWS_ENDPOINT_URL": moto_endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }.items():
        spark_environment(name, text)
    first = run(repository, source.uri)
    again = run(repository, source.uri, SparkRunner(spark), allow_empty=True)
    assert first.commit is not None
    assert again.commit is not None
    assert first.commit.metarange_id == again.commit.metarange_id
    copied = run(repository, source.uri, SparkRunner(spark), copies=True)
    assert copied.tally.changed == len(OBJECTS)


def filled(keys: list[str]) -> MemoryStore:
    store = MemoryStore(prefix=uuid4().hex + "/")
    for key in keys:
        store.put(key, b"", ANY)
    return store


SHAPES = {
    "flat": [f"file-{n:06d}" for n in range(3_000)],
    "dated": [f"y={y}/m={m:02d}/{n:03d}" for y in range(2020, 2024) for m in range(1, 13)
              for n in range(70)],
    "hashed": [f"data/{blake3_of(b'%d' % n).hex()}" for n in range(3_000)],
    "deep": ["a/b/c/d/e/" + f"{n:05d}" for n in range(3_000)],
    "one large directory": ["a", "b", *[f"m/{n:05d}" for n in range(3_000)], "z"],
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_listing_is_split_evenly(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "FIRST_PAGES", 40)
    keys = sorted(SHAPES[shape])
    pieces = divide(filled(keys), KeyRange("", ""), 16)
    bounds = [piece.low for piece in pieces]
    assert bounds == sorted(set(bounds))
    sizes = [
        sum(low <= key < high for key in keys) for low, high in pairwise([*bounds, "\U0010ffff"])
    ]
    assert sum(sizes) == len(keys)
    assert 6 <= len(sizes) <= 40
    assert max(sizes) <= len(keys) / 3


def test_a_short_listing_is_not_split() -> None:
    assert divide(filled(SHAPES["flat"]), KeyRange("", ""), 16) == [KeyRange("", "", 3_000)]


@given(
    keys=st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)),
    wanted=st.integers(2, 5),
)
def test_parts_are_the_whole_listing(keys: set[str], wanted: int) -> None:
    store = filled(sorted(keys))
    before = buckets.FIRST_PAGES
    buckets.FIRST_PAGES = 3  # type: ignore[misc]
    try:
        divided = divide(store, KeyRange("", ""), wanted)
    finally:
        buckets.FIRST_PAGES = before  # type: ignore[misc]
    found = [
        info.key
        for piece in divided
        for info, _ in buckets.list_between(store, piece.low, piece.high)
    ]
    assert found == [info.key for info in store.list()]


def test_reading_what_was_imported(repository: Repository, source: ObjectStore) -> None:
    run(repository, source.uri)
    entry = entries(repository)["in/dir 1/é01.txt"]
    assert b"".join(read_object(repository, entry)) == b"1"


def test_a_source_that_lacks_much_is_listed_twice(
    repository: Repository, source: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(repository, source.uri)
    before = read_all_paths(repository)
    real = type(source).list

    def list_(store: ObjectStore, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """List a part only, at first."""
        found = [*real(store, prefix, after=after)]
        return iter(found if is_whole else [each for each in found if each.key < "dir 2"])

    is_whole = False
    monkeypatch.setattr(type(source), "list", list_)
    real_count = BucketSource.recount

    def count(bucket: BucketSource, task: Task) -> int | None:
        nonlocal is_whole
        is_whole = True
        return real_count(bucket, task)

    monkeypatch.setattr(BucketSource, "recount", count)
    with pytest.raises(ListedLess, match="second listing"):
        run(repository, source.uri)
    assert read_all_paths(repository) == before


@pytest.mark.parametrize("kind", ["bucket", "directory"])
def test_what_was_deleted_in_a_source_is_removed_and_said(
    repository: Repository, source: ObjectStore, tmp_path: Path, kind: str
) -> None:
    uri = source.uri
    directory = tmp_path / "files"
    if kind == "directory":
        directory.mkdir()
        uri = str(directory)
    for number in range(10):
        if kind == "directory":
            (directory / f"f{number}").write_text(str(number))
    run(repository, uri, copies=kind == "directory")
    every = read_all_paths(repository)
    if kind == "directory":
        for number in range(5):
            (directory / f"f{number}").unlink()
    else:
        source.delete([each for each in OBJECTS if each.startswith("dir 1")])
    run(repository, uri, copies=kind == "directory")
    left = read_all_paths(repository)
    assert len(left) < len(every)
    assert f"lacks {len(every) - len(left)} of {len(every)} objects" in (
        repository.notices[-1].message
    )


def read_all_paths(repository: Repository) -> set[bytes]:
    repository.forget_trees()
    with open_view(repository, "main") as view:
        return {path for path, _ in view.scan()}


@pytest.mark.parametrize("manifest", [False, True])
def test_archived_objects_are_counted(
    repository: Repository, source: ObjectStore, bucket: str, tmp_path: Path, *, manifest: bool
) -> None:
    client = S3Store(bucket)._connection.client()
    client.put_object(Bucket=bucket, Key="data/cold", Body=b"cold", StorageClass="GLACIER")
    uri = source.uri
    if manifest:
        row = {"path": "cold", "physical_address": f"{uri}/cold", "size": 4}
        row["checksum"] = source.head("cold").etag.strip('"')
        uri = str(write_csv(tmp_path / "list.csv", [row]))
    report = run(repository, uri)
    assert report.tally.archived == 1
    counts = FsckCounts()
    assert not list(fsck(repository, counts=counts, external=True))
    assert (counts.external_archived, counts.external_asked) == (1, report.tally.objects)
    copied = run(repository, source.uri, copies=True)
    assert [failure.path for failure in copied.failures] == [b"in/cold"]
    assert "archived (GLACIER), restore it first" in copied.failures[0].why
