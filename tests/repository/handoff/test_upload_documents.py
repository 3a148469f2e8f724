"""The script that sends files, as a partner runs it, and the page without its program."""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from lakecli.repository.handoff.incoming import UploadLink
from lakecli.repository.handoff.link_sets import LinkSet
from lakecli.repository.handoff.upload_documents import upload_page, upload_script
from lakecli.stores.presigned_urls import LARGEST_PUT, PresignedUrl
from tests.repository.handoff.links import CREATED, END, ODD_NAMES
from tests.repository.handoff.test_page import Reader
from tests.support.partners import (
    SENDING_TOOLS,
    FileServer,
    Partner,
    link_tools,
    shell_tools,
    wait_for_end,
)
from tests.support.script_canaries import VARIABLES, write_canaries
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

KINDS = ("dash", "bash")
LIST = b"sent"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({}) as running:
        yield running


def id_of(number: int) -> str:
    return f"{number:032x}"


def links_of(
    server: FileServer, count: int = 0, names: Sequence[bytes] | None = None, **changed: object
) -> LinkSet:
    def signed(key: bytes) -> PresignedUrl:
        return PresignedUrl(server.url(key), END, {"x-test": 'a "b" \\c'})

    count = len(names) if names is not None else count
    links = [UploadLink(id_of(k), "", signed(id_of(k).encode())) for k in range(count)]
    sent = signed(LIST)
    made = LinkSet(links, names, sent, sent, CREATED, END, LARGEST_PUT, 0)
    return made._replace(**changed)  # type: ignore[arg-type]


def write_script(links: LinkSet, path: Path) -> Path:
    path.write_bytes(upload_script(links))
    return path


def partner(directory: Path, kind: str, without: Sequence[str] = ()) -> Partner:
    place = directory / "place"
    (place / "files").mkdir(parents=True)
    tools = shell_tools() | {name: require_tool(name) for name in SENDING_TOOLS}
    path = link_tools(directory / "bin", {k: v for k, v in tools.items() if k not in without})
    return Partner([require_tool(kind)], place, path)


def fill(machine: Partner, contents: Mapping[bytes, bytes]) -> None:
    for name, data in contents.items():
        file = machine.directory / os.fsdecode(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def listed(server: FileServer) -> dict[bytes, tuple[bytes, ...]]:
    """Return the list of sent files: what stands before each name."""
    lines = server.objects[LIST].removesuffix(b"\n").split(b"\n")
    return {line.split(b" ", 4)[4]: tuple(line.split(b" ", 4)[:4]) for line in lines}


def came(server: FileServer) -> dict[bytes, bytes]:
    """Return the contents that came, by the names in the list; each was sent as listed."""
    found = {}
    for name, (link, size, digest, state) in listed(server).items():
        data = server.objects[link]
        assert (int(size), state) == (len(data), b"+")
        assert digest == b"sha256:" + sha256(data).hexdigest().encode()
        found[name] = data
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_sent_under_their_names(kind: str, server: FileServer, tmp_path: Path) -> None:
    names = [name for name in ODD_NAMES if b"\n" not in name and name[:1] != b"."]
    contents = {name: name * 7 for name in names} | {b"empty": b"", b"sub/d/large": b"x" * 300_000}
    machine = partner(tmp_path, kind)
    fill(machine, contents)
    script = write_script(links_of(server, len(contents)), tmp_path / "put.sh")
    done = machine.run(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{len(contents)} of {len(contents)} files are sent\n"
    assert came(server) == contents
    server.requests.clear()
    again = machine.run(script)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert server.requests == [(LIST, "")], "nothing is sent twice"


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_changed_or_is_new_is_sent_again(
    kind: str, server: FileServer, tmp_path: Path
) -> None:
    machine = partner(tmp_path, kind)
    fill(machine, {b"a": b"1", b"b": b"2"})
    script = write_script(links_of(server, 3), tmp_path / "put.sh")
    machine.run(script)
    before = listed(server)
    fill(machine, {b"a": b"one", b"c": b"3"})
    server.requests.clear()
    assert machine.run(script).returncode == 0
    assert came(server) == {b"a": b"one", b"b": b"2", b"c": b"3"}
    assert listed(server)[b"a"][0] == before[b"a"][0], "a file keeps its link"
    assert len([key for key, kind in server.requests if kind == "PUT" and key != LIST]) == 2
    fill(machine, {b"d": b"4"})
    full = machine.run(script)
    assert (full.returncode, full.stderr.splitlines()[0]) == (1, "d: no link is left for it")
    assert b"d" not in listed(server)


def test_what_an_interrupted_run_did_is_not_done_again(server: FileServer, tmp_path: Path) -> None:
    contents = {b"%02d" % number: b"%d" % number for number in range(60)}
    machine = partner(tmp_path, "dash")
    fill(machine, contents)
    script = write_script(links_of(server, 60), tmp_path / "put.sh")
    server.statuses = {id_of(30).encode(): 403, id_of(31).encode(): 403}
    first = machine.run(script)
    assert first.returncode == 1
    assert first.stderr.count("the server refuses it (403)") == 2
    assert "http" not in first.stderr + first.stdout, "no link is shown"
    server.requests.clear()
    assert machine.run(script).returncode == 0
    assert came(server) == contents
    assert {key for key, kind in server.requests if kind == "PUT"} == {
        *(id_of(number).encode() for number in (30, 31)),
        LIST,
    }


def test_an_interruption_ends_everything_and_leaves_nothing(
    server: FileServer, tmp_path: Path
) -> None:
    before = {each.name for each in tmp_path.parent.iterdir()}
    machine = partner(tmp_path, "dash")
    fill(machine, {b"a": b"1"})
    links = links_of(server, 1)
    (machine.path / "curl").unlink()
    (machine.path / "curl").write_text(
        f"#!/bin/sh\ncase $* in *' conf') exec {require_tool('sleep')} 60 ;; esac\n"
        f'exec {require_tool("curl")} "$@"\n'
    )
    (machine.path / "curl").chmod(0o755)
    with machine.start(write_script(links, tmp_path / "put.sh")) as process:
        while LIST not in server.objects:
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run it again to resume" in err
    assert wait_for_end(process.pid)
    assert listed(server)[b"a"][3] == b"."
    assert {each.name for each in tmp_path.parent.iterdir()} == before


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_asked_for_are_sent_only(
    kind: str, server: FileServer, tmp_path: Path
) -> None:
    names = [b"a.csv", b"d/it's $(odd)", "ü".encode(), b"none"]
    machine = partner(tmp_path, kind)
    contents = {name: name for name in names[:3]}
    fill(machine, {**contents, b"other": b"no"})
    done = machine.run(write_script(links_of(server, names=names), tmp_path / "put.sh"))
    assert done.returncode == 1
    assert done.stderr.startswith("none: there is no such file in ")
    assert came(server) == contents


def test_what_no_line_can_hold_is_not_sent(server: FileServer, tmp_path: Path) -> None:
    machine = partner(tmp_path, "dash")
    fill(machine, {b"a\nb": b"1", b"c": b"2", b".hidden": b"3", b"d/.x/y": b"4"})
    (machine.directory / "link").symlink_to("c")
    (machine.directory / "up").symlink_to("..")
    done = machine.run(write_script(links_of(server, 9), tmp_path / "put.sh"))
    assert (done.returncode, done.stderr.splitlines()[1]) == (1, "b: its name has a line break")
    assert came(server) == {b"c": b"2"}
    large = links_of(server, 9, max_size=1)
    fill(machine, {b"c": b"22"})
    assert "it has more than 1 bytes" in machine.run(write_script(large, tmp_path / "l")).stderr


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_loaded_from_the_directory_of_the_files(
    kind: str, server: FileServer, tmp_path: Path
) -> None:
    machine = partner(tmp_path, kind)
    mark = tmp_path / "mark"
    write_canaries(machine.directory, mark)
    for module in machine.directory.rglob("*.[ps]*"):  # the script runs no Python
        if module.is_file() and module.name != "struct.py":
            module.unlink()
    count = sum(each.is_file() for each in machine.directory.rglob("*"))
    odd = ["", ".", "files", "files/bin", machine.directory, machine.directory / "bin"]
    machine.environment |= VARIABLES
    machine.environment["PATH"] = ":".join([*map(str, odd), str(machine.path), ""])
    done = machine.run(write_script(links_of(server, 1_000), tmp_path / "put.sh"))
    assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()
    assert b"struct.py" in came(server)
    assert len(came(server)) < count, "hidden files are left out"
    assert not list((tmp_path / "place").glob("lakecli-put*"))


def test_the_script_itself_is_not_sent(server: FileServer, tmp_path: Path) -> None:
    machine = partner(tmp_path, "dash")
    fill(machine, {b"a": b"1"})
    script = write_script(links_of(server, 9), machine.directory / "put.sh")
    done = machine.run(script)
    assert (done.returncode, "this script is not sent" in done.stderr) == (0, True)
    assert came(server) == {b"a": b"1"}
    usage = machine.run(script, "files", "files")
    assert (usage.returncode, usage.stderr[:6]) == (2, "usage:")


def test_a_machine_without_checksums_says_so(server: FileServer, tmp_path: Path) -> None:
    machine = partner(tmp_path, "dash", without=["sha256sum"])
    fill(machine, {b"a": b"1"})
    done = machine.run(write_script(links_of(server, 9), tmp_path / "put.sh"))
    assert (done.returncode, "CHECKSUMS WERE NOT MADE" in done.stderr) == (3, True)
    assert listed(server)[b"a"][2] == b"-"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_cannot_be_read_to_its_end_is_not_sent(
    kind: str, server: FileServer, tmp_path: Path
) -> None:
    """Nor does its line damage the list, without which no file could be staged."""
    machine = partner(tmp_path, kind, without=["sha256sum"])
    tool, program = machine.path / "sha256sum", require_tool("sha256sum")
    read = 'IFS= read -r line; [ "$line" != bad ] || exit 1'
    tool.write_text(f'#!/bin/sh\n{read}\nprintf %s "$line" | {program}\n')
    tool.chmod(0o755)
    fill(machine, {b"a": b"1", b"b": b"bad\n"})
    done = machine.run(write_script(links_of(server, 9), tmp_path / "put.sh"))
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "b: it cannot be read")
    assert listed(server).keys() == {b"a"}


def test_expired_links_are_explained(server: FileServer, tmp_path: Path) -> None:
    machine = partner(tmp_path, "dash")
    fill(machine, {b"a": b"1"})
    server.statuses[LIST] = 403
    old = links_of(server, 1, expires_at=CREATED - timedelta(days=365))
    done = machine.run(write_script(old, tmp_path / "put.sh"))
    assert done.returncode == 2
    assert "have expired: ask for a new script" in done.stderr


def test_a_forged_list_changes_nothing_here(server: FileServer, tmp_path: Path) -> None:
    """Whoever has the links can write the list; the script reads it as text."""
    machine = partner(tmp_path, "dash")
    fill(machine, {b"a": b"1"})
    server.objects[LIST] = b"\n".join(
        [
            b"../x 1 - + a",
            b"* 1 - + a",
            b"$(touch PWNED) 1 - + a",
            f"{id_of(7)} 1 - + a".encode(),
            f"{id_of(0)} 1 - + $(touch PWNED)".encode(),
            b"\xff\0",
        ]
    )
    done = machine.run(write_script(links_of(server, 2), tmp_path / "put.sh"))
    assert done.returncode == 0, done.stderr
    assert listed(server)[b"a"][0] == id_of(1).encode()
    assert machine.files() == {b"a": b"1"}
    assert server.objects[id_of(1).encode()] == b"1"


def test_the_page_holds_its_data_as_text(server: FileServer) -> None:
    evil = b"</script><script>alert(1)</script>"
    links = links_of(server, names=[evil, b"\xff"])
    text = upload_page(links, title="<b>", sender="Ada <a@b.c>").decode()
    page = Reader(text)
    assert text.count("<script") == 2
    assert page.text.count("<b>") == 2
    assert "signed by Ada <a@b.c> on" in page.text
    assert "until 2096-03-01 12:00:00 UTC" in page.text
    block = text.partition('id="links">')[2].partition("</script>")[0]
    data = json.loads(block)
    assert [link["name"] for link in data["links"]] == [evil.decode(), "\udcff"]
    assert data["links"][0]["url"] == server.url(id_of(0).encode())
    policy = next(tag[1]["content"] for tag in page.tags if "http-equiv" in tag[1]) or ""
    assert f"connect-src {server.url(b'').partition('/?')[0]};" in policy
    assert "signed on" in upload_page(links, title="", sender="").decode()
