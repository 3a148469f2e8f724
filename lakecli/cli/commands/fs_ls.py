"""``lakecli fs ls``."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Annotated

from lakecli.base.model import Entry
from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.out.common_records import entry_record
from lakecli.cli.out.text import human_size, local_date, quote_path
from lakecli.cli.params import Amount, AtOp, PrefixUri, Recursive
from lakecli.committed.listing import ListedObject, ListedPrefix
from lakecli.committed.values import decode_entry
from lakecli.repository.ls import ls
from lakecli.repository.reading.addresses import full_address

DELIMITER = b"/"
_OBJECT = "object"
_PREFIX = "common_prefix"
_TOTAL = "total"


_After = Annotated[str, Option("--after", metavar="PATH", help="Start after this path")]
_Summarize = Annotated[
    bool,
    Option("--summarize", help="Show the number and size of the listed objects at the end"),
]


def fs_ls(
    context: Context,
    path: PrefixUri,
    *,
    recursive: Recursive = False,
    amount: Amount = 0,
    after: _After = "",
    summarize: _Summarize = False,
    at_op: AtOp = "",
) -> None:
    """List the objects whose paths begin with a prefix.

    The prefix need not be a directory: data/2026 lists both data/2026.csv and data/2026/. Without
    -r, paths with a slash after the prefix are grouped into one common prefix, and names are
    relative to the last slash of the prefix. Uncommitted changes of a branch are included; write
    BRANCH@ to list the committed objects only.

    Examples:
        lakecli fs ls lakefs://demo/main/
        lakecli fs ls -r lakefs://demo/main~1/data/2026
        lakecli fs ls -r --summarize lakefs://demo/main/data/
        lakecli fs ls lakefs://demo/main/data/ --amount 100 --after data/100.csv
        lakecli fs ls s3://my-bucket/demo@main/
    """
    repository = context.synced_repository(path, at_op=at_op)
    prefix = path.path or b""
    cut = 0 if recursive else prefix.rfind(DELIMITER) + 1
    date_of = lru_cache(maxsize=256)(local_date)  # what was uploaded together has few dates
    size_of = lru_cache(maxsize=4096)(human_size)

    objects = total = 0

    def counted(item: ListedObject) -> Entry:
        nonlocal objects, total
        entry = decode_entry(item.value)
        objects, total = objects + 1, total + entry.size
        return entry

    def text(item: ListedObject | ListedPrefix) -> str:
        shown = quote_path(item.path[cut:])
        if not isinstance(item, ListedObject):
            return f"{_PREFIX:<12}    {'':44}    {shown}"
        entry = counted(item)
        date, size = date_of(entry.modified_at), size_of(entry.size)
        return f"{_OBJECT:<12}    {date:<29}    {size:<12}    {shown}"

    def record(item: ListedObject | ListedPrefix) -> dict[str, object]:
        if not isinstance(item, ListedObject):
            return {"type": _PREFIX, "path": item.path}
        entry = counted(item)
        address = full_address(repository, entry)
        return {"type": _OBJECT, **entry_record(item.path, entry, physical_address=address)}

    with ls(
        repository,
        ref_of(path),
        prefix=prefix,
        delimiter=b"" if recursive else DELIMITER,
        after=os.fsencode(after),
    ) as found:
        shown = context.out.page(found, amount=amount, name=lambda item: os.fsdecode(item.path))
        context.out.stream(shown, record=record, text=text)
        if summarize:
            context.out.emit(
                {"type": _TOTAL, "path": prefix, "objects": objects, "size": total},
                text=lambda: (
                    "",
                    f"Total objects: {objects}",
                    f"Total size: {total} bytes ({human_size(total)})",
                ),
            )
