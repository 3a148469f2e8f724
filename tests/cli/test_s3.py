"""A repository in a bucket, from its creation to a presigned URL, and errors of buckets."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from tests.support.servers import SECRET_KEY, free_port, new_bucket
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.golden import Cli, Result

MAIN = "lakefs://demo/main"
CONTENTS = {
    "a.csv": b"a,b\n1,2\n",
    "100% odd?#\n.txt": b"odd",
    "empty": b"",
    "large.bin": b"0123456789abcdef" * 600_000,
    "sub/ünï": "ü".encode(),
}


RCLONE = pytest.param("rclone", marks=pytest.mark.servers)


@pytest.fixture(params=[RCLONE, "moto"])
def bucket(request: pytest.FixtureRequest, cli: Cli, aws_environment: pytest.MonkeyPatch) -> str:
    """A new bucket at a server; rclone checks signatures, moto knows conditions."""
    endpoint = request.getfixturevalue(f"{request.param}_endpoint")
    aws_environment.setenv("AWS_ENDPOINT_URL", endpoint)
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    cli.now = system_now()  # servers take no signature of another day
    return new_bucket(endpoint)


@pytest.fixture
def source(cli: Cli) -> Path:
    root = cli.directory / "source"
    for name, data in CONTENTS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


@pytest.fixture
def demo(cli: Cli, bucket: str, source: Path) -> None:
    """A repository in the bucket with one commit."""
    cli.ok("repo", "create", "lakefs://demo", f"s3://{bucket}/lake")
    cli.ok("fs", "upload", "-r", source, f"{MAIN}/data/")
    cli.ok("commit", MAIN, "-m", "first")


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def error_of(result: Result) -> str:
    """The one line that says what happened."""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("hint: ")]
    assert len(lines) == 1, result
    assert lines[0].startswith("error: "), result
    assert "Traceback" not in result.stderr
    return lines[0]


@pytest.mark.usefixtures("demo")
def test_a_repository_in_a_bucket_works(cli: Cli, source: Path) -> None:
    listed = cli.ok("fs", "ls", "-r", f"{MAIN}/data/", "--json").json_lines
    assert [item["path"] for item in listed] == sorted(
        (f"data/{name}" for name in CONTENTS), key=str.encode
    )
    assert cli.ok("fs", "cat", f"{MAIN}/data/large.bin").stdout_bytes == CONTENTS["large.bin"]
    again = cli.ok("fs", "upload", "-r", source, f"{MAIN}/data/", "--json").json
    assert (again["uploaded"], again["unchanged"]) == (0, len(CONTENTS))
    cli.ok("branch", "create", "lakefs://demo/dev", "-s", MAIN)
    cli.ok("fs", "upload", "-", "lakefs://demo/dev/data/a.csv", stdin="changed")
    cli.ok("fs", "rm", "lakefs://demo/dev/data/empty")
    cli.ok("commit", "lakefs://demo/dev", "-m", "second")
    cli.ok("merge", "lakefs://demo/dev", MAIN)
    target = cli.directory / "target"
    cli.ok("fs", "download", "-r", f"{MAIN}/data", target)
    expected = {name: data for name, data in CONTENTS.items() if name != "empty"}
    assert contents(target) == expected | {"a.csv": b"changed"}
    cli.ok("fsck", "lakefs://demo", "--data")


@pytest.mark.usefixtures("demo")
def test_presigned_urls_work(cli: Cli) -> None:
    require_tool("curl")

    def fetch(url: str) -> tuple[bytes, str]:
        command = ["curl", "--silent", "--show-error", "--fail", "--dump-header", "-", url]
        answer = subprocess.run(command, capture_output=True, check=True).stdout
        head, _, body = answer.partition(b"\r\n\r\n")
        return body, head.decode().lower()

    for name, data in CONTENTS.items():
        signed = cli.ok("fs", "presign", f"{MAIN}/data/{name}")
        body, head = fetch(signed.stdout.removesuffix("\n"))
        assert body == data
        assert signed.stdout.startswith("http")
        assert signed.stderr.startswith("expires at ")
    body, head = fetch(cli.ok("fs", "presign", "-q", f"{MAIN}/data/a.csv").stdout.strip())
    assert "content-type: text/csv" in head
    assert 'filename="a.csv"' in head
    record = cli.ok("fs", "presign", f"{MAIN}/data/a.csv", "--json").json
    assert fetch(record["url"])[0] == CONTENTS["a.csv"]
    ends = datetime.fromisoformat(record["expires_at"])
    assert abs(ends - cli.now - timedelta(minutes=15)) < timedelta(seconds=5)


@pytest.mark.usefixtures("demo")
def test_stat_shows_a_url_only_with_pre_sign(cli: Cli, bucket: str) -> None:
    path = f"{MAIN}/data/a.csv"
    for plain in (cli.ok("fs", "stat", path), cli.ok("fs", "stat", path, "--pre-sign=false")):
        assert f"Physical Address: s3://{bucket}/lake/data/" in plain.stdout
        assert "X-Amz" not in plain.stdout
        assert "Expires" not in plain.stdout
    shown = cli.ok("fs", "stat", "--pre-sign", "--expires", "2h", path)
    assert "Physical Address: http" in shown.stdout
    assert "X-Amz-Expires=7200" in shown.stdout
    assert "Physical Address Expires: " in shown.stdout
    cut = cli.ok("fs", "stat", "--pre-sign", "--expires", "30d", path, "--json")
    assert cut.stderr.startswith("warning: the URL expires earlier than asked for")
    ends = datetime.fromisoformat(cut.json["expires_at"])
    assert abs(ends - cli.now - timedelta(days=7)) < timedelta(seconds=5)
    assert cut.json["physical_address"].startswith("s3://")


@pytest.mark.usefixtures("demo")
def test_an_unreachable_endpoint_is_reported(
    cli: Cli, source: Path, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    cli.ok("fs", "stat", f"{MAIN}/data/a.csv")  # needs no bucket
    cli.ok("fs", "presign", f"{MAIN}/data/a.csv")  # nor does this
    target = cli.directory / "target"
    for arguments in (
        ("fs", "upload", "-r", source, f"{MAIN}/new/"),
        ("fs", "upload", source / "a.csv", f"{MAIN}/new/a.csv"),
        ("fs", "upload", source / "large.bin", f"{MAIN}/new/large"),
        ("fs", "cat", f"{MAIN}/data/a.csv"),
        ("fs", "download", "-r", f"{MAIN}/data", target),
        ("fs", "download", f"{MAIN}/data/a.csv", target),
        ("repo", "create", "lakefs://other", "s3://bucket/other"),
    ):
        failed = cli(*arguments)
        assert failed.exit_code == ExitCode.UNREACHABLE, failed
        assert "does not answer" in error_of(failed)
        assert "AWS_ENDPOINT_URL" in failed.stderr
    nothing_is_half_done(cli, target)


def nothing_is_half_done(cli: Cli, target: Path) -> None:
    assert not target.exists()
    assert cli.ok("fs", "ls", f"{MAIN}/new/").stdout == ""
    assert cli.ok("diff", MAIN).lines == [f"Ref: {MAIN}"]
    assert len(cli.ok("repo", "list", "--json").lines) == 1


@pytest.mark.usefixtures("demo")
def test_a_missing_bucket_is_reported(
    cli: Cli, source: Path, bucket: str, aws_environment: pytest.MonkeyPatch
) -> None:
    failed = cli("repo", "create", "lakefs://other", f"s3://{bucket}-2/other")
    assert failed.exit_code == ExitCode.NOT_FOUND
    assert "no such bucket" in error_of(failed)
    assert "create it" in failed.stderr
    nothing_is_half_done(cli, cli.directory / "target")


@pytest.mark.parametrize("bucket", [RCLONE], indirect=True)
@pytest.mark.usefixtures("demo")
def test_wrong_credentials_are_reported(
    cli: Cli, source: Path, bucket: str, aws_environment: pytest.MonkeyPatch
) -> None:
    target = cli.directory / "target"
    aws_environment.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    for arguments in (
        ("fs", "upload", "-r", source, f"{MAIN}/new/"),
        ("fs", "upload", source / "large.bin", f"{MAIN}/new/large"),
        ("fs", "cat", f"{MAIN}/data/a.csv"),
        ("fs", "download", "-r", f"{MAIN}/data", target),
        ("fs", "download", f"{MAIN}/data/a.csv", target),
        ("repo", "create", "lakefs://other", f"s3://{bucket}/other"),
    ):
        failed = cli(*arguments)
        assert failed.exit_code == ExitCode.PERMISSION, failed
        assert "wrong" not in error_of(failed)
        assert "AWS_" in failed.stderr or "the credentials in use" in failed.stderr
    aws_environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    nothing_is_half_done(cli, target)


@pytest.mark.usefixtures("demo")
def test_missing_credentials_are_reported(
    cli: Cli, source: Path, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.delenv("AWS_ACCESS_KEY_ID")
    aws_environment.delenv("AWS_SECRET_ACCESS_KEY")
    for arguments in (
        ("fs", "upload", "-r", source, f"{MAIN}/new/"),
        ("fs", "presign", f"{MAIN}/data/a.csv"),
    ):
        failed = cli(*arguments)
        assert failed.exit_code == ExitCode.PERMISSION, failed
        assert error_of(failed) == "error: no credentials for S3"
        assert "AWS_ACCESS_KEY_ID" in failed.stderr
    nothing_is_half_done(cli, cli.directory / "target")


@pytest.mark.usefixtures("demo")
def test_pushing_needs_compare_and_set(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada")
    monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.com")
    is_rclone = "rclone" in request.node.callspec.id
    pushed = cli("push", "lakefs://demo")
    again = cli("push", "lakefs://demo")
    if not is_rclone:
        assert pushed.exit_code == again.exit_code == ExitCode.OK
        return
    for result in (pushed, again):
        assert result.exit_code == ExitCode.REFUSED
        assert "cannot be shared" in error_of(result)
        assert "ignores conditions" in error_of(result)
        assert "lakecli doctor lakefs://demo" in result.stderr
