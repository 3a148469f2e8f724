"""``import --pin-versions``: entries that name one version of an object in a bucket."""

from __future__ import annotations

import pickle
import re
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from lakecli.base.identity import blake3_of
from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from lakecli.engine.object_reader import TableFile, read_piece
from lakecli.engine.runner import StoreLocation
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.imports.address_checks import store_of
from lakecli.repository.reading.recorded import Recorded
from lakecli.stores.azure.names import version_time
from lakecli.stores.capabilities import versions_of
from lakecli.stores.contract import ANY
from lakecli.stores.gs.store import GsStore
from lakecli.stores.registry import open_store
from lakecli.stores.s3.store import S3Store
from tests.support.azure_versions import CONTAINER, versioned_azure
from tests.support.azurite import ACCOUNT
from tests.support.gcs import new_gcs_bucket
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.stores.contract import ObjectStore
    from tests.support.azure_versions import Blobs
    from tests.support.gcs import GcsServer
    from tests.support.golden import Cli

MAIN = "lakefs://demo/main"
LARGE = b"0123456789" * 1_500_000  # read by several requests, and not verified before it is shown
CONTENTS = {"a.csv": b"first\n", "d/b c": b"12345", "k?versionId=x": b"odd", "large": LARGE}


@pytest.fixture(params=["s3", "gs", "az"])
def source(
    cli: Cli, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ObjectStore]:
    """A bucket with versioning; `demo` is a repository with nothing in it yet."""
    cli.now = system_now()
    store_of.cache_clear()  # a store of another test may be connected to that one's server
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    with ExitStack() as stack:
        if request.param == "az":
            text, blobs = stack.enter_context(versioned_azure())
            monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
            place = f"az://{ACCOUNT}/{CONTAINER}"
        elif request.param == "gs":
            request.getfixturevalue("gcs_environment")
            server = request.getfixturevalue("gcs_server")
            place = f"gs://{new_gcs_bucket(server, keeps_versions=True)}"
        else:
            request.getfixturevalue("aws_environment")
            endpoint = request.getfixturevalue("moto_endpoint")
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
            place = f"s3://{new_bucket(endpoint, keeps_versions=True)}"
        store = open_store(f"{place}/raw")
        for key, data in CONTENTS.items():
            store.put(key, data, ANY)
        if request.param == "az":
            vars(store)["blobs"] = blobs
        yield store


def delete_version(store: ObjectStore, key: str, version: str) -> None:
    """Delete a version for good, as a lifecycle rule does."""
    if isinstance(store, S3Store):
        client = store._connection.client()
        client.delete_object(Bucket=store.bucket, Key=f"raw/{key}", VersionId=version)
    elif isinstance(store, GsStore):
        blob = store.sdk()._bucket.blob(f"raw/{key}", generation=int(version))
        blob.delete()
    else:
        blobs: Blobs = vars(store)["blobs"]
        assert blobs.delete(f"raw/{key}", version_time(version))


@pytest.fixture
def replaced(cli: Cli, source: ObjectStore) -> ObjectStore:
    """The bucket after its objects were pinned, overwritten, and one of them deleted."""
    pin(cli, source)
    for key, data in CONTENTS.items():
        source.put(key, b"x" + data[1:], ANY)
    source.delete(["d/b c"])
    return source


def pin(cli: Cli, source: ObjectStore, *options: str) -> dict[str, Any]:
    target = f"{MAIN}/t/"
    found: dict[str, Any] = cli.ok(
        "import", "--from", source.uri, "--to", target, "--pin-versions", "--json", *options
    ).json_lines[-1]
    return found


def versions(store: ObjectStore) -> dict[str, str]:
    return {info.key: version for info, version in versions_of(store).list_versions()}


def test_addresses_name_versions(cli: Cli, source: ObjectStore) -> None:
    assert pin(cli, source)["added"] == len(CONTENTS)
    for key, version in versions(source).items():
        stat = cli.ok("fs", "stat", f"{MAIN}/t/{key}", "--json").json
        assert stat["physical_address"] == f"{source.uri}/{key}?versionId={version}"


def test_every_reader_reads_the_version(cli: Cli, replaced: ObjectStore) -> None:
    del replaced
    for key, data in CONTENTS.items():
        assert cli.ok("fs", "cat", f"{MAIN}/t/{key}").stdout_bytes == data
        assert cli.ok("fs", "cat", "--verify", f"{MAIN}/t/{key}").stdout_bytes == data
    cli.ok("fs", "download", "-r", f"{MAIN}/t/", cli.directory / "down")
    cli.ok("export", f"{MAIN}/t/", cli.directory / "out")
    for key, data in CONTENTS.items():
        assert (cli.directory / "down" / key).read_bytes() == data
        assert (cli.directory / "out" / key).read_bytes() == data


def test_a_file_system_reads_the_version(cli: Cli, replaced: ObjectStore) -> None:
    del cli, replaced
    fs = LakeFileSystem(skip_instance_cache=True)
    for key, data in CONTENTS.items():
        assert fs.cat_file(f"demo/main/t/{key}") == data
        with fs.open(f"demo/main/t/{key}") as file:
            file.seek(1)
            assert file.read(3) == data[1:4]
    lakes.close_unused()


def test_executors_read_the_version(cli: Cli, replaced: ObjectStore) -> None:
    del replaced
    with lakes.repository(lakes.home_of(None), "demo") as repository:
        location = pickle.loads(pickle.dumps(StoreLocation.of(repository)))
    lakes.close_unused()
    for key, data in CONTENTS.items():
        address = cli.ok("fs", "stat", f"{MAIN}/t/{key}", "--json").json["physical_address"]
        file = TableFile(key, Recorded(address, len(data), "", None))
        assert read_piece(location, file, 0, len(data)) == data
        assert read_piece(location, file, 1, 2) == data[1:3]


def versions_in(cli: Cli, key: str) -> str:
    """Return the version that an entry names."""
    address: str = cli.ok("fs", "stat", f"{MAIN}/t/{key}", "--json").json["physical_address"]
    return address.rpartition("?versionId=")[2]


def test_urls_read_the_version(cli: Cli, replaced: ObjectStore) -> None:
    for key, data in CONTENTS.items():
        signed = cli.ok("fs", "presign", f"{MAIN}/t/{key}")
        assert "outside" not in signed.stderr
        version = versions_in(cli, key)
        assert re.search(r"[&?](versionId|generation|versionid)=", signed.stdout)
        assert version in unquote(signed.stdout).replace(":", "_")
        if key == "d/b c" and isinstance(replaced, S3Store):
            continue  # moto refuses every signed URL of a key that was deleted
        with urllib.request.urlopen(signed.stdout.strip()) as answer:
            assert answer.read() == data
    many = cli.ok("fs", "presign", "-r", f"{MAIN}/t/")
    assert "outside" not in many.stderr


def test_fsck_checks_the_version(cli: Cli, replaced: ObjectStore) -> None:
    def check() -> tuple[ExitCode, dict[str, str]]:
        result = cli("fsck", "lakefs://demo", "--external", "--json")
        *found, _ = result.json_lines
        return ExitCode(result.exit_code), {each["path"]: each["what"] for each in found}

    assert check() == (ExitCode.OK, {})
    delete_version(replaced, "a.csv", versions_in(cli, "a.csv"))
    code, found = check()
    assert code == ExitCode.INTEGRITY
    assert found == {"t/a.csv": "it is missing"}
    assert cli("fs", "cat", f"{MAIN}/t/a.csv").exit_code == ExitCode.NOT_FOUND


def test_another_version_is_a_change(cli: Cli, source: ObjectStore) -> None:
    pin(cli, source)
    source.put("a.csv", CONTENTS["a.csv"], ANY)  # the same bytes
    again = pin(cli, source)
    assert (again["changed"], again["unchanged"]) == (1, len(CONTENTS) - 1)


def test_pins_stay_until_they_are_given_up(cli: Cli, source: ObjectStore) -> None:
    """Not all sources can be pinned, so others are refused."""
    pin(cli, source)
    again = ("import", "--from", source.uri, "--to", f"{MAIN}/t/")
    result = cli(*again)
    assert result.exit_code == ExitCode.NOTHING_TO_DO
    assert "this import pins versions, too" in result.stderr
    assert cli.ok(*again, "--dry-run", "--json").json_lines[-1]["unchanged"] == len(CONTENTS)
    source.put("a.csv", b"new", ANY)
    assert cli.ok(*again, "--json").json["changed"] == 1
    assert versions_in(cli, "a.csv") == versions(source)["a.csv"]
    line = f"a.csv,{source.uri}/a.csv,3,{blake3_of(b'new').hex()}\n"
    rows = cli.directory / "rows.csv"
    rows.write_text(f"path,physical_address,size,checksum\n{line}")
    manifest = ("import", "--from", rows, "--to", f"{MAIN}/t/", "--mode", "merge")
    refused = cli(*manifest)
    assert refused.exit_code == ExitCode.REFUSED
    assert "no longer name a version of their object: 1" in refused.stderr
    cli.ok(*manifest, "--no-pin-versions")
    plain = cli.ok(*again, "--no-pin-versions", "--json").json
    assert plain["changed"] == len(CONTENTS)
    assert "?versionId=" not in versions_in(cli, "a.csv")
    assert cli(*again).exit_code == ExitCode.NOTHING_TO_DO


def test_pins_behind_other_entries_are_not_lost_in_silence(
    cli: Cli, source: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.imports.job._LOOKED_AT", 1)
    pin(cli, source)
    cli.ok("fs", "upload", "-", f"{MAIN}/t/0", stdin="first")
    cli.ok("commit", MAIN, "-m", "Another")
    again = ("import", "--from", source.uri, "--to", f"{MAIN}/t/", "--mode", "merge")
    refused = cli(*again)
    assert refused.exit_code == ExitCode.REFUSED
    assert f"no longer name a version of their object: {len(CONTENTS)}" in refused.stderr
    cli.ok(*again, "--no-pin-versions")


def test_a_dry_run_pins_as_well(cli: Cli, source: ObjectStore) -> None:
    pin(cli, source)
    assert pin(cli, source, "--dry-run")["unchanged"] == len(CONTENTS)


@pytest.mark.parametrize("is_local", [True, False])
def test_keys_that_look_like_versions(cli: Cli, source: ObjectStore, is_local: bool) -> None:  # noqa: FBT001
    """Without pins they are keys; so are names of files."""
    where = source.uri
    if is_local:
        where = str(cli.directory / "source")
        (cli.directory / "source").mkdir()
        (cli.directory / "source" / "k?versionId=x").write_bytes(b"odd")
    cli.ok("import", "--from", where, "--to", f"{MAIN}/t/")
    odd = f"{MAIN}/t/k?versionId=x"
    address = cli.ok("fs", "stat", odd, "--json").json["physical_address"]
    assert address.endswith("/k?versionId=x?versionId=")
    assert cli.ok("fs", "cat", odd).stdout_bytes == b"odd"
    assert cli("fsck", "lakefs://demo", "--external").exit_code == ExitCode.OK
    again = cli("import", "--from", where, "--to", f"{MAIN}/u/", "--copy", "--json")
    assert again.exit_code == ExitCode.OK
    assert cli.ok("fs", "cat", f"{MAIN}/u/k?versionId=x").stdout_bytes == b"odd"


def test_a_manifest_can_name_versions(cli: Cli, source: ObjectStore) -> None:
    version = versions(source)["a.csv"]
    source.put("a.csv", b"other", ANY)
    manifest = cli.directory / "list.csv"
    manifest.write_text(
        f"path,physical_address,size,checksum\na,{source.uri}/a.csv?versionId={version},6,\n"
    )
    cli.ok("import", "--from", manifest, "--to", f"{MAIN}/m/")
    assert cli.ok("fs", "cat", f"{MAIN}/m/a").stdout_bytes == b"first\n"
    cli.ok("import", "--from", manifest, "--to", f"{MAIN}/copied/", "--copy")
    assert cli.ok("fs", "cat", f"{MAIN}/copied/a").stdout_bytes == b"first\n"
    manifest.write_text(
        "path,physical_address,size,checksum\nb,local:///etc/passwd?versionId=1,6,\n"
    )
    refused = cli("import", "--from", manifest, "--to", f"{MAIN}/m/")
    assert refused.exit_code == ExitCode.PARTIAL
    assert "only buckets keep versions" in refused.stderr


def test_an_account_without_versioning_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    with versioned_azure(keeps_versions=False) as (text, _):
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
        where = f"az://{ACCOUNT}/{CONTAINER}"
        open_store(where).put("a", b"1", ANY)
        result = cli("import", "--from", where, "--to", f"{MAIN}/t/", "--pin-versions")
    assert result.exit_code == ExitCode.REFUSED
    assert "versioning is off, or was when 'a' was written" in result.stderr


def test_a_gcs_bucket_without_versioning_is_refused(
    cli: Cli, gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer
) -> None:
    del gcs_environment
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    where = f"gs://{new_gcs_bucket(gcs_server)}"
    open_store(where).put("a", b"1", ANY)
    result = cli("import", "--from", where, "--to", f"{MAIN}/t/", "--pin-versions")
    assert result.exit_code == ExitCode.REFUSED
    assert "versioning is not enabled" in result.stderr


@pytest.mark.parametrize("source", ["s3"], indirect=True)
def test_pins_are_refused_without_versions(
    cli: Cli, source: ObjectStore, moto_endpoint: str
) -> None:
    (cli.directory / "files").mkdir()
    (cli.directory / "files" / "a").write_bytes(b"1")
    (cli.directory / "list.csv").write_text("path,physical_address,size,checksum\n")
    bare = f"s3://{new_bucket(moto_endpoint)}"
    open_store(bare).put("a", b"1", ANY)
    assert isinstance(source, S3Store)
    suspended = new_bucket(moto_endpoint, keeps_versions=True)
    source._connection.client().put_bucket_versioning(
        Bucket=suspended, VersioningConfiguration={"Status": "Suspended"}
    )
    for where, why in (
        (bare, "versioning was never enabled"),
        (f"s3://{suspended}", "versioning is suspended"),
        (cli.directory / "files", "a directory keeps no versions"),
        (cli.directory / "list.csv", "versions cannot be pinned when a manifest"),
    ):
        result = cli("import", "--from", where, "--to", f"{MAIN}/t/", "--pin-versions")
        assert (result.exit_code, why in result.stderr) == (ExitCode.REFUSED, True), result
    both = cli("import", "--from", bare, "--to", f"{MAIN}/t/", "--pin-versions", "--copy")
    assert both.exit_code == ExitCode.USAGE
