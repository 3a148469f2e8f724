"""Linked directories below a directory."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from lakecli.errors import IntegrityError, Refused
from lakecli.repository.transfer.own_files import LINK_FILE
from lakecli.worktree.link import Link, read_link


class Linked(NamedTuple):
    """A linked directory.

    Attributes:
        directory: relative to the directory where the search began.
        link: what it is linked with; ``None`` if its `.lakefs_ref.yaml` is malformed, or another
            user's.
    """

    directory: Path
    link: Link | None


def find_linked(start: Path, *, trust: Collection[str] = ()) -> Iterator[Linked]:
    """Yield the linked directories below a directory, itself included, in order of their names."""
    name = os.fsdecode(LINK_FILE)
    for place, directories, files in os.walk(start):
        directories.sort()
        if name in files:
            directories.clear()  # nothing in a working directory is linked
            found = Path(place)
            try:
                link = read_link(found, trust=trust)
            except (IntegrityError, Refused):
                link = None
            yield Linked(found.relative_to(start), link)
