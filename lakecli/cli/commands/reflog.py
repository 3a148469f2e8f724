"""``lakecli reflog``."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.params import Amount, RefUri
from lakecli.cli.text import local_date, one_line
from lakecli.errors import UsageError
from lakecli.uri import ref_of

if TYPE_CHECKING:
    from lakecli.repository.reflog import LoggedMove


def reflog(
    context: Context,
    ref: RefUri,
    *,
    amount: Amount = 100,
    after: Annotated[
        int | None, typer.Option("--after", min=0, metavar="N", help="Show what comes after this")
    ] = None,
) -> None:
    """Show how a branch or tag moved, newest move first.

    Where it is shared, these are the moves in the bucket, as everybody sees them, and on top what
    this clone did since and has not pushed; otherwise what this clone did in the last 30 days. The
    number before each move makes a ref: main@{0} is where main went last, main@{2} where it stood
    before its last two moves, and main@{2026-11-01} where it stood at a date.

    Each line has where it went, when, what was done, and who did it.

    Examples:
        lakecli reflog lakefs://demo/main
        lakecli reflog lakefs://demo/main --amount 10 --after 9
        lakecli diff lakefs://demo/main@{yesterday} lakefs://demo/main
    """
    from lakecli.refs.expression import parse
    from lakecli.repository.reflog import is_shared, iter_reflog

    name = parse(ref_of(ref)).base
    if name != ref_of(ref):
        raise UsageError(
            f"not a branch or tag: {ref_of(ref)!r}", hint=f"lakefs://{ref.repository}/{name}"
        )
    repository = context.repository(ref)
    moves = islice(
        enumerate(iter_reflog(repository, name)), 0 if after is None else after + 1, None
    )
    own = " (not pushed)" if is_shared(repository, name) else ""

    def row(item: tuple[int, LoggedMove]) -> tuple[str, ...]:
        index, move = item
        what = move.why if move.shared else move.why + own
        where = move.after or "deleted"
        return (_ref(name, index), where, local_date(move.at), one_line(what), one_line(move.who))

    context.out.table(
        ("Ref", "Commit ID", "Date", "What", "Who"),
        context.out.page(moves, amount=amount, name=lambda item: str(item[0])),
        row=row,
        record=lambda item: _record(name, *item),
    )


def _ref(name: str, index: int) -> str:
    return f"{name}@{{{index}}}"


def _record(name: str, index: int, move: LoggedMove) -> dict[str, object]:
    return {
        "ref": _ref(name, index),
        "commit_id": move.after,
        "before_commit_id": move.before,
        "at": move.at,
        "what": move.why,
        "who": move.who,
        "shared": move.shared,
    }
