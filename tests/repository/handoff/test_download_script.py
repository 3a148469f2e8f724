"""The download script as a partner runs it, with a bare shell and curl."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.repository.handoff import download_script
from lakecli.repository.transfer.ignore_patterns import is_own
from tests.repository.handoff.links import (
    DATA,
    END,
    EVIL_NAMES,
    HEADER,
    PREFIX,
    evil_links,
    link_to,
    links_to,
    write,
    write_script,
)
from tests.repository.transfer.test_own_names import DATA as DATA_NAMES
from tests.repository.transfer.test_own_names import OWN
from tests.support.partners import (
    PYTHON,
    FileServer,
    Partner,
    link_tools,
    shell_tools,
    wait_for_end,
)
from tests.support.script_canaries import VARIABLES, canaries, write_canaries
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.repository.handoff.links import ObjectLink

    NewPartner = Callable[..., Partner]

BIG = bytes(range(256)) * 4_000
KINDS = ("dash", "bash")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({}) as running:
        yield running


@pytest.fixture
def partner(tmp_path: Path) -> NewPartner:
    """Makes partners whose shell is dash or bash, with curl and something that verifies."""

    def new(kind: str, *, verifies_by: str = "python3") -> Partner:
        place = tmp_path / "place"
        place.mkdir()
        tools = shell_tools()
        if verifies_by == "python3":
            tools |= PYTHON
        path = link_tools(tmp_path / "bin", tools)
        if verifies_by == "b3sum":
            fake_b3sum(path / "b3sum")
        return Partner([require_tool(kind)], place, path, {"JOBS": "3"})

    return new


def fake_b3sum(path: Path) -> None:
    """Make a program with the answers of b3sum."""
    path.write_text(
        f"#!{sys.executable}\n"
        "import sys\nfrom blake3 import blake3\n"
        "for name in sys.argv[1:] or ['-']:\n"
        "    data = sys.stdin.buffer.read() if name == '-' else open(name, 'rb').read()\n"
        "    print(blake3(data).hexdigest() + '  ' + name)\n"
    )
    path.chmod(0o700)


IMPATIENCE = {'sleep "$round"': "true", "'retry = 3'": "'retry = 0'"}
"""What makes a script not wait before it tries again."""


def script_for(links: Iterable[ObjectLink], tmp_path: Path) -> Path:
    """Write a script for a partner who is in a hurry."""
    path = write_script(links, tmp_path / "get.sh")
    text = path.read_text()
    for wait, nothing in IMPATIENCE.items():
        assert text.count(wait) == 1
        text = text.replace(wait, nothing)
    path.write_text(text)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_names_are_written_as_names(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {**DATA, b"empty": b"", b"big": BIG}
    links = [*links_to(server), *evil_links(server), link_to(b"void/", b"", "http://127.0.0.1:9/")]
    script = script_for(links, tmp_path)
    machine = partner(kind)
    done = machine.run(script)
    assert done.returncode == 1, done.stderr
    assert machine.files() == server.objects
    assert (machine.directory / "void").is_dir()
    complaints = done.stderr.splitlines()
    assert len(complaints) == len(EVIL_NAMES) + 1
    assert "\x1b" not in done.stderr
    for name in ("../up", "/etc/lakecli-test", ".lakecli-parts/x"):
        assert any(line.startswith(f"{name}: ") for line in complaints)
    assert done.stdout == f"{len(links) - len(EVIL_NAMES)} of {len(links)} objects are complete\n"
    assert not Path("/etc/lakecli-test").exists()
    # What is complete is not fetched again, and what is not is said again.
    server.requests.clear()
    again = machine.run(script)
    assert (again.returncode, again.stdout) == (1, done.stdout)
    assert server.requests == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_whose_list_was_forged_writes_no_file_of_git(
    kind: str,
    partner: NewPartner,
    server: FileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [name for name in (*OWN, *DATA_NAMES) if name]
    server.objects = dict.fromkeys(names, b"enemy")
    monkeypatch.setattr("lakecli.repository.handoff.links.is_own", lambda _name: False)
    links = [*links_to(server), link_to(b"d/.GIT/hooks/", b"", "http://127.0.0.1:9/")]
    machine = partner(kind)
    done = machine.run(script_for(links, tmp_path))
    assert machine.files().keys() == {name for name in names if not is_own(name)}, done.stderr
    assert done.returncode == 1
    assert done.stderr.count("uses a file of this name") == 1 + sum(map(is_own, names))
    assert not (machine.directory / "d").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_exactly_the_objects_are_downloaded(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"1", b"d/b": BIG, b"d/e/c": b"", b"d": b""}
    del server.objects[b"d"]
    machine = partner(kind)
    done = machine.run(script_for(links_to(server), tmp_path), "else where/-x")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "3 of 3 objects are complete\n"
    found = {name.decode(): data for name, data in machine.files().items()}
    assert found == {
        f"../else where/-x/{name.decode()}": data for name, data in server.objects.items()
    }
    assert {path.name for path in (machine.place / "else where/-x").iterdir()} == {"a", "d"}


@pytest.mark.parametrize("kind", KINDS)
def test_more_objects_than_one_chunk_are_downloaded(
    kind: str,
    partner: NewPartner,
    server: FileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(download_script, "CHUNK", 4)
    server.objects = {b"%d" % number: b"%d" % number for number in range(12)}
    machine = partner(kind)
    done = machine.run(script_for(links_to(server), tmp_path))
    assert (done.returncode, done.stdout) == (0, "12 of 12 objects are complete\n"), done.stderr
    assert machine.files() == server.objects


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_transfer_resumes(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"big": BIG, b"small": b"s"}
    server.cuts = {b"big": 1}
    machine = partner(kind)
    done = machine.run(script_for(links_to(server), tmp_path))
    assert done.returncode == 0, done.stderr
    assert machine.files() == server.objects
    assert server.asked(b"big") == ["", f"bytes={len(BIG) // 2}-"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_without_ranges_sends_everything_again(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"big": BIG}
    server.cuts = {b"big": 1}
    server.has_ranges = False
    machine = partner(kind)
    done = machine.run(script_for(links_to(server), tmp_path))
    assert done.returncode == 0, done.stderr
    assert machine.files() == server.objects


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_download_resumes(
    kind: str, stop: signal.Signals, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"big": BIG, b"other": BIG[1:]}
    server.gate = threading.Event()
    script = script_for(links_to(server), tmp_path)
    machine = partner(kind)
    with machine.start(script) as process:
        deadline = time.monotonic() + 60
        while len(server.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)  # for the first byte to arrive
        os.killpg(process.pid, stop)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted; run it again to resume" in errors
    assert not set(machine.files()) & set(server.objects)
    assert wait_for_end(process.pid)  # curl is gone too
    server.gate.set()
    server.gate = None
    done = machine.run(script)
    assert done.returncode == 0, done.stderr
    assert machine.files() == server.objects


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_bytes_are_refused(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"good": b"good", b"bad": b"bad!"}
    links = links_to(server)
    server.objects[b"bad"] = b"evil"
    machine = partner(kind)
    script = script_for(links, tmp_path)
    done = machine.run(script)
    assert done.returncode == 1
    assert "bad: the checksum is wrong: the object has changed" in done.stderr
    assert machine.files() == {b"good": b"good"}
    server.objects[b"bad"] = b"bad!"
    assert machine.run(script).returncode == 0
    assert machine.files() == server.objects


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_the_same_size_is_compared(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"new", b"b": b"same"}
    machine = partner(kind)
    machine.directory.mkdir()
    (machine.directory / "a").write_bytes(b"old")
    (machine.directory / "b").write_bytes(b"same")
    done = machine.run(script_for(links_to(server), tmp_path))
    assert done.returncode == 0
    assert machine.files() == server.objects
    assert server.asked(b"b") == []


@pytest.mark.parametrize("kind", KINDS)
def test_expired_links_are_reported(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"1", b"b": b"2", b"c": b"3"}
    server.statuses = {b"b": 403, b"c": 404}
    over = END.replace(year=2020)
    links = [
        link_to(name, data, server.url(name), expires_at=over)
        for name, data in server.objects.items()
    ]
    machine = partner(kind)
    done = machine.run(script_for(links, tmp_path))
    assert done.returncode == 1
    assert "by the clock of this machine these links have expired" in done.stderr
    assert "b: the server refuses it (403): its link expired at 2020-03-01T12:00:00Z" in done.stderr
    assert "c: the object is gone at its source (404)" in done.stderr
    assert {name for name in machine.files() if name != b"a"} == set()
    assert len(server.asked(b"b")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_before_the_end_of_the_link_does_not_blame_its_age(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"1", b"b": b"2", b"c": b"3"}
    server.statuses = {b"a": 403, b"b": 412, b"c": 410}
    machine = partner(kind)
    done = machine.run(script_for(links_to(server), tmp_path))
    assert done.returncode == 1
    assert (
        "a: the server refuses it (403), though its link is valid until 2096-03-01" in done.stderr
    )
    assert "b: the object has changed at its source since this script was made" in done.stderr
    assert "c: the object is gone at its source (410)" in done.stderr
    assert "ended" not in done.stderr


@pytest.mark.parametrize("size", [3, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_of_another_size_is_reported_as_changed(
    kind: str, size: int, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"12345", b"good": b"1"}
    links = links_to(server)
    server.objects[b"a"] = b"x" * size
    machine = partner(kind)
    done = machine.run(script_for(links, tmp_path))
    assert done.returncode == 1
    assert "a: the object has changed at its source since this script was made" in done.stderr
    assert "than 5 bytes" in done.stderr
    assert machine.directory.joinpath("good").read_bytes() == b"1"
    assert not machine.directory.joinpath("a").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_an_imported_object_with_another_etag_is_reported_as_changed(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    before, after = "0" * 32, "1" * 32 + "-2"
    server.objects = {b"changed": b"12345", b"same": b"12345", b"opaque": b"12345"}
    server.etags = {b"changed": after, b"same": before, b"opaque": "0x8DC0FFEE"}
    links = [
        link_to(name, data, server.url(name), checksum=before, etag=before)
        for name, data in server.objects.items()
    ]
    machine = partner(kind)
    done = machine.run(script_for(links, tmp_path))
    assert done.returncode == 1
    assert "changed: the object has changed at its source" in done.stderr
    assert "its ETag is different" in done.stderr
    assert {path.name for path in machine.directory.iterdir() if path.is_file()} == {
        "same",
        "opaque",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_symbolic_links_are_not_followed(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"d/a": b"1", b"f": b"2", b"e": b"3", b"g/h": b"4"}
    machine = partner(kind)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    machine.directory.mkdir()
    (machine.directory / "d").symlink_to(outside)
    (machine.directory / "f").symlink_to(outside / "file")
    (machine.directory / "e").symlink_to(outside)
    (machine.directory / "g").write_text("in the way")
    done = machine.run(script_for(links_to(server), tmp_path))
    assert done.returncode == 1
    assert "d/a: a symbolic link is in the way" in done.stderr
    assert "e: a directory has its name" in done.stderr
    assert "g/h: " in done.stderr
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "mine"
    assert (machine.directory / "f").read_bytes() == b"2"
    assert not (machine.directory / "f").is_symlink()


@pytest.mark.parametrize("kind", KINDS)
def test_a_symbolic_link_never_replaces_an_unfinished_file(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"1"}
    machine = partner(kind)
    machine.directory.mkdir()
    (machine.directory / ".lakecli-parts").symlink_to(tmp_path)
    done = machine.run(script_for(links_to(server), tmp_path))
    assert done.returncode == 2
    assert done.stderr == ".lakecli-parts is a symbolic link\n"


@pytest.mark.parametrize("kind", KINDS)
def test_links_in_the_directory_of_unfinished_files_are_not_followed(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"new": b"data", b"empty": b"", b"longer": b"data", b"second": b"data"}
    machine = partner(kind)
    script = script_for(links_to(server), tmp_path)
    ids = dict(re.findall(r"^o ([0-9a-f]+) .* '(\w+)' ", script.read_text(), re.MULTILINE))
    outside = tmp_path / "outside"
    outside.mkdir()
    parts = machine.directory / ".lakecli-parts"
    parts.mkdir(parents=True)
    for part, name in ids.items():
        if name != "new":
            (outside / name).write_text("me")
        if name == "second":
            (parts / part).hardlink_to(outside / name)
        else:
            (parts / part).symlink_to(outside / name)
    for name in ("w0.curl", "w0.codes", "w.empty"):
        (outside / name).write_text("me")
        (parts / name).symlink_to(outside / name)
    (parts / "w1.codes").mkdir()
    done = machine.run(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.read_text() for path in outside.iterdir()} == {"me"}
    assert not (outside / "new").exists()
    assert {name: data for name, data in machine.files().items() if b"/" not in name} == (
        server.objects
    )


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_loaded_from_the_directory_of_the_files(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    """Neither in the first run, nor in one that finds files there, whatever the environment is."""
    server.objects = {b"struct.py": b"data", b"a": BIG}
    machine = partner(kind)
    mark = tmp_path / "mark"
    files = canaries(mark)
    write_canaries(machine.directory, mark)
    server.objects |= {name: files[os.fsdecode(name)] for name in (b"typing.py", b"re/__init__.py")}
    # Without `site`, which may have imported some of the modules already.
    (machine.path / "python3").unlink()
    (machine.path / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (machine.path / "python3").chmod(0o755)
    odd = ["", ".", "files", "files/bin", machine.directory, machine.directory / "bin"]
    machine.environment |= VARIABLES
    machine.environment["PATH"] = ":".join([*map(str, odd), str(machine.path), ""])
    script = script_for(links_to(server), tmp_path)
    for requested in (2, 0):  # the others are there already
        server.requests.clear()
        done = machine.run(script)
        assert (done.returncode, done.stderr) == (0, "")
        assert not mark.exists(), mark.read_text()
        assert len({key for key, _ in server.requests}) == requested
    for name, data in server.objects.items():
        assert (machine.directory / os.fsdecode(name)).read_bytes() == data


def test_canaries_leave_their_mark(tmp_path: Path) -> None:
    """So that the test above can fail."""
    mark = tmp_path / "mark"
    place = tmp_path / "place"
    write_canaries(place, mark)
    url = "http://127.0.0.1:9/"
    for words, variables in (
        ([sys.executable, "-S", "-c", "import typing"], {}),
        ([require_tool("curl"), "-o", os.devnull, url], {"CURL_HOME": "."}),
        ([require_tool("dash"), "-c", "wc -c </dev/null"], {"PATH": f".:{os.environ['PATH']}"}),
    ):
        subprocess.run(words, cwd=place, env=variables, stderr=subprocess.DEVNULL, check=False)
        assert mark.exists(), words
        mark.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_programs_see_few_variables_and_start_apart_from_the_files(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": BIG}
    machine = partner(kind)
    log = tmp_path / "log"
    for tool in list(machine.path.iterdir()):
        program = tool.readlink()
        tool.unlink()
        tool.write_text(
            f'#!/bin/sh\n{require_tool("env")} | sed "s/=.*//; s/^/{tool.name} /" >>{log}\n'
            f'echo "{tool.name} in $(pwd -P)" >>{log}\nexec {program} "$@"\n'
        )
        tool.chmod(0o755)
    kept = {"https_proxy": "http://127.0.0.1:9", "no_proxy": "*", "SSL_CERT_DIR": "/x"}
    machine.environment |= VARIABLES | kept | {"LD_LIBRARY_PATH": "/nowhere"}
    machine.environment["PATH"] = f"{machine.path}:/usr/bin:/bin"
    done = machine.run(script_for(links_to(server), tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(" ", 1) for line in log.read_text().splitlines()]
    seen = {name for _, name in lines if " " not in name}
    # The last four are those of the shells that these programs are here.
    allowed = {"PATH", "JOBS", "LC_ALL", *kept, "PWD", "OLDPWD", "SHLVL", "_"}
    assert seen - allowed == set()
    assert seen >= {"PATH", *kept}
    places = {(tool, place) for tool, place in lines if place.startswith("in ")}
    parts = f"in {machine.directory.resolve()}/.lakecli-parts"
    assert {place for tool, place in places if tool == "python3"} == {"in /"}
    assert {place for tool, place in places if tool == "curl"} == {parts}
    assert f"in {machine.directory.resolve()}" not in {place for _, place in places}


@pytest.mark.parametrize("kind", KINDS)
def test_a_variable_may_contain_words_that_look_like_those_of_the_script(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"data"}
    machine = partner(kind)
    words = (
        "directory",
        "root",
        "each",
        "name",
        "entries",
        "total",
        "parts",
        "jobs",
        "python_blake3",
    )
    machine.environment["BOOTED"] = " ".join(f"x {word}=y" for word in words)
    done = machine.run(script_for(links_to(server), tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.files() == {b"a": b"data"}


def test_certificates_are_not_taken_from_the_directory(
    partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    machine = partner("dash")
    machine.environment["SSL_CERT_FILE"] = "ca.pem"
    done = machine.run(script_for(links_to(server), tmp_path))
    assert done.returncode == 2
    assert done.stderr == "the variables of certificates need absolute paths: ca.pem\n"


@pytest.mark.parametrize("kind", KINDS)
def test_objects_without_digest_are_compared_by_size(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"123", b"b": b"456"}
    links = [
        link_to(name, data, server.url(name), checksum="an-etag")
        for name, data in server.objects.items()
    ]
    server.statuses = {b"b": 404}
    machine = partner(kind)
    script = script_for(links, tmp_path)
    assert machine.run(script).returncode == 1
    server.statuses.clear()
    server.requests.clear()
    done = machine.run(script)
    assert done.returncode == 0, done.stderr
    # Nobody can tell from its size that `a` is right, but that it was fetched to its end.
    assert server.asked(b"a") == []
    assert machine.files() == server.objects
    (machine.directory / "a").write_bytes(b"xyz")
    assert machine.run(script).returncode == 0
    assert machine.files() == server.objects


@pytest.mark.parametrize("kind", KINDS)
def test_google_sends_the_bytes_as_they_are_stored(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": gzip.compress(b"1" * 99), b"b": b"456"}
    server.decoded = {b"a": b"1" * 99}
    links = [
        link_to(name, data, server.url(name).replace("X-Sig", "X-Goog-Sig"))
        for name, data in server.objects.items()
    ]
    machine = partner(kind)
    done = machine.run(script_for(links, tmp_path))
    assert done.returncode == 0, done.stderr
    assert machine.files() == server.objects


@pytest.mark.parametrize("kind", KINDS)
def test_an_unreachable_server_is_reported(kind: str, partner: NewPartner, tmp_path: Path) -> None:
    links = [link_to(b"%d" % n, b"x", "http://127.0.0.1:9/x?y=z") for n in range(2)]
    machine = partner(kind)
    done = machine.run(script_for(links, tmp_path))
    assert done.returncode == 1
    assert "0: " in done.stderr
    assert "2 are not; complete files are kept: run it again to resume" in done.stderr


def test_downloads_are_verified_with_b3sum(
    partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"good": BIG, b"bad": b"bad!", b"it's\\\n": b"odd"}
    links = links_to(server)
    server.objects[b"bad"] = b"evil"
    machine = partner("dash", verifies_by="b3sum")
    script = script_for(links, tmp_path)
    for _ in range(2):
        done = machine.run(script)
        assert done.returncode == 1
        assert "bad: the checksum is wrong" in done.stderr
        assert machine.files() == {b"good": BIG, b"it's\\\n": b"odd"}
    assert len(server.asked(b"good")) == 1


def test_a_script_that_cannot_verify_says_so(
    partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"good": b"good", b"short": b"12"}
    links = links_to(server)
    machine = partner("dash", verifies_by="nothing")
    script = script_for(links, tmp_path)
    done = machine.run(script)
    assert done.returncode == 3
    assert "CHECKSUMS WERE NOT VERIFIED" in done.stderr
    assert machine.files() == server.objects
    server.objects[b"short"] = b"1"
    assert machine.run(script).returncode == 1


def test_a_broken_python_is_not_used(
    partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"1"}
    machine = partner("dash", verifies_by="nothing")
    (machine.path / "python3").write_text("#!/bin/sh\necho 0\n")
    (machine.path / "python3").chmod(0o700)
    assert machine.run(script_for(links_to(server), tmp_path)).returncode == 3


@pytest.mark.parametrize(
    ("jobs", "complaint"),
    [("0", "JOBS"), ("x", "JOBS"), ("-1", "JOBS"), ("1000", "JOBS"), ("", "")],
)
def test_the_number_of_jobs_is_honoured(
    partner: NewPartner, server: FileServer, tmp_path: Path, jobs: str, complaint: str
) -> None:
    server.objects = {b"a": b"1", b"b": b"2"}
    machine = partner("dash")
    machine.environment["JOBS"] = jobs
    done = machine.run(script_for(links_to(server), tmp_path))
    assert done.returncode == (2 if complaint else 0)
    assert complaint in done.stderr


def test_the_script_needs_only_common_programs(
    partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    script = script_for(links_to(server), tmp_path)
    machine = partner("dash")
    assert machine.run(script, "a", "b").returncode == 2
    (machine.place / "file").touch()
    assert machine.run(script, "file").returncode == 2
    (machine.path / "curl").unlink()
    done = machine.run(script)
    assert (done.returncode, done.stderr) == (2, "this script needs curl\n")


def test_a_script_can_be_piped_into_the_shell(
    partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"%d" % number: b"%d" % number for number in range(20)}
    script = script_for(links_to(server), tmp_path)
    machine = partner("dash")
    machine.command = ["/bin/sh", "-c", f'exec {machine.command[0]} < "$0"']
    done = machine.run(script, "unused")
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in machine.place.iterdir()} == {
        name.decode(): data for name, data in server.objects.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_comments_in_a_script_run_nothing(
    kind: str, partner: NewPartner, server: FileServer, tmp_path: Path
) -> None:
    server.objects = {b"a": b"1"}
    evil = '\n\'"""; touch PWNED; $(touch PWNED) \\'
    header = HEADER._replace(ref=evil, prefix=evil.encode() + b"\xff\n/")
    script = tmp_path / "get"
    script.write_bytes(write("sh", links_to(server), header=header)[0])
    machine = partner(kind)
    done = machine.run(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.files() == server.objects


def test_scripts_are_plain_text(server: FileServer) -> None:
    """Whatever the names are: ASCII, and no line that a name began."""
    server.objects = dict(DATA)
    text, left_out = write("sh", [*links_to(server), *evil_links(server)])
    assert set(left_out) == {PREFIX + name for name in EVIL_NAMES}
    assert text.isascii()
    assert all(31 < byte < 127 or byte == 10 for byte in text)
    lines = text.decode().splitlines()
    start = ("o ", "x ", "d ")
    assert sum(line.startswith(start) for line in lines) == len(DATA) + len(EVIL_NAMES)
    assert not any("PWNED" in line and not line.startswith(start) for line in lines)
