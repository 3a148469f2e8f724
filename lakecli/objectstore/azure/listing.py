"""The order of Azure's listings, made the one that lakecli relies on.

Azure compares names by their UTF-16 units, where characters beyond U+FFFF come before those from
U+E000 on; everything else is in byte order. Accounts with directories (a hierarchical namespace)
list what is in a directory right behind its name, before longer names that begin with it; nothing
short of listing the whole directory first could tell, so that is refused where it happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Entry = TypeVar("Entry")

_LAST_OF_PLANE_0 = "\uffff"


def in_byte_order(
    entries: Iterable[Entry], name_of: Callable[[Entry], str], *, error: Callable[[], Exception]
) -> Iterator[Entry]:
    """Yield entries ordered by the bytes of their names.

    What begins like a name with a character beyond U+FFFF, up to that character, is held back
    together and sorted; usually there is nothing of the kind.

    Args:
        entries: in Azure's order.
        name_of: the name of an entry.
        error: made where the order is another one.

    Raises:
        Exception: what `error` makes.
    """
    last = b""
    for entry in _rearranged(entries, name_of):
        name = name_of(entry).encode()
        if name <= last:
            raise error()
        last = name
        yield entry


def _rearranged(entries: Iterable[Entry], name_of: Callable[[Entry], str]) -> Iterator[Entry]:
    held: list[Entry] = []
    stem = ""
    for entry in entries:
        name = name_of(entry)
        if held and not name.startswith(stem):
            yield from sorted(held, key=lambda one: name_of(one).encode())
            held = []
        if not held:
            if name.isascii() or max(name) <= _LAST_OF_PLANE_0:
                yield entry
                continue
            first = next(at for at, character in enumerate(name) if character > _LAST_OF_PLANE_0)
            stem = name[:first]
        held.append(entry)
    yield from sorted(held, key=lambda one: name_of(one).encode())
