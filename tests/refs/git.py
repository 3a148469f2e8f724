"""The same history as a real Git repository, to compare results with Git's.

Git uses SHA-256 here, so that its commit IDs are as long as lakeFS's and can replace them: both
sides get the same IDs.
"""

from __future__ import annotations

import os
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING

from lakecli.base.model import CommitId
from tests.support.graphs import EPOCH, FakeRefs, build

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path


class GitHistory:
    """A bare repository; commits are numbered from 0, parents before children.

    Attributes:
        path: its directory.
        ids: commit IDs by number.
        refs: the same commits for lakecli.
    """

    def __init__(
        self, path: Path, parents: Sequence[Sequence[int]], seconds: Sequence[int]
    ) -> None:
        self.path = path
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "gc.auto",
            "GIT_CONFIG_VALUE_0": "0",
            "GIT_CONFIG_KEY_1": "core.warnAmbiguousRefs",
            "GIT_CONFIG_VALUE_1": "false",
        }
        path.mkdir()
        self.run("init", "-q", "--bare", "--object-format=sha256", ".")
        self.run("fast-import", "--quiet", "--export-marks=marks", text=_stream(parents, seconds))
        marks = dict(line.split() for line in (path / "marks").read_text().splitlines())
        self.ids = [CommitId(marks[f":{number + 1}"]) for number in range(len(parents))]
        self.refs: FakeRefs = build(
            {self.ids[n]: [self.ids[p] for p in parents[n]] for n in range(len(parents))},
            {self.ids[n]: EPOCH + timedelta(seconds=seconds[n]) for n in range(len(parents))},
        )

    def run(self, *arguments: str, text: str = "") -> str:
        """Run a git command that must succeed; return what it prints."""
        return self._run(arguments, text, check=True).stdout

    def output(self, *arguments: str) -> str:
        """Run a git command that may fail; return what it prints."""
        return self._run(arguments, "", check=False).stdout

    def succeeds(self, *arguments: str) -> bool:
        """Run a git command that answers by its exit code, 0 or 1."""
        code = self._run(arguments, "", check=False).returncode
        assert code in {0, 1}
        return code == 0

    def rev_parse(self, expressions: Sequence[str]) -> list[CommitId | None]:
        """Return what each expression names, ``None`` where it names nothing."""
        answers = self.run("cat-file", "--batch-check", text="\n".join(expressions) + "\n")
        return [
            CommitId(answer.split()[0]) if answer.endswith(" commit") else None
            for answer in (line.rpartition(" ")[0] for line in answers.splitlines())
        ]

    def _run(
        self, arguments: Sequence[str], text: str, *, check: bool
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env=self._environment,
            input=text,
            capture_output=True,
            text=True,
            check=check,
        )


def random_parents(
    rng: random.Random, count: int, *, reach: int, merges: float, roots: float = 0
) -> list[list[int]]:
    """Return a random history: the parents of each commit, by number.

    Args:
        rng: the source of randomness.
        count: of commits.
        reach: how many commits back a parent may be; small ones give long, thin histories.
        merges: the share of commits with two or three parents.
        roots: the share of commits without parents, besides the first.
    """
    parents: list[list[int]] = [[]]
    for number in range(1, count):
        recent = range(max(0, number - reach), number)
        wanted = rng.choice((2, 2, 3)) if rng.random() < merges else 1
        if rng.random() < roots:
            wanted = 0
        parents.append(rng.sample(recent, min(wanted, len(recent))))
    return parents


def shuffled_seconds(rng: random.Random, count: int) -> list[int]:
    """Return times that contradict the ancestry, no two alike."""
    return rng.sample(range(10 * count), count)


def rising_seconds(rng: random.Random, count: int) -> list[int]:
    """Return times that respect the ancestry, no two alike."""
    return sorted(rng.sample(range(10 * count), count))


def _stream(parents: Sequence[Sequence[int]], seconds: Sequence[int]) -> str:
    lines: list[str] = []
    for number, (own, second) in enumerate(zip(parents, seconds, strict=True)):
        at = int(EPOCH.timestamp()) + second
        lines += [
            f"commit refs/heads/c{number}",
            f"mark :{number + 1}",
            f"committer U <u@example.com> {at} +0000",
            "data 0",
        ]
        lines += [f"{'merge' if n else 'from'} :{parent + 1}" for n, parent in enumerate(own)]
        lines.append("")
    return "\n".join(lines) + "\n"
