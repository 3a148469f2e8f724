"""The files in ``tests/data/lakefs/``, which lakeFS itself wrote; its README says what they are."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any, Final

DIRECTORY: Final = Path(__file__).parents[1] / "data" / "lakefs"


def live_objects() -> dict[str, bytes]:
    """Return the objects of a storage namespace by key."""
    return _files_of("live-1.tar.gz")


def live_expected() -> dict[str, Any]:
    """Return the answers of the lakeFS server about that namespace."""
    return _read_json("live-1.expected.json.gz")


def write_wild(directory: Path) -> None:
    """Write the files of ``wild-1.tar.gz``: the namespace ``wild``, and beside it four dumps.

    They have the dates that lakeFS gave them: garbage collection compares these with later ones.
    """
    with tarfile.open(DIRECTORY / "wild-1.tar.gz") as archive:
        # Python 3.11 before 3.11.4, as in Debian 12, has no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(directory)


def wild_expected() -> dict[str, Any]:
    """Return the answers of the lakeFS server about that namespace."""
    return _read_json("wild-1.expected.json.gz")


def _files_of(name: str) -> dict[str, bytes]:
    with tarfile.open(DIRECTORY / name) as archive:
        return {
            member.name: file.read()
            for member in archive
            if member.isfile() and (file := archive.extractfile(member)) is not None
        }


def _read_json(name: str) -> dict[str, Any]:
    with gzip.open(DIRECTORY / name) as file:
        expected: dict[str, Any] = json.load(file)
        return expected


def log_children_first(expected: dict[str, Any], ref: str) -> list[str]:
    """Return the server's log of a ref, each commit moved behind the last of its children.

    lakeFS orders commits of one second by ID alone; the namespace has parents before children.
    """
    commits, waiting = expected["commits"], list(expected["log"][ref])
    shown: list[str] = []
    while waiting:
        parents = {parent for each in waiting for parent in commits[each]["parents"]}
        ready = [each for each in waiting if each not in parents]
        shown.append(max(ready, key=lambda each: (commits[each]["creation_date"], each)))
        waiting.remove(shown[-1])
    return shown
