"""``--log-level``, ``--log-format``, ``--log-output``, and the requests of ``--verbose``."""

from __future__ import annotations

import errno
import io
import json
import logging
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.out.logs import harmless
from lakecli.cli.out.output import Guarded, Output
from tests.cli.test_startup import modules_after
from tests.support.servers import SECRET_KEY, new_bucket

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli

ABSENT = ("fs", "cat", "lakefs://demo/main/absent")


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.usefixtures("demo")
def test_a_log_of_text_is_written_to_standard_error(cli: Cli) -> None:
    result = cli("--log-level", "info", *ABSENT)
    begin, error, end, *shown = result.stderr.splitlines()
    assert re.sub("^time=2026-03-01T12:00:0.Z ", "", begin) == (
        "level=info msg=begin logger=lakecli.cli "
        'command="--log-level info fs cat lakefs://demo/main/absent"'
    )
    assert error.endswith(
        'level=error msg="no object at lakefs://demo/main/absent" logger=lakecli.cli kind=not_found'
    )
    assert re.search(r"msg=end logger=lakecli.cli exit_code=6 seconds=[\d.]+ requests=0$", end)
    assert shown == cli(*ABSENT).stderr.splitlines()
    assert result.exit_code == ExitCode.NOT_FOUND


def test_a_log_of_json_is_appended_to_a_file(cli: Cli, demo: Demo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = (f"--log-output={log}", "--log-format", "json", "--log-level=DEBUG")
    demo.stage({"a": "1"})
    cli.ok("commit", "lakefs://demo/main", "-m", "first", *options)
    found = records(log)
    assert [each["msg"] for each in found if each["level"] == "info"] == ["begin", "end"]
    assert found[0]["command"].startswith("commit lakefs://demo/main -m first ")
    assert found[-1]["exit_code"] == 0
    assert {each["step"] for each in found if each["msg"] == "step"} >= {"seal", "move"}
    assert cli(*ABSENT, *options).stderr == cli(*ABSENT).stderr
    assert records(log)[-1]["exit_code"] == 6
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.usefixtures("demo")
def test_no_log_costs_nothing() -> None:
    loaded = modules_after("branch", "list", "lakefs://demo")
    assert not loaded & {"lakecli.cli.out.logs", "logging"}


@pytest.mark.usefixtures("demo")
def test_levels_leave_messages_out(cli: Cli) -> None:
    result = cli("--log-level", "error", "--log-format", "json", *ABSENT)
    assert [json.loads(line)["level"] for line in result.stderr.splitlines()[:-2]] == ["error"]
    noted = cli("--log-level", "info", "fs", "rm", "lakefs://demo/main/absent", "-q")
    assert "level=info msg=" in noted.stderr
    assert not logging.getLogger("lakecli").handlers


def test_wrong_values_are_refused(cli: Cli, tmp_path: Path) -> None:
    for line, error in (
        ("--log-level loud", "--log-level: no such value: 'loud'"),
        ("--log-format xml", "--log-format: no such value: 'xml'"),
        ("--log-output=", "--log-output names no file"),
    ):
        result = cli("version", *line.split())
        assert (result.exit_code, error in result.stderr) == (ExitCode.USAGE, True), result
    refused = cli("version", "--log-output", tmp_path / "absent" / "log")
    assert refused.exit_code == ExitCode.PERMISSION
    assert "cannot write the log" in refused.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has this device")
def test_a_log_that_cannot_be_written_does_not_end_the_command(cli: Cli, demo: Demo) -> None:
    demo.stage({"a": "1"})
    options = ("--log-level", "debug", "--log-output", "/dev/full")
    committed = cli.ok("commit", "lakefs://demo/main", "-m", "first", *options)
    assert "warning: the log /dev/full is incomplete: " in committed.stderr


def test_a_command_is_finished_though_its_messages_cannot_be_written() -> None:
    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(errno.ENOSPC, "no space")

    out = io.StringIO()
    output = Output(out, Full())
    output.warn("message")
    print("message", file=Guarded(Full()))
    output.emit({}, text=lambda: ["result"])
    output.flush()
    assert out.getvalue() == "result\n"


def test_no_secret_is_logged_and_requests_are_counted(
    cli: Cli, tmp_path: Path, moto_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    log = tmp_path / "log"
    options = ("--log-level", "trace", "--log-output", str(log), "--log-format", "json")
    namespace = f"s3://{new_bucket(moto_endpoint)}/lake"
    cli.ok("repo", "create", "lakefs://demo", namespace, *options)
    (tmp_path / "a").write_text("a")
    cli.ok("fs", "upload", tmp_path / "a", "lakefs://demo/main/a", *options)
    url = cli.ok("fs", "presign", "lakefs://demo/main/a", *options).stdout.strip()
    cli("clone", url.replace("http://", "https://user:pass@"), "lakefs://other", *options)
    text = log.read_text()
    for secret in (SECRET_KEY, "X-Amz-Signature", "user:pass", "Authorization"):
        assert secret not in text
    assert url.partition("?")[0] in text  # of the upload
    log.unlink()
    shown = cli.ok("fs", "cat", "lakefs://demo/main/a", "--verbose", *options)
    requests = [each for each in records(log) if each["logger"] == "lakecli.requests"]
    assert [each["method"] for each in requests] == ["GET"]
    assert requests[0]["status"] == 206  # no more is asked for than the entry says, and one byte
    assert records(log)[-1]["requests"] == 1
    assert shown.stderr.splitlines()[-1] == "debug: requests to buckets: 1 (1 GET)"
    assert "reads of trees" not in shown.stderr  # it is staged
    cli.ok("commit", "lakefs://demo/main", "-m", "first")
    cli.ok("push", "lakefs://demo/main")
    # The state of collection, and the refs.
    fetched = cli.ok("fetch", "lakefs://demo", "--verbose").stderr.splitlines()
    assert fetched[-1] == "debug: requests to buckets: 2 (2 GET)"
    # The bucket's region; the repository, the branch, its pack, the object: the tree is cached.
    in_place = cli.ok("fs", "cat", f"{namespace}@main/a", "--verbose").stderr.splitlines()
    assert in_place[-1] == "debug: requests to buckets: 5 (4 GET, 1 HEAD)"


def test_reads_of_trees_are_counted_by_tier(
    cli: Cli, home: Path, tmp_path: Path, moto_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    cli.ok("repo", "create", "lakefs://demo", f"s3://{new_bucket(moto_endpoint)}/lake")
    (tmp_path / "a").write_text("a")
    cli.ok("fs", "upload", tmp_path / "a", "lakefs://demo/main/a")
    cli.ok("commit", "lakefs://demo/main", "-m", "first")
    log = tmp_path / "log"
    cat = ("fs", "cat", "lakefs://demo/main/a", "--verbose")
    shown = cli.ok(*cat, "--log-output", log, "--log-format", "json").stderr.splitlines()
    # The metarange, the index of the range, and its block.
    expected = "debug: reads of trees: 3 (0 from memory, 3 from disk, 0 from the bucket)"
    assert shown[-2] == expected
    assert records(log)[-1]["reads_disk"] == 3
    (directory,) = (each for each in (home / "lakecli" / "cache").iterdir() if each.is_dir())
    for file in directory.iterdir():
        if file.name != ".reads":
            file.unlink()
    shown = cli.ok(*cat).stderr.splitlines()
    expected = "debug: reads of trees: 3 (0 from memory, 1 from disk, 2 from the bucket)"
    assert shown[-2] == expected  # the small range was read whole, so its block is on the disk
    checks = cli("doctor", "lakefs://demo", "--json").json["checks"]
    (cache,) = (each for each in checks if each["name"] == "cache")
    assert int(cache["details"]["bucket"]) == 2
    assert int(cache["details"]["disk"]) >= 3
    assert int(cache["details"]["used"]) > 0
    assert cache["seen"].endswith(", 2 from the bucket)")


def test_urls_lose_what_may_be_secret() -> None:
    assert harmless("at https://u:p@h/x?sig=1&b=2 and http://h/y") == (
        "at https://h/x?... and http://h/y"
    )
    assert harmless("lakefs://demo/main/a?b") == "lakefs://demo/main/a?b"
