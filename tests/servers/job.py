"""The main job on one bucket: what lakecli is for, done with the command line and curl.

A step that fails is something that the server lacks. What lakecli says of it is compared with what
happened: a step that says success and lost something is `Measured.untrue`.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from lakecli.cli.context import Environment
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.run import run

CHECKS = {
    "create-only": "creating only what is not there",
    "compare-and-set": "replacing a known version only",
    "race": "one winner of several writers",
    "ranges": "right answers to ranges",
    "multipart": "uploads in parts",
    "checksums": "comparing checksums",
    "presign": "presigned URLs",
    "delete": "deleting",
    "delete-matching": "deleting a known version only",
    "read-after-write": "reading at once what was written",
    "list-after-write": "listing at once what was written",
}
"""What a server lacks where a check of doctor is not ok; another check gives its own name."""

NOT_OF_THE_SERVER = ("disk-space", "credentials", "clock", "claim", "shared", "sharing", "names")
"""Checks of doctor that are about something else, and of names, which the job tries itself."""

UNLISTED = "allowed, but "
"""How doctor begins if uploads in parts work, and are not listed before they end."""

NAMES: dict[str, tuple[str, ...]] = {
    "names with blanks, + and accents": ("a b.csv", "a+b.csv", "z sp+é%2F.csv"),
    "names with // and /./": ("x/y", "x//y", "x/./y"),
    "a name beside a directory's": ("a", "a/b"),
    "names of 256 bytes": ("n" * 256,),
    "names that end in a dot": ("end.", "dots..."),
    "names with a backslash": ("back\\slash",),
    "listings in the order of bytes": ("\uff5e", "\U0001f600", "a-b", "a.txt", "a/x", "a0"),
}
"""Names that a bucket of Amazon keeps apart, by what a server lacks that does not."""

LARGE = 20 << 20
ROUNDS = 3
LIMIT = 300.0


@dataclass(frozen=True)
class Place:
    """Where a job works.

    Attributes:
        uri: of a bucket, or a prefix that nobody else uses.
        environment: what lakecli needs to reach it.
        versioned: of a bucket that keeps versions, if there is one.
    """

    uri: str
    environment: dict[str, str]
    versioned: str | None = None


@dataclass
class Measured:
    """What a job found.

    Attributes:
        pushes: whether machines may push, and lose nothing.
        lacks: what the server lacks, in the order of the job.
        said: the error behind each of them, for whoever wants to know.
        untrue: what lakecli said that was not so.
    """

    pushes: bool = False
    lacks: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)

    def lack(self, what: str, said: str) -> None:
        """Note that something does not work."""
        if what not in self.lacks:
            self.lacks.append(what)
        self.said.append(f"{what}: {said}")


class _FailedError(Exception):
    """A command that the rest of a step needs has failed."""


def do_main_job(place: Place, folder: Path) -> Measured:
    """Do everything that lakecli is for at a place; `folder` is empty."""
    with patch.dict(os.environ, place.environment):  # the SDKs read it
        return _do_steps(_Job(place, folder))


def _do_steps(job: _Job) -> Measured:
    steps: Sequence[tuple[str, Callable[[], None]]] = (
        ("doctor", job.ask_doctor),
        ("repositories", job.create),
        ("large objects", job.upload_large),
        ("push", job.share),
        ("pushes at once", job.race),
        ("presigned URLs", job.presign),
        ("export and import", job.export),
        ("names", job.export_names),
        ("versions of objects", job.pin_versions),
        ("garbage collection", job.collect),
        ("fsck --data", job.verify),
    )
    for what, step in steps:
        try:
            step()
        except _FailedError as failure:
            job.found.lack(what, str(failure))
            if what == "repositories":
                break
    return job.found


def _error_of(ended: subprocess.CompletedProcess[bytes]) -> str:
    """Return what a command said, on one line."""
    said = (ended.stderr or ended.stdout).decode(errors="replace").strip()
    return f"exit {ended.returncode}: {' '.join(said.split())[:300]}"


class _Job:
    """The steps; each works in the same repository, cloned by the `homes` one and two."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._folder = folder
        self._namespace = f"{place.uri}/namespace"
        self.found = Measured()

    def run(
        self, home: str, *arguments: str, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run lakecli as one machine, in this process: a start takes longer than most commands."""
        out, err = io.BytesIO(), io.BytesIO()
        given, answers, errors = (
            io.TextIOWrapper(each, encoding="utf-8", errors="surrogateescape")
            for each in (io.BytesIO(stdin), out, err)
        )
        code = run(arguments, Environment(self._environment(home), given, answers, errors))
        answers.flush()
        errors.flush()
        return subprocess.CompletedProcess(arguments, int(code), out.getvalue(), err.getvalue())

    def must(self, home: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run lakecli, and return its output."""
        ended = self.run(home, *arguments, stdin=stdin)
        if ended.returncode == ExitCode.UNEXPECTED:  # which says nothing about the server
            self.found.untrue.append(_error_of(ended))
        if ended.returncode:
            raise _FailedError(f"{' '.join(arguments[:3])}: {_error_of(ended)}")
        return ended.stdout

    def _environment(self, home: str) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LAKECLI_", "XDG_"))
        }
        folder = self._folder / home
        return (
            kept
            | self._place.environment
            | {
                "HOME": str(self._folder),
                "LAKECLI_HOME": str(folder),
                "LAKECLI_USER_NAME": home,
                "AWS_EC2_METADATA_DISABLED": "true",
                "NO_GCE_CHECK": "true",
            }
        )

    def _write(self, home: str, path: str, content: bytes) -> None:
        self.must(home, "-q", "fs", "upload", "-", f"lakefs://job/main/{path}", stdin=content)

    def _commit(self, home: str, path: str, content: bytes) -> None:
        self._write(home, path, content)
        self.must(home, "-q", "commit", "lakefs://job/main", "-m", path)

    def _compare(self, what: str, expected: bytes, got: bytes) -> None:
        if expected != got:
            self.found.untrue.append(f"{what}: {len(got)} other bytes in place of {len(expected)}")

    def ask_doctor(self) -> None:
        """Note each check that is not ok."""
        ended = self.run("one", "--json", "doctor", f"{self._place.uri}/doctor")
        try:
            checks: list[dict[str, Any]] = json.loads(ended.stdout)["checks"]
        except (ValueError, KeyError):
            raise _FailedError(_error_of(ended)) from None
        for check in checks:
            name = check["name"]
            if name in NOT_OF_THE_SERVER or name.startswith("to-"):
                continue
            if check["verdict"] in {"failed", "warning"}:
                what = CHECKS.get(name, name.replace("-", " "))
                if check["seen"].startswith(UNLISTED):
                    what = "listing unfinished uploads"
                self.found.lack(what, f"doctor: {check['seen']}")

    def create(self) -> None:
        """Create a repository with small objects, and commit them."""
        self.must("one", "-q", "repo", "create", "lakefs://job", self._namespace)
        source = self._folder / "small"
        (source / "deep/er").mkdir(parents=True)
        for number in range(20):
            (source / f"deep/er/{number} é+.csv").write_text(f"{number}\n")
        self.must("one", "-q", "fs", "upload", "-r", str(source), "lakefs://job/main/small/")
        self.must("one", "-q", "commit", "lakefs://job/main", "-m", "small")

    def upload_large(self) -> None:
        """Upload an object in parts, and read it again, whole and from its middle."""
        content = Random(0).randbytes(LARGE)
        file = self._folder / "large"
        file.write_bytes(content)
        self.must("one", "-q", "fs", "upload", str(file), "lakefs://job/main/large")
        self._compare("fs cat", content, self.must("one", "fs", "cat", "lakefs://job/main/large"))
        self.must("one", "-q", "commit", "lakefs://job/main", "-m", "large")

    def share(self) -> None:
        """Push, clone, and merge what two machines did."""
        refused = self._refuses_race()
        self.must("one", "-q", "push", "lakefs://job/main")
        if refused:
            self.found.untrue.append("push is let through, although doctor says it is refused")
        self.must("two", "-q", "clone", self._namespace, "lakefs://job")
        got = self._folder / "downloaded"
        self.must("two", "-q", "fs", "download", "-r", "lakefs://job/main/small/", str(got))
        for file in (self._folder / "small").rglob("*.csv"):
            copy = got / file.relative_to(self._folder / "small")
            self._compare("fs download -r", file.read_bytes(), copy.read_bytes())
        self._commit("two", "by-two", b"two")
        self.must("two", "-q", "push", "lakefs://job/main")
        self._commit("one", "by-one", b"one")
        if self.run("one", "push", "lakefs://job/main").returncode != 5:
            self.found.untrue.append("a push that is behind was not refused with exit code 5")
        self.must("one", "-q", "pull", "lakefs://job/main")
        self.must("one", "-q", "push", "lakefs://job/main")
        self.must("two", "-q", "pull", "lakefs://job/main")
        self._compare("pull", b"one", self.must("two", "fs", "cat", "lakefs://job/main/by-one"))
        self.found.pushes = True

    def _refuses_race(self) -> bool:
        conditions = ("create-only", "compare-and-set", "race")
        return any(CHECKS[each] in self.found.lacks for each in conditions)

    def race(self) -> None:
        """Let two machines push at once; neither may lose a commit."""
        if not self.found.pushes:
            return
        self.found.pushes = False
        expected = set()
        for number in range(ROUNDS):
            for home in ("one", "two"):
                expected.add(f"race/{number}-{home}")
                self._commit(home, f"race/{number}-{home}", home.encode())
            pushes = {
                home: subprocess.Popen(
                    _command("-q", "push", "lakefs://job/main"),
                    env=self._environment(home),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                for home in ("one", "two")
            }
            won = [home for home, push in pushes.items() if push.wait(LIMIT) == 0]
            if len(won) != 1:
                self.found.untrue.append(f"{len(won)} of two pushes at once succeeded")
            for home in ("one", "two"):
                self.must(home, "-q", "pull", "lakefs://job/main")
                self.must(home, "-q", "push", "lakefs://job/main")
            self.must("one", "-q", "pull", "lakefs://job/main")
        self.must("three", "-q", "clone", self._namespace, "lakefs://job")
        listed = self.must("three", "--json", "fs", "ls", "-r", "lakefs://job/main/race/")
        lost = expected - {json.loads(line)["path"] for line in listed.splitlines()}
        if lost:
            self.found.untrue.append(f"pushed, and lost: {', '.join(sorted(lost))}")
        self.found.pushes = not lost

    def presign(self) -> None:
        """Read and write by presigned URLs, with curl."""
        content = (self._folder / "small/deep/er/7 é+.csv").read_bytes()
        path = "lakefs://job/main/small/deep/er/7 é+.csv"
        url = self.must("one", "-q", "fs", "presign", path).decode().strip()
        self._compare("presigned URL", content, self._curl(url))
        answered = self._curl("-r", "0-0", "-w", "%{http_code}", url)
        if answered != content[:1] + b"206":
            self.found.lack("ranges of presigned URLs", repr(answered[:40]))
        sent = self._folder / "sent"
        sent.write_bytes(b"sent by curl")
        target = "lakefs://job/main/incoming"
        link = json.loads(self.must("one", "--json", "fs", "presign", "--put", target))
        headers = [f"-H{name}: {value}" for name, value in link["headers"].items()]
        self._curl(*headers, "-T", str(sent), link["url"])
        self.must("one", "-q", "fs", "stage", target, "--incoming", link["id"])
        self._compare("fs stage", sent.read_bytes(), self.must("one", "fs", "cat", target))
        self.must("one", "-q", "commit", "lakefs://job/main", "-m", "incoming")

    def _curl(self, *arguments: str) -> bytes:
        ended = subprocess.run(
            ["curl", "-sSf", "-m", "60", *arguments], capture_output=True, check=False
        )
        if ended.returncode:
            raise _FailedError(f"curl: {_error_of(ended)}")
        return ended.stdout

    def export(self) -> None:
        """Export what was committed to another prefix, and import it with and without a copy."""
        target = f"{self._place.uri}/exported"
        self.must("one", "-q", "export", "lakefs://job/main/", f"{target}/")
        for name, options in (("zero", ()), ("copied", ("--copy",))):
            where = f"lakefs://job/{name}"
            self.must("one", "-q", "branch", "create", where, "-s", "lakefs://job/main")
            self._import(f"{target}/small/", f"{where}/small/", *options)
            for number in (3, 11):
                path = f"deep/er/{number} é+.csv"
                content = (self._folder / "small" / path).read_bytes()
                got = self.must("one", "fs", "cat", f"{where}/small/{path}")
                self._compare(f"import {' '.join(options)}", content, got)

    def _import(self, source: str, target: str, *options: str) -> None:
        """Import; that there is nothing new is as good."""
        ended = self.run("one", "-q", "import", "--from", source, "--to", target, *options)
        if ended.returncode not in {0, 11}:
            raise _FailedError(f"import {' '.join(options)}: {_error_of(ended)}")

    def export_names(self) -> None:
        """Export names of each kind, and read them back from the bucket."""
        here = self._folder / "here"
        self.must("one", "-q", "repo", "create", "lakefs://names", str(here))
        for number, (what, names) in enumerate(NAMES.items()):
            source = f"lakefs://names/main/{number}/"
            for name in names:
                self.must(
                    "one", "-q", "fs", "upload", "-", source + name, stdin=repr(name).encode()
                )
            self.must("one", "-q", "commit", "lakefs://names/main", "-m", what)
            target = f"{self._place.uri}/names/{number}/"
            try:
                self._read_back(source, target, number, names)
            except _FailedError as failure:
                self.found.lack(what, str(failure))

    def _read_back(self, source: str, target: str, number: int, names: Sequence[str]) -> None:
        self.must("one", "-q", "export", source, target)
        back = f"lakefs://names/back-{number}"
        self.must("one", "-q", "branch", "create", back, "-s", "lakefs://names/main")
        self._import(target, f"{back}/back/")
        listed = self.must("one", "--json", "fs", "ls", "-r", f"{back}/back/").splitlines()
        found = {json.loads(line)["path"].removeprefix("back/") for line in listed}
        missing = [name for name in names if name not in found]
        wrong = [
            name
            for name in names
            if name in found
            and self.run("one", "fs", "cat", f"{back}/back/{name}").stdout != repr(name).encode()
        ]
        if missing or wrong:
            said = f"export of {missing + wrong!r} to {target} said success"
            self.found.untrue.append(said)
            raise _FailedError(said)

    def pin_versions(self) -> None:
        """Import with versions, overwrite, and read the old version."""
        if self._place.versioned is None:
            raise _FailedError("the server makes no bucket that keeps versions")
        target = f"{self._place.versioned}/pinned/"
        self.must("one", "-q", "export", "lakefs://names/main/0/", target)
        self.must(
            "one", "-q", "branch", "create", "lakefs://names/pinned", "-s", "lakefs://names/main"
        )
        where = "lakefs://names/pinned/pinned/"
        self._import(target, where, "--pin-versions")
        self._write_other(target)
        got = self.must("one", "fs", "cat", f"{where}a b.csv")
        self._compare("import --pin-versions", repr("a b.csv").encode(), got)

    def _write_other(self, target: str) -> None:
        """Replace an object of an export by another one."""
        path = "lakefs://names/main/other/a b.csv"
        self.must("one", "-q", "fs", "upload", "-", path, stdin=b"another content")
        self.must("one", "-q", "commit", "lakefs://names/main", "-m", "other")
        self.must("one", "-q", "export", "lakefs://names/main/other/", target)

    def collect(self) -> None:
        """Condemn garbage, of which the bucket has some by now."""
        self.must("one", "-q", "gc", "run", "lakefs://job", "--dry-run")
        if self.found.pushes:
            self.must("one", "-q", "gc", "run", "lakefs://job", "-y")

    def verify(self) -> None:
        """Read everything again."""
        self.must("one", "-q", "fsck", "lakefs://job", "--data")


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "lakecli", *arguments]
