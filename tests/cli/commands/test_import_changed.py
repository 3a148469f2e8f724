"""Imported objects that changed at their source."""

from __future__ import annotations

import os
from hashlib import md5
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from lakecli.filesystem import LakeFileSystem
from lakecli.repository.reading.recorded import PIECE
from lakecli.stores.capabilities import copy_across
from lakecli.stores.contract import ANY
from lakecli.stores.registry import open_store
from tests.support.azurite import ACCOUNT, connection_string, new_container
from tests.support.gcs import new_gcs_bucket
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.golden import Cli, Result

MAIN = "lakefs://demo/main"
CONTENTS = {"same": b"1", "overwritten": b"12345", "longer": b"123", "gone": b"1"}

Source = tuple[str, "Callable[[str, bytes | None], None]"]


@pytest.fixture(params=["bucket", "directory"])
def source(
    request: pytest.FixtureRequest,
    cli: Cli,
    aws_environment: pytest.MonkeyPatch,
    moto_endpoint: str,
) -> Source:
    """Where objects lie that `demo` imported, and what writes or deletes them there."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    if request.param == "bucket":
        uri = f"s3://{new_bucket(moto_endpoint)}"
    else:
        uri = f"local://{cli.directory}/source"
        (cli.directory / "source").mkdir()
    store = open_store(uri)

    def write(key: str, data: bytes | None) -> None:
        path = cli.directory / "source" / key
        if data is None:
            store.delete([key])
        elif uri.startswith("s3://"):
            store.put(key, data, ANY)
        else:
            later = path.stat().st_mtime_ns + 5_000_000_000 if path.exists() else 0
            path.write_bytes(data)
            os.utime(path, ns=(later, later))

    for key, data in CONTENTS.items():
        write(key, data)
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    cli.ok("import", "--from", uri.removeprefix("local://"), "--to", f"{MAIN}/t/")
    return uri, write


def check(cli: Cli, *options: str) -> tuple[Result, dict[str, str], dict[str, Any]]:
    result = cli("fsck", "lakefs://demo", "--external", "--json", *options)
    *found, summary = result.json_lines
    assert all(each["kind"] == "external" for each in found)
    return result, {each["path"]: each["what"] for each in found}, summary


def test_fsck_reports_changed_objects(cli: Cli, source: Source) -> None:
    uri, write = source
    result, found, summary = check(cli)
    assert result.exit_code == ExitCode.OK
    assert (found, summary["external"], summary["external_asked"]) == ({}, 4, 4)
    write("overwritten", b"54321")
    write("longer", b"1234")
    write("gone", None)
    result, found, _ = check(cli)
    assert result.exit_code == ExitCode.INTEGRITY
    assert found.keys() == {"t/overwritten", "t/longer", "t/gone"}
    assert "changed" in found["t/overwritten"]
    assert "4 bytes" in found["t/longer"]
    assert "missing" in found["t/gone"]
    assert check(cli, "--data")[1] == found
    # Without --external nothing is asked for.
    assert cli.ok("fsck", "lakefs://demo", "--json").json["external_asked"] == 0
    cli.ok("import", "--from", uri.removeprefix("local://"), "--to", f"{MAIN}/t/")
    cli.ok("fs", "cat", f"{MAIN}/t/overwritten")


def test_fsck_sends_no_request_to_places_that_are_not_allowed(
    cli: Cli, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.repository.reading.addresses.remembered", lambda *_: ())
    source[1]("gone", None)
    result, found, summary = check(cli)
    assert result.exit_code == ExitCode.OK
    assert (found, summary["external_asked"]) == ({}, 0)
    assert [place["allowed"] for place in summary["outside"]] == [False]


def test_repair_and_external_exclude_each_other(cli: Cli, source: Source) -> None:
    del source
    assert cli("fsck", "lakefs://demo", "--external", "--repair").exit_code == ExitCode.USAGE


def test_cat_refuses_a_changed_object(cli: Cli, source: Source) -> None:
    assert cli.ok("fs", "cat", f"{MAIN}/t/overwritten").stdout_bytes == b"12345"
    source[1]("overwritten", b"54321")
    source[1]("gone", None)
    changed = cli("fs", "cat", f"{MAIN}/t/overwritten")
    assert (changed.exit_code, changed.stdout_bytes) == (ExitCode.INTEGRITY, b"")
    assert "--external" in changed.stderr
    assert cli("fs", "cat", f"{MAIN}/t/gone").exit_code == ExitCode.NOT_FOUND


def readings(cli: Cli, name: str, to: Path) -> dict[str, tuple[int, bytes]]:
    """Return the exit code of each command that reads an object, and what it wrote."""
    uri = f"{MAIN}/t/{name}"
    commands: dict[str, tuple[tuple[str | Path, ...], Path]] = {
        "download": (("fs", "download", uri, to / "one"), to / "one"),
        "download -r": (("fs", "download", "-r", f"{MAIN}/t/", to / "tree"), to / "tree" / name),
        "mirror": (
            ("fs", "download", "-r", f"{MAIN}/t/", to / "tree", "--delete"),
            to / "tree" / name,
        ),
        "clone": (("local", "clone", f"{MAIN}/t/", to / "work"), to / "work" / name),
        "export": (("export", f"{MAIN}/t/", to / "out"), to / "out" / name),
    }
    done = {"cat": cli("fs", "cat", uri)}
    found = {"cat": (int(done["cat"].exit_code), done["cat"].stdout_bytes)}
    for what, (argv, file) in commands.items():
        done[what] = cli(*argv)
        found[what] = (int(done[what].exit_code), file.read_bytes() if file.exists() else b"")
        if found[what][0]:
            assert "was changed since it was recorded" in done[what].stderr, what
    return found


def library_readings(name: str) -> dict[str, bytes | str]:
    """Return what each way of the fsspec file system reads, or what its error says."""
    uri = f"{MAIN}/t/{name}"
    fs = LakeFileSystem(skip_instance_cache=True)

    def opened(**options: Any) -> bytes:
        with fs.open(uri, **options) as file:
            data: bytes = file.read()
            return data

    def got() -> bytes:
        with TemporaryDirectory() as folder:
            try:
                fs.get(uri, f"{folder}/file")
            except OSError:
                assert not [*Path(folder).iterdir()]
                raise
            return Path(folder, "file").read_bytes()

    ways: dict[str, Callable[[], bytes]] = {
        "cat_file": lambda: fs.cat_file(uri),
        "get": got,
        "open": opened,
        "blocks": lambda: opened(block_size=5, cache_type="blockcache"),
        "readahead": lambda: opened(block_size=2, cache_type="readahead"),
        "cat_ranges": lambda: b"".join(fs.cat_ranges([uri, uri], [0, 2], [2, 5], on_error="raise")),
        "cat_file of a part": lambda: fs.cat_file(uri, 0, 4) + fs.cat_file(uri, -1, None),
    }
    found: dict[str, bytes | str] = {}
    for what, way in ways.items():
        try:
            found[what] = way()
        except OSError as error:
            found[what] = str(error)
    return found


def test_no_reader_gives_out_what_replaced_an_object(cli: Cli, source: Source) -> None:
    assert set(readings(cli, "overwritten", cli.directory / "before").values()) == {(0, b"12345")}
    assert set(library_readings("overwritten").values()) == {b"12345"}
    source[1]("overwritten", b"54321")
    found = readings(cli, "overwritten", cli.directory / "after")
    assert {what: code for what, (code, _) in found.items()} == {
        "cat": ExitCode.INTEGRITY,
        "download": ExitCode.INTEGRITY,
        "download -r": ExitCode.PARTIAL,
        "mirror": ExitCode.PARTIAL,
        "clone": ExitCode.PARTIAL,
        "export": ExitCode.PARTIAL,
    }
    assert {data for _, data in found.values()} == {b""}
    for what, data in library_readings("overwritten").items():
        assert "was changed since it was recorded" in str(data), what
    left = [file for file in (cli.directory / "after").rglob("*") if file.is_file()]
    assert b"54321" not in [file.read_bytes() for file in left]


def test_an_object_that_was_written_again_is_the_same(cli: Cli, source: Source) -> None:
    source[1]("overwritten", b"12345")
    assert set(readings(cli, "overwritten", cli.directory / "to").values()) == {(0, b"12345")}
    assert set(library_readings("overwritten").values()) == {b"12345"}


def test_a_file_that_kept_its_time_is_found_by_its_digest(cli: Cli, source: Source) -> None:
    uri, write = source
    if uri.startswith("s3://"):  # its ETag is compared
        return
    file = cli.directory / "source" / "overwritten"
    then = file.stat().st_mtime_ns
    write("overwritten", b"54321")
    os.utime(file, ns=(then, then))
    found = readings(cli, "overwritten", cli.directory / "to")
    assert {data for _, data in found.values()} == {b""}
    assert "was changed since" in str(library_readings("overwritten")["cat_file"])


def test_a_copy_into_another_repository_reads_what_was_recorded(cli: Cli, source: Source) -> None:
    cli.ok("repo", "create", "lakefs://other", cli.directory / "other")
    cli.ok("fs", "cp", f"{MAIN}/t/overwritten", "lakefs://other/main/as-it-is")
    source[1]("overwritten", b"54321")
    copied = cli("fs", "cat", "lakefs://other/main/as-it-is")  # refers to the object, or has a copy
    assert copied.exit_code == ExitCode.INTEGRITY or copied.stdout_bytes == b"12345"


def test_a_read_of_an_object_in_a_bucket_is_one_request(
    cli: Cli, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    uri = source[0].removeprefix("s3:/")
    if source[0].startswith("local://"):
        return

    def requests() -> list[str]:
        found = [record.fields for record in caplog.records if hasattr(record, "fields")]
        caplog.clear()
        return [each["method"] for each in found if f"{uri}/overwritten" in each["url"]]

    caplog.set_level("DEBUG", "lakecli.requests")
    for argv in (
        ("fs", "cat", f"{MAIN}/t/overwritten"),
        ("fs", "download", f"{MAIN}/t/overwritten", cli.directory / "one"),
        ("fs", "download", "-r", f"{MAIN}/t/", cli.directory / "tree"),
        ("local", "clone", f"{MAIN}/t/", cli.directory / "work"),
        ("export", f"{MAIN}/t/", cli.directory / "out"),
    ):
        cli.ok(*argv)
        assert requests() == ["GET"], argv
    fs = LakeFileSystem(skip_instance_cache=True)
    assert fs.cat_file(f"{MAIN}/t/overwritten", 1, 3) == b"23"
    assert requests() == ["GET"]


@pytest.mark.servers
@pytest.mark.parametrize("cloud", ["gs", "azure"])
def test_other_clouds_compare_within_the_request_too(
    cli: Cli, cloud: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    cli.now = system_now()
    if cloud == "gs":
        request.getfixturevalue("gcs_environment")
        uri = f"gs://{new_gcs_bucket(request.getfixturevalue('gcs_server'))}"
    else:
        request.getfixturevalue("azure_environment")
        uri = f"az://{ACCOUNT}/{new_container(request.getfixturevalue('azurite'))}"
    store = open_store(uri)
    store.put("overwritten", b"12345", ANY)
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    cli.ok("import", "--from", uri, "--to", f"{MAIN}/t/")
    caplog.set_level("DEBUG", "lakecli.requests")
    fs = LakeFileSystem(skip_instance_cache=True)
    assert cli.ok("fs", "cat", f"{MAIN}/t/overwritten").stdout_bytes == b"12345"
    assert fs.cat_file(f"{MAIN}/t/overwritten", 1, 3) == b"23"
    sent = [vars(record)["fields"]["method"] for record in caplog.records]
    assert sent == ["GET", "GET"]
    assert set(library_readings("overwritten").values()) == {b"12345"}
    store.put("overwritten", b"54321", ANY)
    changed = cli("fs", "download", f"{MAIN}/t/overwritten", cli.directory / "one")
    assert (changed.exit_code, (cli.directory / "one").exists()) == (ExitCode.INTEGRITY, False)
    for what, data in library_readings("overwritten").items():
        assert "was changed since it was recorded" in str(data), what


@pytest.mark.parametrize("options", [(), ("--no-verify",)])
def test_a_store_keeps_no_copy_of_what_changed_meanwhile(
    cli: Cli,
    source: Source,
    moto_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
    uri, write = source
    if uri.startswith("local://"):  # only a bucket copies objects itself
        return
    monkeypatch.setattr("lakecli.exports.export_part.WHOLE", 1)  # as if these were large
    target = open_store(f"s3://{new_bucket(moto_endpoint)}")
    cli.ok("export", f"{MAIN}/t/", f"{target.uri}/good", *options)
    assert target.get("good/longer") == CONTENTS["longer"]

    def write_and_copy(origin: Any, key: str, *args: Any) -> bool:
        write(key, b"y" * len(CONTENTS[key]))
        return copy_across(origin, key, *args)

    monkeypatch.setattr("lakecli.exports.target.copy_across", write_and_copy)
    failed = cli("export", f"{MAIN}/t/", f"{target.uri}/bad", *options)
    assert failed.exit_code == ExitCode.PARTIAL
    assert "t/longer: the object was changed since it was recorded" in failed.stderr
    assert "bad/longer" not in [info.key for info in target.list()]


def test_cat_compares_a_large_object_before_it_writes(
    cli: Cli, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.cli.commands.fs_cat.SMALL", PIECE)
    uri, write = source
    write("longer", b"x" * (2 * PIECE))
    cli.ok("import", "--from", uri.removeprefix("local://"), "--to", f"{MAIN}/t/")
    assert len(cli.ok("fs", "cat", f"{MAIN}/t/longer").stdout_bytes) == 2 * PIECE
    write("longer", b"y" * (2 * PIECE))
    changed = cli("fs", "cat", f"{MAIN}/t/longer")
    assert (changed.exit_code, changed.stdout_bytes) == (ExitCode.INTEGRITY, b"")
    write("longer", None)
    assert cli("fs", "cat", f"{MAIN}/t/longer").exit_code == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("size", "options", "shown"), [(5, (), 0), (9 << 20, (), 9 << 20), (9 << 20, ("--verify",), 0)]
)
def test_cat_verifies_before_it_writes(
    cli: Cli, size: int, options: tuple[str, ...], shown: int
) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    file = cli.directory / "file"
    file.write_bytes(b"x" * size)
    cli.ok("fs", "upload", file, f"{MAIN}/a")
    assert len(cli.ok("fs", "cat", f"{MAIN}/a", *options).stdout_bytes) == size
    stored = next((cli.directory / "namespace" / "data").rglob("*/*"))
    stored.chmod(0o600)
    stored.write_bytes(b"y" * size)
    result = cli("fs", "cat", f"{MAIN}/a", *options)
    assert result.exit_code == ExitCode.INTEGRITY
    assert len(result.stdout_bytes) == shown


def test_presign_warns_about_objects_outside(cli: Cli, source: Source) -> None:
    if source[0].startswith("local://"):  # a directory has no URLs
        assert cli("fs", "presign", f"{MAIN}/t/same").exit_code == ExitCode.REFUSED
        return
    one = cli.ok("fs", "presign", f"{MAIN}/t/same")
    assert "may be changed" in one.stderr
    assert "4 of the objects" in cli.ok("fs", "presign", "-r", f"{MAIN}/t/").stderr


@pytest.fixture(params=["directory", "bucket", "azure", "azure without MD5"])
def of_lakefs(
    request: pytest.FixtureRequest,
    cli: Cli,
    aws_environment: pytest.MonkeyPatch,
    moto_endpoint: str,
) -> Callable[[bytes], str]:
    """What writes an object outside the namespace and returns its URI; lakeFS imported it."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    if request.param == "bucket":
        uri = f"s3://{new_bucket(moto_endpoint)}"
    elif request.param == "directory":
        uri = f"local://{cli.directory}/source"
        (cli.directory / "source").mkdir()
    else:
        request.getfixturevalue("azure_environment")
        uri = f"az://{ACCOUNT}/{new_container(request.getfixturevalue('azurite'))}"
    store = open_store(uri)

    def write(data: bytes) -> str:
        if request.param != "azure without MD5":
            store.put("a", data, ANY)
        else:
            from azure.storage.blob import BlobBlock, BlobServiceClient

            url = connection_string(request.getfixturevalue("azurite"))
            with BlobServiceClient.from_connection_string(url) as service:
                blob = service.get_blob_client(uri.rpartition("/")[2], "a")
                blob.stage_block("MDAw", data)
                blob.commit_block_list([BlobBlock("MDAw")])
            assert not store.head("a").md5
        return f"{uri}/a"

    return write


def test_an_md5_is_compared_with_an_md5(cli: Cli, of_lakefs: Callable[[bytes], str]) -> None:
    uri = of_lakefs(b"12345")
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    options = ("--location", uri, "--size", "5", "--checksum", md5(b"12345").hexdigest())
    cli.ok("fs", "stage", f"{MAIN}/t/a", *options, "--mtime", "1600000000")
    cli.ok("commit", MAIN, "-m", "imported by lakeFS")
    assert cli.ok("fs", "cat", f"{MAIN}/t/a").stdout_bytes == b"12345"
    assert check(cli)[1] == {}
    cli.ok("export", f"{MAIN}/t/", cli.directory / "out")
    assert (cli.directory / "out" / "a").read_bytes() == b"12345"
    of_lakefs(b"54321")
    changed = cli("fs", "cat", f"{MAIN}/t/a")
    assert (changed.exit_code, changed.stdout_bytes) == (ExitCode.INTEGRITY, b"")
    assert check(cli)[1].keys() == {"t/a"}
    assert cli("export", f"{MAIN}/t/", cli.directory / "other").exit_code == ExitCode.PARTIAL
    assert not (cli.directory / "other" / "a").exists()
