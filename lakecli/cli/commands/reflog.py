"""``lakecli reflog``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.params import Amount, BranchOrTagUri
from lakecli.cli.text import local_date, one_line
from lakecli.errors import UsageError
from lakecli.uri import ref_of

if TYPE_CHECKING:
    from lakecli.repository.core.ref_moves import LoggedMove


def reflog(
    context: Context,
    ref: BranchOrTagUri,
    *,
    amount: Amount = 100,
    after: Annotated[
        int | None, typer.Option("--after", min=0, metavar="N", help="Show what comes after this")
    ] = None,
) -> None:
    """Show how a branch or tag moved, newest move first.

    Where it is shared, these are the moves in the bucket, as everybody sees them, on top of them
    what this clone did since and has not pushed, and below what it did before the first of them;
    otherwise what this clone did. It remembers that for 30 days, the bucket for good. The
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
    repository = context.synced_repository(ref)
    numbered = _numbered(name, iter_reflog(repository, name), shared=is_shared(repository, name))
    shown = islice(enumerate(numbered), 0 if after is None else after + 1, None)
    context.out.table(
        ("Ref", "Commit ID", "Date", "What", "Who"),
        context.out.page(shown, amount=amount, name=lambda item: str(item[0])),
        row=lambda item: _row(*item[1]),
        record=lambda item: _record(*item[1]),
    )


def _numbered(
    name: str, moves: Iterable[LoggedMove], *, shared: bool
) -> Iterator[tuple[str, LoggedMove, bool]]:
    """Yield moves with the ref that names each, and whether the bucket has not seen them."""
    for index, move in enumerate(moves):
        shared = shared and not move.shared
        yield f"{name}@{{{index}}}", move, shared


def _row(ref: str, move: LoggedMove, unpushed: bool) -> tuple[str, ...]:
    what = f"{move.why} (here only)" if unpushed else move.why
    return (ref, move.after or "deleted", local_date(move.at), one_line(what), one_line(move.who))


def _record(ref: str, move: LoggedMove, _unpushed: bool) -> dict[str, object]:
    return {
        "ref": ref,
        "commit_id": move.after,
        "before_commit_id": move.before,
        "at": move.at,
        "what": move.why,
        "who": move.who,
        "shared": move.shared,
    }
