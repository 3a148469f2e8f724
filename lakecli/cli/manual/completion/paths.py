"""The names in one directory of a ref, for completion."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lakecli.committed.listing import common_start, list_prefix, prefix_end
from lakecli.repository.reading.view import View


def names_at(view: View, prefix: bytes, *, limit: int) -> list[bytes]:
    """Return paths that start with `prefix`, in order, each cut behind the next slash.

    Beyond the limit the names are a sample, and what all of them begin with, all paths do: a shell
    inserts that.

    Args:
        view: of a ref.
        prefix: any bytes, not only whole components.
        limit: the number of names to return; a few more may come.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    names = list(islice(_names_from(view, prefix, prefix), limit))
    if len(names) < limit:
        return names
    lead = common_start(names[0], names[-1])
    while len(lead) > len(prefix) and (start := prefix_end(lead)) is not None:
        name = next(_names_from(view, prefix, start), None)
        if name is None:
            break
        names.append(name)
        lead = common_start(lead, name)
    return names


def _names_from(view: View, prefix: bytes, start: bytes) -> Iterator[bytes]:
    listed = list_prefix(
        lambda at: view.scan(prefix=prefix, start=max(at, start)), prefix=prefix, delimiter=b"/"
    )
    return (each.path for each in listed)
