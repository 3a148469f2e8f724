"""The checks of `doctor` on this machine: local store, cache and disks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from lakecli import native
from lakecli.base.directories import make_private
from lakecli.committed.cache import kept_reads, reads_text, size_of
from lakecli.doctor.check import Check, failed, ok, skipped, warning
from lakecli.errors import Unreachable
from lakecli.kv.environment import Usage

LOW_SPACE: Final = 10**9
"""Free bytes on a disk; fewer are a warning."""

NO_SPACE: Final = 10**8
"""Free bytes on a disk; fewer are an error."""

FULL_MAP: Final = 0.8
"""The used share of the local store's memory map from which on it is a warning."""


def memory_map(usage: Usage) -> Check:
    """Check how full the memory map of the local store is."""
    seen = f"{_shown(usage.used)} of {_shown(usage.map_size)} used"
    details = {"used": str(usage.used), "size": str(usage.map_size)}
    if usage.used < usage.map_size * FULL_MAP:
        return ok("map", seen, **details)
    return warning("map", seen, fix="raise the limit of address space (ulimit -v)", **details)


def compiled_core() -> Check:
    """Check whether bulk work is done by the compiled core."""
    name, problem = "compiled-core", native.problem()
    if not problem:
        return ok(name, "used")
    if problem == native.MISSING:
        return ok(name, f"not used: {problem}; bulk work takes longer, with the same results")
    return warning(name, f"not used: {problem}", fix="install this version of lakecli again")


def cache(directory: Path, *, used_by: str = "", limit: int = 0) -> Check:
    """Check that the cache directory is writable, and report how a repository uses it.

    Args:
        directory: of the caches of all repositories.
        used_by: the UUID of the repository; ``""`` if it caches nothing.
        limit: bytes that the repository may use.
    """
    from tempfile import TemporaryFile

    try:
        make_private(directory)
        with TemporaryFile(dir=directory) as file:
            file.write(b"can be written")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return warning(
            "cache",
            f"{reason}: {directory}; nothing is cached, so each read goes to the namespace",
            fix="make the directory writable, or set LAKECLI_HOME to one that is",
        )
    if not used_by:
        return ok("cache", str(directory))

    used, reads = size_of(directory / used_by), kept_reads(directory / used_by)
    return ok(
        "cache",
        f"{directory}, {_shown(used)} of {_shown(limit)} used; reads of trees: {reads_text(reads)}",
        used=str(used),
        limit=str(limit),
        **{tier: str(count) for tier, count in reads.items()},
    )


def disk_space(places: Iterable[str], free_space: Callable[[str], int]) -> Check:
    """Check the disk with the least free space among those of several directories."""
    measured = []
    for place in places:
        with suppress(OSError):
            measured.append((free_space(_existing(place)), place))
    if not measured:
        return skipped("disk-space", "the free space is unknown")
    free, place = min(measured)
    seen = f"{_shown(free)} free on the disk of {place}"
    fix = "free some space there"
    if free < NO_SPACE:
        return failed("disk-space", Unreachable(f"only {seen}", hint=fix), free=str(free))
    if free < LOW_SPACE:
        return warning("disk-space", f"only {seen}", fix=fix, free=str(free))
    return ok("disk-space", seen, free=str(free))


def _existing(place: str) -> str:
    """Return the directory itself, or the nearest existing one above it."""
    while not os.path.isdir(place) and place != "/":  # noqa: PTH112 - namespaces are text
        place = os.path.dirname(place)  # noqa: PTH120 - as above
    return place


def _shown(size: int) -> str:
    return f"{size / 10**9:,.1f} GB" if size >= 10**9 else f"{size / 10**6:.1f} MB"
