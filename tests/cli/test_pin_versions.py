"""``import --pin-versions``: entries that name one version of an object in S3."""

from __future__ import annotations

import pickle
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.objectstore.base import ANY
from lakecli.objectstore.registry import open_store
from lakecli.objectstore.s3.store import S3Store
from lakecli.objectstore.versions import versions_of
from lakecli.pipeline.store_location import StoreLocation
from lakecli.spark.fetch import ObjectFile, Remote, iter_lines
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from lakecli.objectstore.base import ObjectStore
    from tests.support.golden import Cli

MAIN = "lakefs://demo/main"
LARGE = b"0123456789" * 1_500_000  # read by several requests, and not verified before it is shown
CONTENTS = {"a.csv": b"first\n", "d/b c": b"12345", "k?versionId=x": b"odd", "large": LARGE}


@pytest.fixture
def source(cli: Cli, aws_environment: pytest.MonkeyPatch, moto_endpoint: str) -> ObjectStore:
    """A bucket with versioning; `demo` is a repository with nothing in it yet."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    store = open_store(f"s3://{new_bucket(moto_endpoint, keeps_versions=True)}/raw")
    for key, data in CONTENTS.items():
        store.put(key, data, ANY)
    return store


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
    ).json
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
        file = Remote(key, address, len(data), 0)
        with ObjectFile(location, file) as opened:
            assert opened.read() == data
        assert b"".join(iter_lines(location, file)) == data.rstrip(b"\n")


def test_urls_read_the_version(cli: Cli, replaced: ObjectStore) -> None:
    del replaced
    for key, data in CONTENTS.items():
        signed = cli.ok("fs", "presign", f"{MAIN}/t/{key}")
        assert "outside" not in signed.stderr
        assert "&versionId=" in signed.stdout
        if key == "d/b c":
            continue  # moto refuses every signed URL of a key that was deleted
        with urllib.request.urlopen(signed.stdout.strip()) as answer:
            assert answer.read() == data
    many = cli.ok("fs", "presign", "-r", f"{MAIN}/t/")
    assert "outside" not in many.stderr


def test_fsck_asks_for_the_version(cli: Cli, replaced: ObjectStore) -> None:
    def check() -> tuple[ExitCode, dict[str, str]]:
        result = cli("fsck", "lakefs://demo", "--external", "--json")
        *found, _ = result.json_lines
        return ExitCode(result.exit_code), {each["path"]: each["what"] for each in found}

    assert check() == (ExitCode.OK, {})
    address = cli.ok("fs", "stat", f"{MAIN}/t/a.csv", "--json").json["physical_address"]
    assert isinstance(replaced, S3Store)
    client = replaced._connection.client()
    bucket = replaced.uri.removeprefix("s3://").partition("/")[0]
    version = address.rpartition("=")[2]
    client.delete_object(Bucket=bucket, Key="raw/a.csv", VersionId=version)
    code, found = check()
    assert code == ExitCode.INTEGRITY
    assert found == {"t/a.csv": "it is gone"}
    assert cli("fs", "cat", f"{MAIN}/t/a.csv").exit_code == ExitCode.NOT_FOUND


def test_another_version_is_a_change(cli: Cli, source: ObjectStore) -> None:
    pin(cli, source)
    source.put("a.csv", CONTENTS["a.csv"], ANY)  # the same bytes
    again = pin(cli, source)
    assert (again["changed"], again["unchanged"]) == (1, len(CONTENTS) - 1)
    plain = cli.ok("import", "--from", source.uri, "--to", f"{MAIN}/t/", "--json").json
    assert plain["changed"] == len(CONTENTS)


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


def test_refused(cli: Cli, source: ObjectStore, moto_endpoint: str) -> None:
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
        (cli.directory / "list.csv", "cannot be imported with --pin-versions"),
    ):
        result = cli("import", "--from", where, "--to", f"{MAIN}/t/", "--pin-versions")
        assert (result.exit_code, why in result.stderr) == (ExitCode.REFUSED, True), result
    both = cli("import", "--from", bare, "--to", f"{MAIN}/t/", "--pin-versions", "--copy")
    assert both.exit_code == ExitCode.USAGE
