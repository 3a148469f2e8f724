"""One page of differences, grouped by directory.

The differences below a directory are counted up to a bound. If there are more, reading continues at
the first path after the directory, so a page never reads a million paths of one directory.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

from lakecli.base.model import Difference, Entry
from lakecli.committed.change_counts import ChangeCounts
from lakecli.committed.scan import prefix_end
from lakecli.committed.values import decode_entry

PAGE: Final = 100
"""The number of items on one page."""

MOST_BELOW: Final = 1_000
"""The maximum number of paths that are counted below one directory."""

MOST_COUNTED: Final = 20_000
"""The maximum number of paths that are counted for one page; later directories get no count."""

Open = Callable[[bytes], Iterator[Difference]]
"""A function that returns the differences in path order, starting at a given path."""


class ChangedItem(NamedTuple):
    """A directory with differences below it, or one path that differs.

    Attributes:
        path: the path; a directory ends with a slash.
        name: the part of the path after the prefix.
        counts: the number of differences below the directory, or of this path, by type.
        is_more: whether the directory has more differences than were counted.
        type: how the path differs; ``None`` for a directory.
        before: the entry on the left, or ``None`` if there is none.
        after: the entry on the right, or ``None`` if there is none.
    """

    path: bytes
    name: bytes
    counts: ChangeCounts
    is_more: bool = False
    type: str | None = None
    before: Entry | None = None
    after: Entry | None = None


def one_page(open_: Open, prefix: bytes, after: bytes) -> tuple[list[ChangedItem], bytes | None]:
    """Return a page of the differences below a prefix, and the path after which the next begins.

    The path is ``None`` on the last page.

    Args:
        open_: opens the differences below the prefix.
        prefix: the prefix of the page's directory.
        after: the path of the last item of the previous page; ``b""`` for the first page.
    """
    found: list[ChangedItem] = []
    left = MOST_COUNTED
    differences = open_(_behind(after) if after else b"")
    while (first := next(differences, None)) is not None:
        if len(found) == PAGE:
            return found, found[-1].path
        slash = first.path.find(b"/", len(prefix))
        path = first.path if slash < 0 else first.path[: slash + 1]
        item = ChangedItem(path, path[len(prefix) :], ChangeCounts(path))
        if slash < 0:
            sides = [None if each is None else decode_entry(each) for each in first[2:4]]
            item.counts.add(first)
            found.append(item._replace(type=str(first.type), before=sides[0], after=sides[1]))
            continue
        bound = max(1, min(MOST_BELOW, left))
        behind: Difference | None = None
        for each in islice(chain([first], differences), bound + 1):
            if not each.path.startswith(path) or item.counts.paths == bound:
                behind = each
                break
            item.counts.add(each)
        left -= item.counts.paths
        is_more = behind is not None and behind.path.startswith(path)
        found.append(item._replace(is_more=is_more))
        if behind is not None:
            differences = open_(_behind(path)) if is_more else chain([behind], differences)
    return found, None


def _behind(item: bytes) -> bytes:
    """Return the lowest path that sorts after an item and, for a directory, all paths below it."""
    return (prefix_end(item) or b"\xff" * 1025) if item.endswith(b"/") else item + b"\0"
