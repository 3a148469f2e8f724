"""A repository ``demo`` for tests of the command line, and helpers that give it a history."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lakecli.repository.handle.lake import Lake
from lakecli.repository.runtime import Home, Runtime
from tests.support import lakes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.golden import Cli

REPOSITORY = "lakefs://demo"


class Demo:
    """The repository, made by ``repo create`` with small ranges, so that there are many."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.namespace = cli.directory / "namespace"
        cli.ok("repo", "create", REPOSITORY, self.namespace, "--range-entries=16")

    def lake(self) -> Lake:
        """Open the lake that the commands use."""
        home = Path(os.environ["LAKECLI_HOME"])
        runtime = Runtime(lambda: self.cli.now, lambda: os.urandom(16), "test")
        return Lake.open(Home(home / "store", home / "cache"), runtime)

    def stage(self, contents: Mapping[str, str | None], branch: str = "main") -> None:
        """Stage contents by path, ``None`` for a deletion."""
        changes = {
            os.fsencode(path): None if text is None else text.encode()
            for path, text in contents.items()
        }
        with self.lake() as lake:
            lakes.stage(lake.repository("demo"), branch, changes)

    def commit(self, message: str, contents: Mapping[str, str | None], branch: str = "main") -> str:
        """Commit contents and return the commit's ID."""
        self.stage(contents, branch)
        made = self.cli.ok("commit", f"{REPOSITORY}/{branch}", "-m", message, "--json").json
        return str(made["id"])

    def branch(self, name: str, source: str = "main") -> None:
        """Create a branch."""
        self.cli.ok("branch", "create", f"{REPOSITORY}/{name}", "-s", f"{REPOSITORY}/{source}")

    def merge(self, source: str, destination: str, *options: str) -> str:
        """Merge and return the commit's ID."""
        refs = (f"{REPOSITORY}/{source}", f"{REPOSITORY}/{destination}")
        return str(self.cli.ok("merge", *refs, *options, "--json").json["id"])

    def head(self, ref: str = "main") -> str:
        """Return the commit ID of a ref."""
        return self.cli.ok("rev-parse", f"{REPOSITORY}/{ref}").stdout.strip()

    def contents(self, ref: str = "main") -> dict[str, str]:
        """Return the checksum at every path, shortened."""
        with self.lake() as lake:
            found = lakes.read(lake.repository("demo"), ref)
        return {os.fsdecode(path): checksum[:8] for path, checksum in found.items()}

    def messages(self, ref: str = "main") -> list[str]:
        """Return the messages of a log."""
        commits = self.cli.ok("log", f"{REPOSITORY}/{ref}", "--json").json_lines
        return [commit["message"] for commit in commits]
