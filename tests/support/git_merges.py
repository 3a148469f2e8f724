"""A Git repository made of trees that are dicts, and what Git's own merge makes of its commits.

Objects are written by Python, and one process of Git merges many pairs of commits, so that a
thousand histories take seconds. Contents are digests of path and value: Git 2.39 looks for renames
whatever its settings say, and finds none among these.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.model import CommitId
from tests.support.tools import do_without, require_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class GitMerge(NamedTuple):
    """What Git makes of a merge.

    Attributes:
        tree: ID of what it leaves, conflicts included: the destination's version of a path that
            both sides have, else the version of the side that has it.
        conflicts: the paths in conflict.
    """

    tree: str
    conflicts: list[bytes]


class GitMerges:
    """A bare repository with SHA-256, so that commit IDs are as long as lakeFS's.

    Args:
        path: its directory, which is made.
    """

    def __init__(self, path: Path) -> None:
        require_tool("git")
        self._path = path
        self._written: set[str] = set()
        path.mkdir()
        self._run("init", "-q", "--bare", "--object-format=sha256", ".")
        (path / "info").mkdir(exist_ok=True)
        (path / "info" / "attributes").write_text("* -merge\n")
        if self._run("merge-tree", "--write-tree", "--stdin", check=False).returncode:
            do_without("git 2.39")

    def tree(self, model: Mapping[bytes, bytes]) -> str:
        """Return the ID of a tree, which is written."""
        entries = (
            b"100644 %b\0%b" % (path, bytes.fromhex(self._put("blob", _content(path, value))))
            for path, value in sorted(model.items())
        )
        return self._put("tree", b"".join(entries))

    def commit(
        self, model: Mapping[bytes, bytes], parents: Sequence[CommitId], second: int
    ) -> CommitId:
        """Return the ID of a commit, which is written."""
        lines = [
            f"tree {self.tree(model)}",
            *(f"parent {parent}" for parent in parents),
            f"author U <u@example.com> {second} +0000",
            f"committer U <u@example.com> {second} +0000",
        ]
        return CommitId(self._put("commit", "\n".join([*lines, "", ""]).encode()))

    def merge(self, pairs: Sequence[tuple[CommitId, CommitId]]) -> list[GitMerge]:
        """Merge the second commit of each pair into the first one."""
        asked = "".join(f"{into} {source}\n" for into, source in pairs)
        words = ("merge-tree", "--write-tree", "--stdin", "--name-only", "--no-messages")
        fields = iter(self._run(*words, text=asked).stdout.split(b"\0"))
        found = []
        for _ in pairs:
            is_clean, tree = next(fields) == b"1", next(fields).decode()
            conflicts = list(iter(fields.__next__, b""))
            assert is_clean == (not conflicts)
            found.append(GitMerge(tree, sorted(conflicts)))
        return found

    def _put(self, kind: str, body: bytes) -> str:
        data = b"%b %d\0%b" % (kind.encode(), len(body), body)
        name = hashlib.sha256(data).hexdigest()
        if name not in self._written:
            self._written.add(name)
            path = self._path / "objects" / name[:2] / name[2:]
            path.parent.mkdir(exist_ok=True)
            if not path.exists():  # Git has written the same
                path.write_bytes(zlib.compress(data, 1))
        return name

    def _run(
        self, *words: str, text: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._path),
            "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        return subprocess.run(
            ["git", *words],
            cwd=self._path,
            env=environment,
            input=text.encode(),
            capture_output=True,
            check=check,
        )


def _content(path: bytes, value: bytes) -> bytes:
    return hashlib.sha256(path + b"\0" + value).digest()
