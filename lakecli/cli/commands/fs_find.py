"""``lakecli fs find``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.out.common_records import entry_record
from lakecli.cli.out.text import quote_path
from lakecli.cli.params import AtOp, PrefixUri
from lakecli.cli.reading import Parser, read_size, read_texts, read_time
from lakecli.repository.ls import Wanted, find
from lakecli.repository.reading.addresses import full_address


def fs_find(
    context: Context,
    path: PrefixUri,
    *,
    names: Annotated[
        Sequence[str],
        Option("--name", metavar="PATTERN", help="Only names that match, such as '*.csv'"),
        Parser(read_texts, repeatable=True),
    ] = (),
    min_size: Annotated[
        int | None,
        Option("--min-size", metavar="SIZE", help="Only objects of at least this size"),
        Parser(read_size),
    ] = None,
    max_size: Annotated[
        int | None,
        Option("--max-size", metavar="SIZE", help="Only objects of at most this size"),
        Parser(read_size),
    ] = None,
    since: Annotated[
        datetime | None,
        Option("--since", metavar="TIME", help="Only objects uploaded since this time"),
        Parser(read_time),
    ] = None,
    until: Annotated[
        datetime | None,
        Option("--until", metavar="TIME", help="Only objects uploaded until this time"),
        Parser(read_time),
    ] = None,
    null: Annotated[bool, Option("--null", "-z", help="End each URI by NUL, unquoted")] = False,
    at_op: AtOp = "",
) -> None:
    """Find objects by name, size and time.

    The URI of each object below the prefix that meets all conditions is shown, one a line. PATTERN
    is compared with the last part of the path: * and ? stand for any characters, [a-z] for one of
    several; if --name is repeated, one match is enough. SIZE is 500, 10kB, 1.5GB or 10GiB. TIME is
    2026-11-01, "2026-11-01 10:00", today, yesterday or "3 days ago". Uncommitted changes of a
    branch are included; write BRANCH@ to search the committed objects only.

    Examples:
        lakecli fs find lakefs://demo/main/ --name '*.parquet' --min-size 1GB
        lakecli fs find lakefs://demo/main/raw/ --since yesterday --json
        lakecli fs find lakefs://demo/v1.0/ --max-size 0 -z | xargs -0 -n 1 lakecli fs stat
    """
    repository, ref = context.synced_repository(path, at_op=at_op), ref_of(path)
    wanted = Wanted(names, min_size or 0, max_size, since, until)
    with find(repository, ref, path.path or b"", wanted) as found:
        if null and not context.out.json:
            for each, _ in found:
                context.out.plain(repository.at(ref, os.fsdecode(each)) + "\0")
            return
        context.out.stream(
            found,
            record=lambda item: entry_record(
                *item, physical_address=full_address(repository, item[1])
            ),
            text=lambda item: quote_path(repository.at(ref, os.fsdecode(item[0]))),
        )
