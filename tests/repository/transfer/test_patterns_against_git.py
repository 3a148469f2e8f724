"""Random .lakefsignore files decide as ``git check-ignore`` does about random paths.

One Git repository has a directory for each case, so that one process answers for all of them.
"""

from __future__ import annotations

import os
import random
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.repository.transfer.ignore_patterns import IGNORE_FILE, Ignore
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from pathlib import Path

CASES = 1_500
LITERALS = [*b"abA1.-+:#! \t\r\0\xff"]
WILDCARDS = rb"* ** *** ? / / **/ /** /**/ \ \/ \* \# \! \\ [ ] \ ".split(b" ")
CLASSES = (
    rb"[ab] [!a] [^b/] [a-c] [/] [+-:] []a] [!]a] [a\]b] [\ [a- [a-] [z-a] [--0] [a-c-e]"
    rb" [\a-c] [a-\c] [[: [[:] [[::]] [[:foo:]] [[:digit:]] [[:alpha:]1] [[:alnum:]-]"
    rb" [[:punct:]] [[:space:]] [[:cntrl:]] [[:print:]] [![:graph:]] [[:upper:]] [[:lower:]]"
    rb" [[:xdigit:]] [[:blank:]]"
).split(b" ")
PIECES = [
    *(bytes([each]) for each in LITERALS),
    *(b"  ", b"\xc3\xa9", b"[\x80-\xff]"),
    *WILDCARDS,
    *CLASSES,
]
NAMES = [bytes([each]) for each in b"aaabbcdA1.. \\[]-+:*#!\t\r\n\x0b\xff"]
NAMES += [b"\xc3\xa9", b"[a", b".a"]


class Case(NamedTuple):
    directory: bytes
    files: dict[bytes, bytes]
    paths: list[bytes]


def line(rng: random.Random) -> bytes:
    text = b"".join(rng.choices(PIECES, k=rng.randint(1, 6)))
    lead = rng.choice([b"", b"", b"", b"!", b"/", b"!/"])
    return lead + text + rng.choice([b"", b"", b"/", b"\r"])


def path(rng: random.Random) -> bytes:
    names = [b"".join(rng.choices(NAMES, k=rng.randint(1, 2))) for _ in range(rng.randint(1, 4))]
    return b"/".join(each + b"a" * (each in {b".", b".."}) for each in names)


def case(rng: random.Random, directory: bytes) -> Case:
    paths = [path(rng) for _ in range(6)]
    lines = [line(rng) for _ in range(rng.randint(1, 3))]
    files = {
        b"": rng.choice([b"", b"", b"\xef\xbb\xbf"]) + b"\n".join(lines) + rng.choice([b"", b"\n"])
    }
    above = paths[0].split(b"/")[:-1]
    if above and rng.random() < 0.5:
        files[b"/".join(above[: rng.randint(1, len(above))])] = line(rng)
    for below, data in files.items():
        os.makedirs(os.path.join(directory, below), exist_ok=True)
        for name in (b".gitignore", IGNORE_FILE):
            with open(os.path.join(directory, below, name), "wb") as opened:
                opened.write(data)
    os.makedirs(os.path.join(directory, paths[1]), exist_ok=True)
    return Case(directory, files, paths)


def answers_of_git(root: Path, cases: list[Case]) -> list[tuple[bytes, int, bool] | None]:
    """Return, for each path, the file, the line and whether it excludes; ``None``: none matches."""
    command = [
        require_tool("git"),
        "-c",
        "core.excludesFile=/dev/null",
        "-c",
        "core.ignoreCase=false",
    ]
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": os.fspath(root)}
    subprocess.run([command[0], "init", "-q", root], check=True, env=environment)
    paths = [os.path.join(each.directory, name) for each in cases for name in each.paths]
    command += ["check-ignore", "--no-index", "-z", "-v", "-n", "--stdin"]
    asked = b"\0".join(paths)
    process = subprocess.run(command, cwd=root, input=asked, stdout=-1, env=environment, check=True)
    fields = process.stdout.split(b"\0")[:-1]
    return [
        (source, int(number), not pattern.startswith(b"!")) if number else None
        for source, number, pattern in zip(fields[::4], fields[1::4], fields[2::4], strict=True)
    ]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 40))]
)
def test_patterns_decide_as_git_does(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    root = os.fsencode(tmp_path)
    cases = [case(rng, os.path.join(root, b"%d" % number)) for number in range(CASES)]
    expected = iter(answers_of_git(tmp_path, cases))
    counts = {True: 0, False: 0}
    for each in cases:
        ignore = Ignore(each.directory)
        for name in each.paths:
            answer = next(expected)
            is_directory = os.path.isdir(os.path.join(each.directory, name))
            match = ignore.match(name + b"/" * is_directory)
            found = None
            if match is not None:
                file = os.path.relpath(os.path.join(each.directory, match.file), root)
                found = file.replace(IGNORE_FILE, b".gitignore"), match.line, match.ignores
                counts[match.ignores] += 1
            assert found == answer, (each.files, name, is_directory)
    assert next(expected, None) is None
    assert counts[True] > CASES / 4
    assert counts[False] > CASES / 40
