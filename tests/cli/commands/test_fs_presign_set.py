"""The way back of a hand-over: a partner sends files with curl, and all are staged at once."""

from __future__ import annotations

import json
import stat
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from lakecli.base.identity import blake3_of
from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from tests.cli.commands.test_fs_presign import other_cloud  # noqa: F401 - a fixture
from tests.support.partners import SENDING_TOOLS, Partner, link_tools, shell_tools
from tests.support.servers import new_bucket
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"
CONTENTS = {"a b.csv": b"a,b\n", 'd/it\'s "odd"': b"odd", "empty": b"", "large": b"x" * 3_000_000}


@pytest.fixture
def lake(cli: Cli, rclone_endpoint: str, aws_environment: pytest.MonkeyPatch) -> Cli:
    """A repository in a bucket of a server that checks signatures."""
    aws_environment.setenv("AWS_ENDPOINT_URL", rclone_endpoint)
    cli.now = system_now()
    cli.ok("repo", "create", "lakefs://demo", f"s3://{new_bucket(rclone_endpoint)}/a lake")
    return cli


def partner(directory: Path) -> Partner:
    place = directory / "place"
    for name, data in CONTENTS.items():
        file = place / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    tools = shell_tools() | {name: require_tool(name) for name in SENDING_TOOLS}
    return Partner([require_tool("dash")], place, link_tools(directory / "bin", tools))


def send_and_stage(cli: Cli, *options: str, skip_empty: bool = False) -> None:
    script = cli.directory / "put.sh"
    told = cli.ok("fs", "presign", "--put", f"{MAIN}/inbox/", *options, "--script", script)
    assert "http" not in told.stdout + told.stderr
    assert f"lakecli fs stage {MAIN}/inbox/ --arrived" in told.stderr
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    before = cli.ok("fs", "stage", f"{MAIN}/inbox/", "--arrived", "--json").json_lines
    assert {each["state"] for each in before} <= {"awaited"}
    machine = partner(cli.directory)
    contents = dict(CONTENTS)
    if skip_empty:
        (machine.directory / "empty").unlink()
        del contents["empty"]
    done = machine.run(script)
    assert (done.returncode, done.stderr) == (0, "")
    found = cli.ok("fs", "stage", f"{MAIN}/inbox/", "--arrived", "--json").json_lines
    assert [(each["path"], each["state"], each["size"], each["reason"]) for each in found] == [
        (f"inbox/{name}", "staged", len(data), "") for name, data in sorted(contents.items())
    ]
    for name, data in contents.items():
        entry = cli.ok("fs", "stat", f"{MAIN}/inbox/{name}", "--json").json
        assert entry["checksum"] == blake3_of(data).hex()
    again = cli.ok("fs", "stage", f"{MAIN}/inbox/", "--arrived").lines
    assert {line.split("\t")[0] for line in again} == {"staged-before"}


def test_a_partner_sends_files_that_keep_their_names(lake: Cli) -> None:
    send_and_stage(lake, "-n", "9")
    lake.ok("commit", MAIN, "-m", "from a partner")
    lake.ok("fsck", "lakefs://demo", "--data")


def test_what_was_staged_together_is_undone_together(lake: Cli) -> None:
    send_and_stage(lake, "-n", "9")
    lake.ok("undo", "lakefs://demo")
    assert lake.ok("fs", "ls", "-r", f"{MAIN}/").stdout == ""
    lake.ok("redo", "lakefs://demo")
    assert len(lake.ok("fs", "ls", "-r", f"{MAIN}/").lines) == len(CONTENTS)


def test_a_partner_sends_files_that_are_named(lake: Cli) -> None:
    names = lake.directory / "names"
    names.write_text("".join(f"{name}\n" for name in CONTENTS))
    send_and_stage(lake, "--files-from", str(names))


def test_forms_hold_a_partner_to_a_size(
    cli: Cli, moto_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    cli.ok("repo", "create", "lakefs://demo", f"s3://{new_bucket(moto_endpoint)}/a lake")
    send_and_stage(cli, "-n", "9", "--max-size", "3MB")
    script = cli.directory / "small.sh"
    cli.ok("fs", "presign", "--put", f"{MAIN}/small/", "--max-size=2MB", "-n9", "--script", script)
    done = partner_of(cli).run(script)
    assert (done.returncode, "large: it has more than 2000000 bytes" in done.stderr) == (1, True)


def partner_of(cli: Cli) -> Partner:
    return Partner([require_tool("dash")], cli.directory / "place", cli.directory / "bin")


def test_a_partner_sends_files_to_azure_and_gcs(other_cloud: Cli) -> None:  # noqa: F811
    # The emulator of Google Cloud Storage does not answer a signed upload of no bytes.
    is_google = "gs://" in other_cloud.ok("repo", "list").stdout
    send_and_stage(other_cloud, "-n", "9", skip_empty=is_google)


LARGE = bytes(range(256)) * (13 << 12)
PART = 5 << 20


def send_parts(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a large file, interrupted after its first part, and then another one in its place."""
    monkeypatch.setattr("lakecli.repository.handoff.link_sets.SMALLEST_PART", PART)
    script, arrived = cli.directory / "put.sh", ("fs", "stage", f"{MAIN}/in/", "--arrived")
    cli.ok("fs", "presign", "--put", f"{MAIN}/in/", "-n", "2", "--script", script)
    assert "sent in parts, and goes on where it was interrupted" in script.read_text()
    machine, log, down = partner(cli.directory), cli.directory / "log", cli.directory / "down"
    for file in machine.directory.rglob("*"):
        if file.is_file():
            file.unlink()
    (machine.directory / "large").write_bytes(LARGE)
    curl = machine.path / "curl"
    curl.unlink()
    curl.write_text(
        f"""#!/bin/sh
case $* in *' conf')
    echo x >>{log}
    if [ -f {down} ] && [ "$(wc -l <{log})" -eq 2 ]; then rm {down}; exit 7; fi ;;
esac
exec {require_tool("curl")} "$@"
"""
    )
    curl.chmod(0o755)
    down.touch()
    first = machine.run(script)
    assert (first.returncode, "large: the server cannot be reached" in first.stderr) == (1, True)
    (waits,) = cli.ok(*arrived, "--json").json_lines
    assert (waits["state"], waits["size"]) == ("awaited", None)
    second = machine.run(script)
    assert (second.returncode, second.stderr) == (0, "")
    assert log.read_text().count("x") == 3, "two parts, of which one is sent again"
    (dry,) = cli.ok(*arrived, "--dry-run", "--json").json_lines
    (done,) = cli.ok(*arrived, "--json").json_lines
    assert (dry["state"], dry["size"]) == ("arrived", len(LARGE))
    assert (done["state"], done["size"], done["reason"]) == ("staged", len(LARGE), "")
    entry = cli.ok("fs", "stat", f"{MAIN}/in/large", "--json").json
    assert entry["checksum"] == blake3_of(LARGE).hex()
    again = machine.run(script)
    assert (again.returncode, log.read_text().count("x")) == (0, 3), "nothing is sent again"
    (machine.directory / "large").write_bytes(LARGE[::-1])
    assert machine.run(script).returncode == 0
    assert log.read_text().count("x") == 4, "what replaces a file is sent whole"
    (done,) = cli.ok(*arrived, "--json").json_lines
    assert (done["state"], done["size"], done["reason"]) == ("staged", len(LARGE), "")


def test_a_large_file_goes_on_where_it_was_interrupted(
    lake: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_parts(lake, monkeypatch)


def test_a_part_has_exactly_its_size(lake: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecli.repository.handoff.link_sets.SMALLEST_PART", PART)
    page = lake.directory / "put.html"
    lake.ok("fs", "presign", "--put", f"{MAIN}/in/", "-n", "1", "--page", page)
    data = json.loads(page.read_text().partition('id="links">')[2].partition("</script>")[0])
    start, *ends = data["links"][0]["parts"]
    assert (data["part_size"], len(ends)) == (PART, data["max_size"] // PART)

    def send(number: int, size: int) -> int:
        request = Request(start + ends[number], bytes(size), method="PUT")
        request.add_header("Content-Type", "")
        try:
            with urlopen(request) as answer:
                return int(answer.status)
        except HTTPError as error:
            error.close()
            return error.code

    assert [send(0, PART + 1), send(1, PART), send(1, 1)] == [200, 200, 403]


def test_large_files_to_azure_and_gcs(
    other_cloud: Cli,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send_parts(other_cloud, monkeypatch)


def test_a_refused_file_is_named_and_the_others_are_staged(lake: Cli) -> None:
    script = lake.directory / "put.sh"
    words = ("fs", "stage", f"{MAIN}/inbox/", "--arrived")
    lake.ok("fs", "presign", "--put", f"{MAIN}/inbox", "-n", "9", "--script", script)
    machine = partner(lake.directory)
    (machine.directory / ".git").mkdir()
    (machine.directory / "c").mkdir()
    (machine.directory / "c" / "lakecli~1").write_bytes(b"")
    (machine.directory / "GIT~1").write_bytes(b"own")
    assert machine.run(script).returncode == 0
    told = lake(*words)
    assert told.exit_code == ExitCode.PARTIAL
    assert "cannot stage " in told.stderr
    assert "1 refused, 5 staged" in told.stderr
    link = next(line.split("\t")[3] for line in told.lines if line.startswith("refused"))
    lake.ok("fs", "stage", f"{MAIN}/inbox/git-1", "--incoming", link)
    assert lake.ok("fs", "cat", f"{MAIN}/inbox/git-1").stdout == "own"


def test_links_in_files_work_for_a_day(lake: Cli) -> None:
    def life(*options: str) -> timedelta:
        page = lake.directory / "page.html"
        told = lake.ok("fs", "presign", *options, "--page", page, "--json")
        assert "warning: the first" not in told.stderr
        start, end = (
            system_now().fromisoformat(told.json[name]) for name in ("created_at", "expires_at")
        )
        return end - start.replace(microsecond=0)  # signatures have whole seconds

    lake.ok("fs", "upload", "-s", "-", f"{MAIN}/out/a", stdin="a")
    for options in (("-r", f"{MAIN}/out/"), ("--put", f"{MAIN}/in/", "-n", "2")):
        assert life(*options) == timedelta(days=1)
        assert life(*options, "--expires", "2h") == timedelta(hours=2)
        lake.ok("config", "set", "presign.expires", "3h")
        assert life(*options) == timedelta(hours=3)
        lake.ok("config", "unset", "presign.expires")
    (url,) = lake.ok("fs", "presign", "-r", f"{MAIN}/out/", "--json").json_lines
    left = system_now().fromisoformat(url["expires_at"]) - lake.now
    assert left <= timedelta(minutes=15)
    page = lake.directory / "page.html"
    early = lake.ok("fs", "presign", "--put", f"{MAIN}/in/", "-n2", "--page", page, "--expires=8d")
    assert "warning: the first URL expires earlier than asked for" in early.stderr


def test_a_page_names_its_sender_only_if_asked(lake: Cli) -> None:
    lake.ok("fs", "upload", "-s", "-", f"{MAIN}/out/a", stdin="a")
    lake.ok("config", "set", "user.name", "Ada Lovelace")
    lake.ok("config", "set", "user.email", "ada@example.com")
    page = lake.directory / "page.html"
    for options in (("-r", f"{MAIN}/out/"), ("--put", f"{MAIN}/in/", "-n", "2")):
        lake.ok("fs", "presign", *options, "--page", page)
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert "ada@example.com" not in page.read_text()
        assert "Ada" not in page.read_text()
        lake.ok("fs", "presign", *options, "--page", page, "--signed-by", "--title", "Prices")
        assert "signed by Ada Lovelace &lt;ada@example.com&gt; on" in page.read_text()
        assert "<h1><bdi>Prices</bdi></h1>" in page.read_text()


def test_script_and_page_are_of_one_set(lake: Cli) -> None:
    page, script = lake.directory / "p", lake.directory / "s"
    files = ("--page", page, "--script", script)
    told = lake.ok("fs", "presign", "--put", f"{MAIN}/in/", "-n", "3", *files, "--json").json
    assert (told["count"], told["prefix"], told["branch"]) == (3, "in/", "main")
    data = json.loads(page.read_text().partition('id="links">')[2].partition("</script>")[0])
    assert all(f"l {link['id']} " in script.read_text() for link in data["links"])


def test_options_of_sets_are_checked(demo: Demo, golden: Golden) -> None:
    put = ("fs", "presign", "--put", f"{MAIN}/in/")
    golden(
        "fs_presign_set_refuses",
        demo.cli(*put, "-n", "2", "--page", "p", "--manifest", "m.json"),
        demo.cli(*put, "--files-from", "/dev/null"),
        demo.cli(*put, "--files-from", "/dev/null", "--page", "p"),
        demo.cli(*put, "-n", "1001", "--page", "p"),
        demo.cli("fs", "presign", "--put", f"{MAIN}/", "-n", "2", "--page", "p"),
        demo.cli("fs", "presign", "--put", "lakefs://demo/main~1/in/", "-n", "2", "--page", "p"),
        demo.cli(*put, "-n", "2", "--page", "p"),
        demo.cli("fs", "stage", f"{MAIN}/in/", "--arrived"),
        demo.cli("fs", "stage", f"{MAIN}/in/", "--arrived", "--incoming", "0" * 32),
        demo.cli("fs", "stage", f"{MAIN}/in/", "--arrived", "--size", "1"),
        demo.cli("fs", "stage", f"{MAIN}/in/a", "--incoming", "0" * 32, "--dry-run"),
    )
