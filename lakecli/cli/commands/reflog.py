"""``lakecli reflog``: show how a branch or tag moved."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TypedDict

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line import option
from lakecli.cli.out.records import answers, fields_of
from lakecli.cli.out.text import one_line
from lakecli.cli.params import Amount, BranchOrTagUri
from lakecli.errors import UsageError
from lakecli.refs.expression import parse_expression
from lakecli.repository.reading.reflog import LoggedMove
from lakecli.repository.reflog import is_shared, iter_reflog


class ReflogEntryJson(TypedDict):
    """A move of a branch or tag.

    The other fields are those of `LoggedMove`.

    Attributes:
        ref: expression for the commit after the move, such as main@{0}.
    """

    ref: str


@answers(ReflogEntryJson, each=True)
def reflog(
    context: Context,
    ref: BranchOrTagUri,
    *,
    amount: Amount = 100,
    after: int | None = option("N", min=0),
) -> None:
    """Show how a branch or tag moved, newest move first.

    A pushed branch or tag has a reflog in the bucket, which every clone sees; `lakecli gc run`
    deletes entries of more than 30 days. Moves of this clone that are not pushed come first, and
    moves from before the first push last; a clone keeps its own moves for 30 days. The number of
    each line can be used in a ref: main@{0} is the current position, main@{2} the position before
    the last two moves, and main@{2026-11-01} the position at a date.

    Each line has the ref, the commit, the time, what was done, and who did it.

    Args:
        after: Start after this number.

    Examples:
        lakecli reflog lakefs://demo/main
        lakecli reflog lakefs://demo/main --amount 10 --after 9
        lakecli diff lakefs://demo/main@{yesterday} lakefs://demo/main
    """
    name = parse_expression(ref_of(ref)).base
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
        row=lambda item: _row(context.out.date, *item[1]),
        record=lambda item: {"ref": item[1][0]} | fields_of(item[1][1]),
    )


def _numbered(
    name: str, moves: Iterable[LoggedMove], *, shared: bool
) -> Iterator[tuple[str, LoggedMove, bool]]:
    """Yield the moves of a branch or tag, numbered by expressions such as ``main@{0}``.

    Each item is the expression, the move, and whether the move is unpushed.

    Args:
        moves: the moves of a branch or tag, newest first.
        shared: whether the ref exists in the bucket; otherwise no move counts as unpushed.
    """
    for index, move in enumerate(moves):
        shared = shared and not move.shared
        yield f"{name}@{{{index}}}", move, shared


def _row(
    date: Callable[[datetime], str], ref: str, move: LoggedMove, unpushed: bool
) -> tuple[str, ...]:
    what = f"{move.why} (here only)" if unpushed else move.why
    return (ref, move.after or "deleted", date(move.at), one_line(what), one_line(move.who))
