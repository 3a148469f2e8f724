"""What ``--from`` names: a directory, a prefix of a bucket, a manifest or an S3 Inventory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import Refused
from lakecli.objectstore.uri import is_local, parse
from lakecli.pipeline.imports.files import plan_files
from lakecli.pipeline.imports.listing import plan_listing
from lakecli.pipeline.imports.part import inside_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.pipeline.imports.job import Source
    from lakecli.pipeline.imports.part import Part, Task
    from lakecli.pipeline.runner import Runner
    from lakecli.repository.lake import Repository
    from lakecli.repository.walk import LinkPolicy

LISTING_PARTS: Final = 64
"""Parts that a long listing of a bucket becomes, at least."""


class Directory(NamedTuple):
    """All files below a directory; `root` is absolute."""

    root: bytes
    links: LinkPolicy

    def estimate(self) -> int | None:
        """Nobody knows."""
        return None

    def plan(
        self, task: Task, runner: Runner, high: bytes | None, *, spill: Path | None
    ) -> Iterator[Part]:
        """Yield the parts; see `job.Source`."""
        del runner, spill
        return plan_files(self.root, self.links, prefix=task.prefix, high=high)


class Bucket(NamedTuple):
    """All objects below a prefix; `uri` is normalised."""

    uri: str

    def estimate(self) -> int | None:
        """Nobody knows."""
        return None

    def plan(
        self, task: Task, runner: Runner, high: bytes | None, *, spill: Path | None
    ) -> Iterator[Part]:
        """Yield the parts; see `job.Source`."""
        del spill
        from lakecli.objectstore.registry import open_store

        wanted = max(LISTING_PARTS, 4 * runner.parallelism)
        return plan_listing(open_store(self.uri), task.prefix, high, wanted=wanted)


def open_source(
    repository: Repository, text: str, *, is_manifest: bool = False, links: LinkPolicy
) -> Source:
    """Return the source that a URI names.

    Args:
        repository: that it is imported into.
        text: of ``--from``; a relative path is one on this machine.
        is_manifest: whether it is a manifest, whatever it is called.
        links: what to do about symbolic links in a directory.

    Raises:
        UsageError: it names nothing that can be imported.
        Refused: it lies in the repository's own namespace, or holds it.
    """
    del is_manifest
    uri = str(parse(text if "://" in text else os.path.abspath(text)))
    check_outside(repository, uri)
    if is_local(uri):
        return Directory(os.fsencode(uri.removeprefix("local://")), links)
    return Bucket(uri)


def check_outside(repository: Repository, uri: str) -> None:
    """Refuse a source that the repository's namespace lies in, or that lies in it.

    Raises:
        Refused: it does.
    """
    own = _real(repository.record.storage_namespace)
    other = _real(uri)
    if (other + "/").startswith(own + "/"):
        raise inside_error(uri, repository.record.storage_namespace)
    if (own + "/").startswith(other + "/"):
        raise Refused(
            f"the source {uri} holds the repository's own namespace {own}",
            hint="import a prefix that does not",
        )


def _real(uri: str) -> str:
    """Return a URI without links on the way, where it is one of this machine."""
    if is_local(uri):
        return "local://" + os.path.realpath(uri.removeprefix("local://")).rstrip("/")
    return uri
