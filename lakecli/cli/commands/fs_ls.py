"""``lakecli fs ls``, ``fs find`` and ``fs du``: the objects below a prefix."""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

from lakecli import native
from lakecli.base.model import Entry
from lakecli.base.uri import ref_of
from lakecli.cli.commands.entries import entry_record
from lakecli.cli.context import Context
from lakecli.cli.line import Kind, flag, option
from lakecli.cli.out.records import EntryJson, answers, pick
from lakecli.cli.out.text import human_size, local_date, quote_path, zones_of
from lakecli.cli.params import Amount, AtOp, PrefixUri, Recursive
from lakecli.cli.parsers import read_size, read_time
from lakecli.committed.scan import ListedObject, ListedPrefix
from lakecli.committed.values import decode_entry
from lakecli.repository.ls import find, ls

if TYPE_CHECKING:
    from lakecli.repository.du import PrefixUsage

DELIMITER = b"/"
_OBJECT = "object"
_PREFIX = "common_prefix"
_TOTAL = "total"


class ListedJson(TypedDict):
    """An object or a common prefix.

    Attributes:
        type: object; common_prefix, which has only a path; or, with --summarize, total in the last
            object, whose path is the prefix.
        objects: in the total, number of listed objects.
        size: size in bytes; in the total, size of all listed objects.
    """

    type: str
    path: bytes | str
    objects: NotRequired[int]
    size: NotRequired[int]


class UsageJson(TypedDict):
    """The space that the objects below a directory use.

    Attributes:
        prefix: the directory, with a slash at its end; null for the total, the last object.
        objects: number of paths.
        size: total size of the objects at all paths in bytes.
        physical: number of stored bytes; bytes that several paths share are counted once, for the
            first of the paths.
        shared: number of the stored bytes that other branches or tags also use; null without
            --shared.
    """

    prefix: bytes | str | None
    objects: int
    size: int
    physical: int
    shared: int | None


@answers(ListedJson, each=True, also=EntryJson)
def fs_ls(
    context: Context,
    path: PrefixUri,
    *,
    recursive: Recursive = False,
    amount: Amount = 0,
    after: str = option("PATH", kind=Kind.NOTHING),
    summarize: bool = flag(),
    at_op: AtOp = "",
) -> None:
    """List the objects whose paths begin with a prefix.

    The prefix need not be a directory: data/2026 lists both data/2026.csv and data/2026/. Without
    -r, paths with a slash after the prefix are grouped into one common prefix, and names are
    relative to the last slash of the prefix. Uncommitted changes of a branch are included; write
    BRANCH@ to list the committed objects only.

    Args:
        after: Start after this path.
        summarize: Show the number and size of the listed objects at the end.

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
    objects = total = 0

    def counted(item: ListedObject) -> Entry:
        nonlocal objects, total
        entry = decode_entry(item.value)
        objects, total = objects + 1, total + entry.size
        return entry

    def text(item: ListedObject | ListedPrefix) -> str:
        path = item.path[cut:]
        if isinstance(item, ListedObject):
            return object_line(path, counted(item))
        return f"{_PREFIX:<12}    {'':44}    {quote_path(path)}"

    def texts(items: list[ListedObject | ListedPrefix]) -> Iterator[str]:
        nonlocal objects, total
        core = native.core()
        if core is None:
            return map(text, items)
        lines, size = core.list_lines(items, cut, zones_of, quote_path)
        objects, total = objects + len(lines) - lines.count(None), total + size
        if None not in lines:
            return iter(cast("list[str]", lines))
        made = zip(items, lines, strict=True)
        return (text(item) if line is None else line for item, line in made)

    def record(item: ListedObject | ListedPrefix) -> dict[str, object]:
        if not isinstance(item, ListedObject):
            return {"type": _PREFIX, "path": item.path}
        return {"type": _OBJECT, **entry_record(repository, item.path, counted(item))}

    delimiter = b"" if recursive else DELIMITER
    with ls(
        repository, ref_of(path), prefix=prefix, delimiter=delimiter, after=os.fsencode(after)
    ) as found:
        shown = context.out.page(found, amount=amount, name=lambda item: os.fsdecode(item.path))
        context.out.stream(shown, record=record, texts=texts)
        if summarize:
            context.out.emit(
                {"type": _TOTAL, "path": prefix, "objects": objects, "size": total},
                text=lambda: (
                    "",
                    f"Total objects: {objects}",
                    f"Total size: {total} bytes ({human_size(total)})",
                ),
            )


def object_line(path: bytes, entry: Entry) -> str:
    """Return the line of an object in a listing."""
    date, size = local_date(entry.modified_at), human_size(entry.size)
    return f"{_OBJECT:<12}    {date:<29}    {size:<12}    {quote_path(path)}"


@answers(EntryJson, each=True)
def fs_find(
    context: Context,
    path: PrefixUri,
    *,
    names: Sequence[str] = option("PATTERN", "--name"),
    min_size: int | None = option("SIZE", read=read_size),
    max_size: int | None = option("SIZE", read=read_size),
    since: datetime | None = option("TIME", read=read_time),
    until: datetime | None = option("TIME", read=read_time),
    null: bool = flag("--null", "-z"),
    at_op: AtOp = "",
) -> None:
    """Find objects by name, size and time.

    It lists the URI of each object below the prefix that meets all conditions, one per line.
    PATTERN is compared with the last part of the path: * and ? stand for any characters, [a-z] for
    one of several; if --name is repeated, one match is enough. SIZE is 500, 10kB, 1.5GB or 10GiB.
    TIME is 2026-11-01, "2026-11-01 10:00", today, yesterday or "3 days ago". Uncommitted changes of
    a branch are included; write BRANCH@ to search the committed objects only.

    Args:
        names: Only names that match, such as '*.csv'.
        min_size: Only objects of at least this size.
        max_size: Only objects of at most this size.
        since: Only objects uploaded since this time.
        until: Only objects uploaded until this time.
        null: End each URI by NUL, unquoted.

    Examples:
        lakecli fs find lakefs://demo/main/ --name '*.parquet' --min-size 1GB
        lakecli fs find lakefs://demo/main/raw/ --since yesterday --json
        lakecli fs find lakefs://demo/v1.0/ --max-size 0 -z | xargs -0 -n 1 lakecli fs stat
    """
    repository, ref = context.synced_repository(path, at_op=at_op), ref_of(path)
    with find(
        repository,
        ref,
        prefix=path.path or b"",
        names=names,
        min_size=min_size or 0,
        max_size=max_size,
        since=since,
        until=until,
    ) as found:
        if null and not context.out.json:
            for each, _ in found:
                context.out.plain(repository.at(ref, os.fsdecode(each)) + "\0")
            return
        context.out.stream(
            found,
            record=lambda item: entry_record(repository, *item),
            text=lambda item: quote_path(repository.at(ref, os.fsdecode(item[0]))),
        )


@answers(UsageJson, each=True)
def fs_du(
    context: Context,
    path: PrefixUri,
    *,
    depth: int = option("N", default=1, min=0),
    shared: bool = flag(),
    at_op: AtOp = "",
) -> None:
    """Show the space that the objects below a prefix use, by directory.

    The columns are the directory, the number of paths, their bytes, and the bytes that are stored
    for them: bytes that several paths share are stored once, and count for the first of these
    paths. With --shared, the last column is the part of the stored bytes that other branches or
    tags also use; this reads their trees. A directory includes its subdirectories; the total comes
    last.

    Uncommitted changes of a branch are included; write BRANCH@ for the committed objects only.
    Older commits may store more: see `lakecli gc run`. Unless stdout is a terminal, the columns are
    separated by tabs and sizes are in bytes.

    Args:
        depth: Levels of directories; 0 for the total.
        shared: Also show how many of the bytes other branches and tags use.

    Examples:
        lakecli fs du lakefs://demo/main/
        lakecli fs du lakefs://demo/main/raw/ --depth 2 --shared
        lakecli fs du lakefs://demo/v1.0/ --depth 0 --json
    """
    from lakecli.repository.du import du

    repository = context.synced_repository(path, at_op=at_op)
    size_of = human_size if context.out.terminal else str

    def row(usage: "PrefixUsage") -> list[str]:
        name = "total" if usage.prefix is None else quote_path(usage.prefix)
        sizes = [usage.size, usage.physical, *([usage.shared] if shared else [])]
        return [name, str(usage.objects), *map(size_of, sizes)]

    def record(usage: "PrefixUsage") -> UsageJson:
        return pick(UsageJson, usage, shared=usage.shared if shared else None)

    with du(repository, ref_of(path), path.path or b"", depth=depth, shared=shared) as found:
        context.out.table(
            ("Directory", "Objects", "Size", "Stored", *(["Shared"] if shared else [])),
            found,
            row=row,
            record=record,
        )
