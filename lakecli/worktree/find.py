"""Linked directories below a directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.repository.core.own_files import LINK_FILE
from lakecli.worktree.link import read_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.worktree.link import Link


class Linked(NamedTuple):
    """A linked directory.

    Attributes:
        directory: relative to the directory where the search began.
        link: what it is linked with; ``None`` if its `.lakefs_ref.yaml` is malformed.
    """

    directory: Path
    link: Link | None


def find_linked(start: Path) -> Iterator[Linked]:
    """Yield the linked directories below a directory, itself included, in order of their names."""
    name = os.fsdecode(LINK_FILE)
    for place, directories, files in os.walk(start):
        directories.sort()
        if name in files:
            directories.clear()  # nothing in a working directory is linked
            found = Path(place)
            try:
                link = read_link(found)
            except IntegrityError:
                link = None
            yield Linked(found.relative_to(start), link)
