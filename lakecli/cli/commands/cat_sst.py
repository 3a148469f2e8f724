"""``lakecli cat-sst``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

from lakecli.cli.context import Context
from lakecli.cli.lakefs import read_table
from lakecli.cli.line.declare import Option
from lakecli.cli.out.text import one_line, rfc3339
from lakecli.cli.reading import Completion, Kind
from lakecli.repository.lakefs.dump_records import iter_records, kind_of


def cat_sst(
    context: Context,
    file: Annotated[
        str,
        Option(
            "--file",
            "-f",
            metavar="FILE",
            help="A file, the URI of an object in a storage namespace, or - for standard input",
        ),
        Completion(Kind.FILE),
    ],
    *,
    amount: Annotated[
        int, Option("--amount", metavar="N", help="Show at most N records; -1 shows all")
    ] = -1,
) -> None:
    """Show the records of a range, a metarange or a list of a refs dump.

    These are the SSTables below _lakefs/ in a storage namespace, whether lakecli or lakeFS wrote
    them, and the commit packs below _lakecli/commits/. Checksums of blocks are verified.

    Examples:
        lakecli cat-sst -f /var/lake/demo/_lakefs/RANGE_ID --amount 10
        lakecli cat-sst -f s3://my-bucket/demo/_lakefs/METARANGE_ID --json
    """
    table = read_table(context, file)
    columns = kind_of(table).columns
    records = iter_records(table)

    def as_record(values: tuple[Any, ...]) -> Mapping[str, object]:
        return dict(zip(columns, values, strict=True))

    context.out.table(
        tuple(name.upper() for name in columns),
        records if amount < 0 else islice(records, amount),
        row=lambda values: tuple(map(_shown, values)),
        record=as_record,
    )


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return one_line(value.decode("utf-8", "surrogateescape"))
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, str | int):
        return one_line(str(value))
    return json.dumps(value, ensure_ascii=False)
