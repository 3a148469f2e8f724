"""Exports to buckets: S3, Google Cloud Storage and Azure, each with its emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import CONTENT_ENCODING, Entry
from lakecli.committed.values import encode_entry
from lakecli.engine.runner import LocalRunner
from lakecli.errors import Refused
from lakecli.exports import export_part
from lakecli.exports.run import ExportOptions, export
from lakecli.exports.target import IDENTITY
from lakecli.repository import repo
from lakecli.repository.commit import commit
from lakecli.repository.reading.addresses import remember
from lakecli.repository.staged.stager import Stager
from lakecli.stores.capabilities import copy_across
from lakecli.stores.contract import ANY, Attributes, BucketNotFound
from lakecli.stores.registry import open_store
from tests.support.azurite import ACCOUNT, new_container
from tests.support.gcs import new_gcs_bucket
from tests.support.lakes import START, entry_of, open_lake, stage, stage_entries, unclaimed
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.exports.run import ExportReport
    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectStore

LARGE = b"0123456789abcdef" * (9 << 16)


@pytest.fixture(params=["s3", "gs", "az"])
def buckets(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The URIs of two buckets of one store."""
    if request.param == "s3":
        endpoint = request.getfixturevalue("moto_endpoint")
        environment = request.getfixturevalue("aws_environment")
        environment.setenv("AWS_ENDPOINT_URL", endpoint)
        return f"s3://{new_bucket(endpoint)}", f"s3://{new_bucket(endpoint)}"
    if request.param == "gs":
        server = request.getfixturevalue("gcs_server")
        request.getfixturevalue("gcs_environment")
        return f"gs://{new_gcs_bucket(server)}", f"gs://{new_gcs_bucket(server)}"
    url = request.getfixturevalue("azurite")
    request.getfixturevalue("azure_environment")
    containers = new_container(url), new_container(url)
    first, second = (f"az://{ACCOUNT}/{name}" for name in containers)
    return first, second


@pytest.fixture
def repository(tmp_path: Path, buckets: tuple[str, str]) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        made = repo.create(lake, "demo", f"{buckets[0]}/lake", range_entries=16)
        put(made, {f"t/day={n}/p".encode(): f"{n}".encode() for n in range(40)})
        described = Entry(
            entry_of(LARGE).physical_address,
            len(LARGE),
            entry_of(LARGE).checksum,
            START,
            "application/x-large",
            {"owner": "ada", "::lakefs::client-mtime": "1"},
        )
        made.store.put_new(described.physical_address, LARGE)
        Stager(made, "main").write(unclaimed([(b"t/large", encode_entry(described))]), kind="test")
        commit(made, "main", message="large", committer="me")
        yield made


def put(repository: Repository, contents: dict[bytes, bytes | None]) -> str:
    for data in contents.values():
        if data is not None:
            repository.store.put_new(entry_of(data).physical_address, data)
    stage(repository, "main", contents)
    return commit(repository, "main", message="more", committer="me").id


def run(repository: Repository, target: str, **options: Any) -> ExportReport:
    options = {"threads": 8, **options}
    return export(
        repository, "main", b"t/", target, runner=LocalRunner(), options=ExportOptions(**options)
    )


def names(store: ObjectStore) -> set[str]:
    return {info.key for info in store.list() if not info.key.startswith("_lakecli_export_")}


def test_a_round(repository: Repository, buckets: tuple[str, str]) -> None:
    uri = f"{buckets[1]}/out"
    report = run(repository, uri)
    store = open_store(uri)
    assert report.outcome.failures == []
    assert names(store) == {"_SUCCESS", "large", *(f"day={n}/p" for n in range(40))}
    assert store.get("day=7/p") == b"7"
    assert store.get("large") == LARGE
    assert store.head("day=7/p").content_type == "text/plain"
    assert report.outcome.by_store.count == 1
    head = store.head("large")
    assert head.content_type == "application/x-large"
    assert head.metadata["owner"] == "ada"
    assert not any("lakefs" in key for key in head.metadata)

    again = run(repository, uri).outcome
    assert (again.new.count, again.changed.count, again.unchanged.count) == (0, 0, 41)

    since = report.commit_id
    put(repository, {b"t/day=3/p": None, b"t/day=4/p": b"four", b"t/day=40/p": b"40"})
    report = run(repository, uri, since=since)
    assert report.since_was_exported
    outcome = report.outcome
    assert (outcome.new.count, outcome.changed.count, outcome.deleted.count) == (1, 1, 1)
    assert names(store) == {
        "_SUCCESS", "large", *(f"day={n}/p" for n in range(41) if n != 3)
    }  # fmt: skip
    assert store.get("day=4/p") == b"four"


@pytest.mark.parametrize("verify", [True, False])
def test_objects_are_served_as_at_their_source(
    repository: Repository, buckets: tuple[str, str], *, verify: bool
) -> None:
    """Of an object that was imported without its bytes, only its store knows that."""
    outside = open_store(f"{buckets[1]}/raw")
    served = Attributes("text/x-log", {"not": "kept"}, "gzip")
    outside.put("a.csv", b"zipped", ANY, served)
    external = Entry(f"{outside.uri}/a.csv", 6, outside.head("a.csv").etag, START)
    own = entry_of(b"0")._replace(content_type="text/own", metadata={CONTENT_ENCODING: "br"})
    odd = entry_of(b"0")._replace(metadata={CONTENT_ENCODING: "no\tencoding"})
    typed = external._replace(content_type="text/mine", metadata={CONTENT_ENCODING: "zstd"})
    changes = {b"t/o": own, b"t/odd": odd, b"t/zero": external, b"t/typed": typed}
    remember(repository, [outside.uri])
    stage_entries(repository, "main", changes)
    commit(repository, "main", message="outside", committer="me")
    uri = f"{buckets[1]}/out"
    assert run(repository, uri, verify=verify).outcome.failures == []
    target = open_store(uri)
    described = {name: target.head(name) for name in ("o", "odd", "zero", "typed")}
    assert {
        name: (info.content_type, info.content_encoding) for name, info in described.items()
    } == {
        "o": ("text/own", "br"),
        "odd": (odd.content_type, ""),
        "zero": ("text/x-log", "gzip"),
        "typed": ("text/mine", "zstd"),
    }
    assert all(described[name].metadata.keys() == {IDENTITY} for name in ("o", "zero", "typed"))
    assert target.get("zero") == b"zipped"
    assert run(repository, uri, verify=verify).outcome.unchanged.count == 45


def test_a_damaged_object_is_not_exported(repository: Repository, buckets: tuple[str, str]) -> None:
    key = entry_of(LARGE).physical_address
    repository.store.put(key, LARGE[:-1] + b"!", ANY)
    repository.store.put(entry_of(b"5").physical_address, b"!", ANY)
    uri = f"{buckets[1]}/out"
    report = run(repository, uri)
    assert [each.path for each in report.outcome.failures] == [b"t/day=5/p", b"t/large"]
    assert names(open_store(uri)) == {f"day={n}/p" for n in range(40) if n != 5}


def test_large_objects_are_streamed_between_stores(
    repository: Repository, buckets: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_part, "can_copy", lambda *_: False)
    uri = f"{buckets[1]}/out"
    report = run(repository, uri)
    assert report.outcome.by_store.count == 0
    assert open_store(uri).get("large") == LARGE
    repository.store.put(entry_of(LARGE).physical_address, LARGE[:-1] + b"!", ANY)
    report = run(repository, f"{buckets[1]}/other")
    assert [each.path for each in report.outcome.failures] == [b"t/large"]
    assert "large" not in names(open_store(f"{buckets[1]}/other"))


def test_without_reading(repository: Repository, buckets: tuple[str, str]) -> None:
    outcome = run(repository, f"{buckets[0]}/beside", verify=False).outcome
    assert outcome.by_store.count == 41
    assert open_store(f"{buckets[0]}/beside").get("day=9/p") == b"9"
    with pytest.raises(Refused, match="own storage namespace"):
        run(repository, f"{buckets[0]}/lake/out")


def test_copies_by_the_store_have_the_metadata(buckets: tuple[str, str]) -> None:
    source, target = open_store(f"{buckets[0]}/a b"), open_store(f"{buckets[1]}/c")
    source.put("x y%2f+ü", b"body", ANY, Attributes("text/old", {"old": "1"}))
    assert copy_across(source, "x y%2f+ü", target, "k/é ?#", Attributes(metadata={"new": "2"}))
    assert target.get("k/é ?#") == b"body"
    assert dict(target.head("k/é ?#").metadata) == {"new": "2"}
    assert copy_across(source, "x y%2f+ü", target, "k2", Attributes("text/new", {"n": "2"}))
    assert target.head("k2").content_type == "text/new"
    assert not copy_across(source, "x", open_store("/tmp/x"), "x")


def test_names_too_long_for_the_destination_fail(
    repository: Repository, buckets: tuple[str, str]
) -> None:
    name = b"t/" + b"n" * 1_000
    put(repository, {name: b"long"})
    uri = f"{buckets[1]}/" + "p" * 100
    report = run(repository, uri)
    assert [each.path for each in report.outcome.failures] == [name]
    assert "longer" in report.outcome.failures[0].why


def test_a_missing_bucket_is_an_error(repository: Repository, buckets: tuple[str, str]) -> None:
    with pytest.raises(BucketNotFound):
        run(repository, f"{buckets[1]}missing/out")
