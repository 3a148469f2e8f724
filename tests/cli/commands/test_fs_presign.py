"""``fs presign`` of many objects, its manifests and links for sending, and ``fs stage``.

The partner's side is a shell with curl and nothing of ours, against a server that checks
signatures.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
from base64 import b64decode
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from lakecli.base.identity import blake3_of
from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from tests.support.azurite import ACCOUNT, new_container
from tests.support.gcs import new_gcs_bucket
from tests.support.partners import PYTHON, Partner, link_tools, shell_tools
from tests.support.servers import SECRET_KEY, new_bucket
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.gcs import GcsServer
    from tests.support.golden import Cli, Golden, Result

MAIN = "lakefs://demo/main"
CONTENTS = {
    "a.csv": b"a,b\n1,2\n",
    "100% odd?#'\"$(id)\n.txt": b"odd",
    "empty": b"",
    "large.bin": b"0123456789abcdef" * 300_000,
    "sub/ünï": "ü".encode(),
    "-rf": b"dash",
}


@pytest.fixture
def lake(cli: Cli, rclone_endpoint: str, aws_environment: pytest.MonkeyPatch) -> Cli:
    """A repository in a bucket of a server that checks signatures, with one commit."""
    aws_environment.setenv("AWS_ENDPOINT_URL", rclone_endpoint)
    cli.now = system_now()  # servers take no signature of another day
    source = cli.directory / "source"
    for name, data in CONTENTS.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    cli.ok("repo", "create", "lakefs://demo", f"s3://{new_bucket(rclone_endpoint)}/lake")
    cli.ok("fs", "upload", "-r", source, f"{MAIN}/data/")
    cli.ok("commit", MAIN, "-m", "first")
    return cli


@pytest.fixture(params=["gs", "az"])
def other_cloud(
    request: pytest.FixtureRequest,
    cli: Cli,
    *,
    gcs_server: GcsServer,
    gcs_environment: pytest.MonkeyPatch,
    azurite: str,
    azure_environment: pytest.MonkeyPatch,
) -> Cli:
    """A repository in another cloud; their emulators check signatures too."""
    del gcs_environment, azure_environment
    if request.param == "gs":
        namespace = f"gs://{new_gcs_bucket(gcs_server)}/lake"
    else:
        namespace = f"az://{ACCOUNT}/{new_container(azurite)}/lake"
    cli.now = system_now()
    cli.ok("repo", "create", "lakefs://demo", namespace)
    return cli


def test_urls_of_google_are_signed(
    cli: Cli, gcs_server: GcsServer, gcs_environment: pytest.MonkeyPatch
) -> None:
    del gcs_environment
    cli.now = system_now()
    cli.ok("repo", "create", "lakefs://demo", f"gs://{new_gcs_bucket(gcs_server)}/lake")
    for name in ("a", "b", "c"):
        cli.ok("fs", "upload", "-s", "-", f"{MAIN}/{name}", stdin=name)
    urls = cli.ok("fs", "presign", "-r", f"{MAIN}/").stdout.splitlines()
    assert [urlopen(url).read() for url in urls] == [b"a", b"b", b"c"]


def partner(directory: Path, shell: str = "dash") -> Partner:
    place = directory / "place"
    place.mkdir()
    path = link_tools(directory / "bin", {**shell_tools(), **PYTHON})
    return Partner([require_tool(shell)], place, path)


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


# Handing over


def test_presign_prints_a_url_for_each_object(lake: Cli) -> None:
    listed = lake.ok("fs", "presign", "-r", f"{MAIN}/data/")
    assert len(listed.lines) == len(CONTENTS)
    assert all(line.startswith("http://127.0.0.1:") for line in listed.lines)
    assert listed.stderr.startswith(f"{len(CONTENTS)} objects, all URLs valid until ")
    records = lake.ok("fs", "presign", "-r", f"{MAIN}/data", "--json", "--expires", "2h").json_lines
    assert [record["path"] for record in records] == sorted(
        (f"data/{name}" for name in CONTENTS), key=str.encode
    )
    for record in records:
        data = CONTENTS[record["path"].removeprefix("data/")]
        assert (record["size"], record["checksum"]) == (len(data), blake3_of(data).hex())
        assert datetime.fromisoformat(record["expires_at"]) == lake.now.replace(
            microsecond=0
        ) + timedelta(hours=2)
    curl = require_tool("curl")
    for record in records:
        got = subprocess.run(
            [curl, "-sSf", record["url"]], capture_output=True, check=True, timeout=60
        )
        assert got.stdout == CONTENTS[record["path"].removeprefix("data/")]


def test_presign_prints_the_urls_of_several_objects(lake: Cli) -> None:
    some = [f"{MAIN}/data/{name}" for name in sorted(CONTENTS)[:2]]
    lines = lake.ok("fs", "presign", *some).lines
    assert len(lines) == 2
    assert all(line.startswith("http") for line in lines)
    listed = lake.ok("fs", "presign", *some, "--json").json_lines
    assert [f"{MAIN}/{each['path']}" for each in listed] == some
    missing = lake("fs", "presign", some[0], f"{MAIN}/none")
    assert (missing.exit_code, missing.stdout) == (6, "")
    assert lake("fs", "presign", *some, "-r").exit_code == ExitCode.USAGE


def test_presign_signs_what_a_list_names(lake: Cli) -> None:
    first, second = sorted(CONTENTS, key=str.encode)[:2]
    names = f"{second}\0{first}\0none\0".encode()
    argv = ("fs", "presign", "--files-from=-", "-z", f"{MAIN}/data/", "--json")
    listed = lake(*argv, stdin=names)
    assert listed.exit_code == 3
    assert [each["path"] for each in listed.json_lines] == [f"data/{first}", f"data/{second}"]
    assert listed.error["paths"] == ["data/none"]
    manifest = lake.directory / "named.json"
    lake.ok(*argv[:-1], "--manifest", manifest, stdin=first.encode())
    assert manifest.read_text().count('"path":') == 1
    alone = lake(*argv, stdin=b"none\0")
    assert (alone.exit_code, alone.stdout) == (3, "")


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_partner_downloads_with_a_shell_and_curl(lake: Cli, shell: str) -> None:
    script = lake.directory / "get.sh"
    told = lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--script", script)
    assert told.stdout.splitlines()[0] == f"Script: {script}"
    assert "http" not in told.stdout + told.stderr
    assert mode_of(script) == 0o700
    machine = partner(lake.directory, shell)
    done = machine.run(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.files() == {os.fsencode(name): data for name, data in CONTENTS.items()}


def test_an_expired_url_is_refused(lake: Cli) -> None:
    script = lake.directory / "get.sh"
    lake.now -= timedelta(hours=1)
    lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--script", script, "--expires", "10m")
    done = partner(lake.directory).run(script)
    assert done.returncode == 1
    assert "these links have expired" in done.stderr
    # An empty object needs no request.
    assert done.stderr.count("the server refuses it") == len(CONTENTS) - 1


@pytest.mark.parametrize("name", ["links.json", "links.csv", "links.html"])
def test_manifests_are_readable_by_their_owner_only(lake: Cli, name: str) -> None:
    file = lake.directory / name
    file.write_text("what was there before")
    file.chmod(0o644)
    told = lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--manifest", file, "--json")
    assert mode_of(file) == 0o600
    urls = [
        link["url"] for link in lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--json").json_lines
    ]
    text = file.read_text()
    there = [url for url in urls if url.partition("?")[0] in text]
    assert len(there) == len(CONTENTS)
    assert told.json["manifest"] == str(file)
    assert told.json["script"] is None
    assert (told.json["count"], told.json["prefix"]) == (len(CONTENTS), "data/")
    assert told.json["commit_id"] == lake.ok("rev-parse", MAIN).stdout.strip()
    assert "X-Amz-Signature" not in told.stdout + told.stderr
    assert not list(lake.directory.glob(".lakecli-*"))


def test_manifest_and_script_are_written_together(lake: Cli) -> None:
    manifest, script = lake.directory / "links", lake.directory / "get"
    both = ("--manifest", manifest, "--format", "csv", "--script", script)
    lake.ok("fs", "presign", "-r", f"{MAIN}/data/", *both)
    assert manifest.read_text().startswith("# {")
    assert script.read_text().startswith("#!/bin/sh\n")
    printed = lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--format", "json")
    assert json.loads(printed.stdout)["count"] == len(CONTENTS)
    page = lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--format", "html")
    assert page.stdout.startswith("<!DOCTYPE html>")
    assert "valid until" not in page.stdout.lower().partition("<body>")[0]


def test_one_file_for_two_documents_is_refused(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    (cli.directory / "link.html").symlink_to("page.html")
    for options in (["-r", "--manifest"], ["--put", "--script"]):
        link, page = cli.directory / "link.html", cli.directory / "page.html"
        told = cli("fs", "presign", f"{MAIN}/in/", *options, link, "--page", page)
        assert told.exit_code == ExitCode.USAGE
        assert "two options name the same file" in told.stderr


def test_names_that_cannot_be_files_are_reported(lake: Cli) -> None:
    for name in ("../up", "a//b"):
        lake.ok("fs", "cp", f"{MAIN}/data/a.csv", f"{MAIN}/data/{name}")
    script = lake.directory / "get.sh"
    told = lake("fs", "presign", "-r", f"{MAIN}/data/", "--script", script)
    assert told.exit_code == ExitCode.PARTIAL
    assert "cannot hand over data/../up: .. leads out of the directory" in told.stderr
    assert "cannot hand over data/a//b: " in told.stderr
    assert "some of these are uncommitted changes of main; main@ names the committed" in told.stderr
    machine = partner(lake.directory)
    done = machine.run(script)
    assert done.returncode == 1
    assert machine.files() == {os.fsencode(name): data for name, data in CONTENTS.items()}
    # A manifest is for programs, which know what to do about them.
    lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--manifest", lake.directory / "m.json")


def test_an_early_expiry_is_reported(lake: Cli) -> None:
    told = lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--expires", "8d")
    assert "warning: the first URL expires earlier than asked for, at " in told.stderr


def test_unwritable_files_are_refused(lake: Cli) -> None:
    for target, code in (
        (lake.directory, ExitCode.USAGE),
        (lake.directory / "a.csv" / "m.json", ExitCode.NOT_FOUND),
        (lake.directory / "source" / "a.csv" / "m.json", ExitCode.NOT_FOUND),
    ):
        result = lake(
            "fs", "presign", "-r", f"{MAIN}/data/", "--format", "json", "--manifest", target
        )
        assert result.exit_code == code, result
        assert result.stdout == ""
        assert "Traceback" not in result.stderr


def test_a_device_is_written_but_not_replaced(lake: Cli) -> None:
    lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--format", "json", "--manifest", "/dev/null")
    assert Path("/dev/null").is_char_device()


# Checking


def test_check_compares_a_manifest_with_the_ref(lake: Cli) -> None:
    manifest = lake.directory / "links.json"
    lake.ok("fs", "presign", "-r", f"{MAIN}/data/", "--manifest", manifest, "--expires", "1d")
    check = ("fs", "presign", "--check", manifest)
    fine = lake.ok(*check)
    assert fine.lines[0] == f"{len(CONTENTS)} as in {MAIN}"
    assert fine.lines[1].endswith("in 23h 59m")
    lake.ok("fs", "upload", "-", f"{MAIN}/data/a.csv", stdin="other")
    lake.ok("fs", "rm", f"{MAIN}/data/sub/ünï")
    changed = lake(*check)
    assert changed.exit_code == ExitCode.DIFFERENCES
    assert changed.lines[:3] == [
        "changed\tdata/a.csv",
        "removed\tdata/sub/ünï",
        f"{len(CONTENTS) - 2} as in {MAIN}, 1 changed, 1 removed",
    ]
    records = lake(*check, "--json").json_lines
    assert {record["path"]: record["state"] for record in records} == {
        **{f"data/{name}": "same" for name in CONTENTS},
        "data/a.csv": "changed",
        "data/sub/ünï": "removed",
    }
    assert all(86_000 < record["seconds_left"] <= 86_400 for record in records)
    lake.now += timedelta(days=2)
    over = lake(*check)
    assert over.exit_code == ExitCode.DIFFERENCES
    assert "changed, expired\tdata/a.csv" in over.lines
    assert over.lines[-2] == f"0 as in {MAIN}, 1 changed, {len(CONTENTS)} expired, 1 removed"
    assert over.lines[-1].endswith("1d 0h ago")
    assert {record["expired"] for record in lake(*check, "--json").json_lines} == {True}


def test_other_files_are_not_manifests(cli: Cli, golden: Golden) -> None:
    other = cli.directory / "other.json"
    other.write_text('{"a": 1}')
    page = cli.directory / "page.html"
    page.write_text("<!DOCTYPE html>")
    damaged = cli.directory / "damaged.json"
    damaged.write_text('{\n"manifest": 1,\n')
    gone = cli.directory / "gone.json"
    gone.write_text(
        json.dumps(
            {
                "manifest": 1,
                "repository": "lakefs://gone",
                "uuid": "0" * 32,
                "ref": "main",
                "commit_id": "0" * 64,
                "prefix": "",
                "objects": [],
            }
        )
    )
    files = (other, page, damaged, gone, cli.directory / "missing.json")
    golden("fs_presign_check_refuses", *(cli("fs", "presign", "--check", file) for file in files))


# Receiving


def test_a_partner_uploads_an_object(lake: Cli) -> None:
    asked = lake.ok("fs", "presign", "--put", f"{MAIN}/inbox/x.csv", "--expires", "1h")
    fields = dict(line.split(": ", 1) for line in asked.lines)
    assert fields["Physical Address"].endswith(f"/lake/_lakecli/incoming/{fields['ID']}")
    assert "to send a file: curl -f -T FILE 'URL'" in asked.stderr
    assert f"lakecli fs stage {MAIN}/inbox/x.csv --incoming ID" in asked.stderr
    missing = lake("fs", "stage", f"{MAIN}/inbox/x.csv", "--incoming", fields["ID"])
    assert missing.exit_code == ExitCode.NOT_FOUND
    sent = lake.directory / "sent"
    sent.write_bytes(b"from a partner")
    command = [require_tool("curl"), "-sSf", "-T", str(sent), fields["URL"]]
    subprocess.run(command, env={}, check=True, timeout=60)
    stage = ("fs", "stage", f"{MAIN}/inbox/x.csv", "--incoming", fields["ID"], "--meta", "from=ada")
    staged = lake.ok(*stage, "--json").json
    assert staged["checksum"] == blake3_of(b"from a partner").hex()
    assert staged["content_type"] == "text/csv"
    assert staged["metadata"]["from"] == "ada"
    assert lake.ok("fs", "cat", f"{MAIN}/inbox/x.csv").stdout_bytes == b"from a partner"
    assert lake.ok(*stage, "--json").json == staged
    lake.ok("commit", MAIN, "-m", "from a partner")
    lake.ok("fsck", "lakefs://demo", "--data")


def test_a_limit_of_size_prints_a_form(
    cli: Cli, moto_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    cli.ok("repo", "create", "lakefs://demo", f"s3://{new_bucket(moto_endpoint)}/a lake")
    words = ("fs", "presign", "--put", f"{MAIN}/inbox/x", "--max-size", "1kB")
    asked = cli.ok(*words)
    fields = dict(line.split(": ", 1) for line in asked.lines)
    assert "to send a file: the command behind Send" in asked.stderr
    assert "signature" not in asked.stderr
    sent = cli.directory / "sent"
    sent.write_bytes(b"from a partner")
    command = shlex.split(fields["Send"].replace("FILE", str(sent)))
    subprocess.run([require_tool("curl"), *command[1:]], env={}, check=True, timeout=60)
    cli.ok("fs", "stage", f"{MAIN}/inbox/x", "--incoming", fields["ID"])
    assert cli.ok("fs", "cat", f"{MAIN}/inbox/x").stdout_bytes == b"from a partner"
    record = cli.ok(*words, "--json").json
    policy = json.loads(b64decode(record["fields"]["policy"]))
    assert ["content-length-range", 0, 1_000] in policy["conditions"]
    assert cli.ok("fs", "presign", "--put", f"{MAIN}/x", "--json").json["fields"] == {}
    for wrong in (("--max-size", "0"), ("--max-size", "6GiB")):
        assert cli("fs", "presign", "--put", f"{MAIN}/x", *wrong).exit_code == ExitCode.USAGE
    refused = cli("fs", "presign", f"{MAIN}/x", "--max-size", "1")
    assert "--max-size need --put" in refused.stderr


def test_count_prints_many_upload_urls(lake: Cli) -> None:
    asked = lake.ok("fs", "presign", "--put", f"{MAIN}/inbox/x", "-n", "3")
    assert asked.stdout.count("\n\nID: ") == 2
    assert asked.stdout.count("URL: ") == 3
    records = lake.ok("fs", "presign", "--put", f"{MAIN}/x", "--count=2", "--json").json_lines
    assert len({record["id"] for record in records}) == 2
    assert all(record["id"] in record["url"] for record in records)
    assert SECRET_KEY not in asked.stdout
    below = lake.ok("fs", "presign", "--put", f"{MAIN}/inbox/", "-n", "2").stderr
    assert f"lakecli fs stage {MAIN}/inbox/NAME --incoming ID" in below


# Elsewhere


def test_an_object_outside_is_staged(demo: Demo, golden: Golden) -> None:
    file = demo.cli.directory / "elsewhere.csv"
    file.write_text("hello")
    options = ("--size", "5", "--checksum", blake3_of(b"hello").hex(), "--mtime", "1600000000")
    staged = demo.cli("fs", "stage", f"{MAIN}/b.csv", "--location", file, *options, "--meta", "k=v")
    golden(
        "fs_stage",
        staged,
        demo.cli("fs", "stat", f"{MAIN}/b.csv", "--json"),
        demo.cli("fs", "cat", f"{MAIN}/b.csv"),
    )


def test_staging_at_a_directory_keeps_the_name_or_is_refused(demo: Demo) -> None:
    options = ("--size", "5", "--checksum", blake3_of(b"hello").hex())
    file = demo.cli.directory / "elsewhere.csv"
    file.write_text("hello")
    demo.cli.ok("fs", "stage", f"{MAIN}/in/", "--location", file, *options)
    assert demo.cli.ok("fs", "cat", f"{MAIN}/in/elsewhere.csv").stdout == "hello"
    empty = ("--size", "0", "--checksum", "e")
    demo.cli.ok("fs", "stage", f"{MAIN}/in/", "--location", "s3://b/dir/", *empty)
    assert demo.cli.ok("fs", "stat", f"{MAIN}/in/", "--json").json["size"] == 0
    refused = [
        demo.cli("fs", "stage", f"{MAIN}/in/", "--location", "s3://b/dir/", *options),
        demo.cli("fs", "stage", f"{MAIN}/in/", "--incoming", "0" * 32),
        demo.cli("fs", "presign", f"{MAIN}/in/", "--put"),
    ]
    for each in refused:
        assert each.exit_code == ExitCode.USAGE
        assert f"{MAIN}/in/NAME" in each.stderr


def test_stage_refuses(demo: Demo, golden: Golden) -> None:
    def run(*options: str, path: str = f"{MAIN}/b.csv") -> Result:
        return demo.cli("fs", "stage", path, *options)

    inside = f"{demo.namespace}/data/x"
    golden(
        "fs_stage_refuses",
        run(),
        run("--incoming", "0" * 32, "--location", "s3://b/k"),
        run("--location", "s3://b/k"),
        run("--location", "s3://b/k", "--size", "1", "--checksum", " "),
        run("--location", "s3://b", "--size", "1", "--checksum", "e"),
        run("--location", inside, "--size", "1", "--checksum", "e"),
        run("--location", "s3://b/k", "--size", "1", "--checksum", "e", "--mtime", "9" * 15),
        run("--incoming", "0" * 32, "--size", "1"),
        run("--incoming", "x"),
        run("--incoming", "0" * 32),
        run("--incoming", "0" * 32, path="lakefs://demo/nowhere/a"),
        run("--incoming", "0" * 32, path="lakefs://demo/main/"),
    )


# In other clouds


def test_a_partner_uses_azure_and_gcs(other_cloud: Cli) -> None:
    cli = other_cloud
    source = cli.directory / "source"
    contents = {"a.csv": b"a,b\n", "it's $(odd)/ü": b"odd", "large": b"0123456789" * 100_000}
    for name, data in contents.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    cli.ok("fs", "upload", "-r", source, f"{MAIN}/data/")
    script, manifest = cli.directory / "get.sh", cli.directory / "links.json"
    cli.ok("fs", "presign", "-r", f"{MAIN}/data", "--script", script, "--manifest", manifest)
    machine = partner(cli.directory)
    done = machine.run(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.files() == {os.fsencode(name): data for name, data in contents.items()}
    cli.ok("fs", "presign", "--check", manifest)
    asked = cli.ok("fs", "presign", "--put", f"{MAIN}/inbox/x.csv", "--json").json
    command = [require_tool("curl"), "-sSf", "-T", str(source / "a.csv"), asked["url"]]
    for name, value in asked["headers"].items():
        command += ["-H", f"{name}: {value}"]
    subprocess.run(command, env={}, check=True, timeout=60)
    cli.ok("fs", "stage", f"{MAIN}/inbox/x.csv", "--incoming", asked["id"])
    assert cli.ok("fs", "cat", f"{MAIN}/inbox/x.csv").stdout_bytes == contents["a.csv"]


# What cannot be


def test_a_directory_repository_has_no_urls(demo: Demo, golden: Golden) -> None:
    demo.stage({"data/a": "1"})
    golden(
        "fs_presign_many_local",
        demo.cli("fs", "presign", "-r", f"{MAIN}/data/"),
        demo.cli("fs", "presign", "-r", f"{MAIN}/data/", "--json"),
        demo.cli("fs", "presign", "-r", f"{MAIN}/nothing/"),
        demo.cli("fs", "presign", "--put", f"{MAIN}/data/a"),
    )


def test_contradicting_options_are_refused(demo: Demo, golden: Golden) -> None:
    path = f"{MAIN}/data/"
    golden(
        "fs_presign_usage",
        demo.cli("fs", "presign"),
        demo.cli("fs", "presign", path),
        demo.cli("fs", "presign", MAIN),
        demo.cli("fs", "presign", path, "-r", "--put"),
        demo.cli("fs", "presign", path, "--check", "x"),
        demo.cli("fs", "presign", "--check", "x", "--expires", "1h"),
        demo.cli("fs", "presign", path, "--script", "x"),
        demo.cli("fs", "presign", path, "-n", "2"),
        demo.cli("fs", "presign", f"{path}x", "--put"),
        demo.cli("fs", "presign", "lakefs://demo/main~1/a", "--put"),
        demo.cli("fs", "presign", "-r", path, "--manifest", "x.txt"),
        demo.cli("fs", "presign", "-r", path, "--format", "csv", "--json"),
        demo.cli("fs", "presign", "-r", path, "--format", "pdf"),
    )


@pytest.mark.parametrize("format_", ["csv", "json", "html"])
def test_a_terminal_gets_no_control_characters(lake: Cli, format_: str) -> None:
    name = "a\x1b[31m\x9b1m\u202e"
    lake.ok("fs", "upload", "-s", "-", f"{MAIN}/esc/{name}", stdin="x")
    argv = ("fs", "presign", "-r", f"{MAIN}/esc/", "--format", format_)
    for env in ({}, {"NO_COLOR": "1"}):
        shown = lake(*argv, terminal=True, env=env).stdout
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert "\r" not in shown
        assert shown.count("\n") > 1
    piped = lake(*argv).stdout_bytes
    file = lake.directory / f"links.{format_}"
    lake(*argv, "--manifest", file)
    assert (name.encode() in piped) == (format_ == "csv")
    assert (name.encode() in file.read_bytes()) == (format_ == "csv")
    if format_ == "csv":
        assert "\\033[31m\\302\\2331m" in shown
