"""lakeFS's own clients, unmodified, against a real endpoint."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.serving.api.site import endpoint
from tests.support import lakes
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake

lakefs = pytest.importorskip("lakefs")

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def url(lake: Lake) -> Iterator[str]:
    with endpoint(lake) as found:
        yield found


@pytest.fixture
def client(url: str) -> Any:
    return client_for(url)


def client_for(url: str) -> Any:
    import lakefs.client as found

    made: Any = found
    return made.Client(host=url, username="KEY", password="secret")


@pytest.fixture
def main(client: Any) -> Any:
    return lakefs.Repository("demo", client=client).branch("main")


def paths(ref: Any) -> list[str]:
    return [each.path for each in ref.objects()]


def test_lakefs_reads_and_writes(main: Any) -> None:
    made = main.object("x/y.txt").upload(
        data=b"hello", mode="wb", content_type="text/plain", metadata={"a": "b"}
    )
    assert made.stat().metadata == {"a": "b"}
    assert made.exists()
    with made.reader(mode="rb") as reader:
        assert reader.read(2) == b"he"
        assert reader.read() == b"llo"
        assert reader.read(1) == b""
    with pytest.raises(FileExistsError):
        main.object("x/y.txt").upload(data=b"again", mode="xb")
    assert [(each.type, each.path) for each in main.uncommitted()] == [("added", "x/y.txt")]
    made = main.commit("first", metadata={"k": "v"}).get_commit()
    assert (made.message, made.metadata) == ("first", {"k": "v"})
    assert [each.message for each in main.log()] == ["first", "Repository created"]
    copied = main.object("x/y.txt").copy("main", "z")
    assert copied.reader().read() == b"hello"
    main.delete_objects(["z", "x/y.txt"])
    assert paths(main) == []
    main.reset_changes()
    assert paths(main) == ["x/y.txt"]


def test_lakefs_merges_and_reverts(client: Any, main: Any) -> None:
    main.object("a").upload(data=b"1")
    main.commit("one")
    dev = lakefs.Repository("demo", client=client).branch("dev").create("main")
    dev.object("a").upload(data=b"2")
    dev.commit("two")
    assert [(each.type, each.path) for each in main.diff(dev)] == [("changed", "a")]
    main.object("a").upload(data=b"3")
    main.commit("three")
    with pytest.raises(lakefs.exceptions.ConflictException):
        dev.merge_into(main)
    dev.merge_into(main, strategy="source-wins")
    assert main.object("a").reader(mode="rb").read() == b"2"
    main.revert("main", parent_number=1)
    assert main.object("a").reader(mode="rb").read() == b"3"


def test_lakefs_transaction(client: Any, main: Any) -> None:
    repository = lakefs.Repository("demo", client=client)
    main.object("old").upload(data=b"1")
    main.commit("old")
    with main.transact(commit_message="tx", tag="done") as tx:
        tx.object("new").upload(data=b"1")
        tx.delete_objects("old")
        assert [each.id for each in repository.branches()] == ["main"]
    assert paths(main) == ["new"]
    assert [each.id for each in repository.tags()] == ["done"]
    with pytest.raises(FileNotFoundError), main.transact() as tx:
        tx.object("never").reader().read()
    assert paths(main) == ["new"]
    assert [each.id for each in repository.branches(show_hidden=True)] == ["main"]


def test_lakefs_imports(main: Any, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "1").write_text("1")
    importing = main.import_data("taken").prefix(f"local://{tmp_path}/source/", "in/")
    importing.start()
    while not (status := importing.status()).completed:
        time.sleep(0.05)
    assert (status.ingested_objects, status.commit.message) == (1, "taken")
    assert paths(main) == ["in/1"]


def test_generated_client_uploads_a_form(client: Any, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "file").write_bytes(data)
    objects = client.sdk_client.objects_api
    made = objects.upload_object("demo", "main", "f", content=str(tmp_path / "file"))
    assert made.size_bytes == len(data)
    assert bytes(objects.get_object("demo", "main", "f")) == data


def test_delta_tables(main: Any, client: Any, url: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    pyarrow = pytest.importorskip("pyarrow")
    options = {
        "endpoint": url, "access_key_id": "KEY", "secret_access_key": "secret",
        "allow_http": "true",
    }  # fmt: skip
    table = pyarrow.table({"a": [1, 2, 3]})
    for mode in ("error", "append"):
        deltalake.write_deltalake(
            "lakefs://demo/main/tables/t", table, mode=mode, storage_options=options
        )
    found = deltalake.DeltaTable("lakefs://demo/main/tables/t", storage_options=options)
    assert (found.version(), found.to_pyarrow_table().num_rows) == (1, 6)
    messages = [each.message for each in main.log()]
    assert len(messages) == 3
    assert messages[0].startswith("Finished deltalake transaction")
    branches = lakefs.Repository("demo", client=client).branches(show_hidden=True)
    assert [each.id for each in branches] == ["main"]


def test_bucket_is_read_and_written_by_presigned_urls(
    tmp_path: Path, moto_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    from lakecli.repository import repo

    bucket = new_bucket(moto_endpoint)
    real = lakes.open_lake(tmp_path / "real", clock=_now)
    repo.create(real, "shop", f"s3://{bucket}/shop")
    with real, endpoint(real) as url:
        client = client_for(url)
        main = lakefs.Repository("shop", client=client).branch("main")
        for signed in (True, False):
            made = main.object("a").upload(
                data=b"data", mode="wb", pre_sign=signed, metadata={"k": "v"}
            )
            assert made.stat(pre_sign=True).physical_address.startswith(moto_endpoint)
            assert made.stat().metadata["k"] == "v"
            for again in (True, False):
                assert made.reader(mode="rb", pre_sign=again).read() == b"data"
        assert [each.path for each in main.objects()] == ["a"]
        assert not client.storage_config_by_id().pre_sign_support


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)  # noqa: TID251 - signatures need the present time
