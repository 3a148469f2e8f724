"""``lakecli reflog``."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TypedDict

from lakecli.base.model import CommitId
from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line import option
from lakecli.cli.out.records import answers, pick
from lakecli.cli.out.text import one_line
from lakecli.cli.params import Amount, BranchOrTagUri
from lakecli.errors import UsageError
from lakecli.refs.expression import parse_expression
from lakecli.repository.reading.reflog import LoggedMove
from lakecli.repository.reflog import is_shared, iter_reflog


class ReflogEntryJson(TypedDict):
    """A move of a branch or tag.

    Attributes:
        ref: expression for the commit after the move, such as main@{0}.
        commit_id: commit after the move; null if the ref was deleted.
        before_commit_id: commit before the move; null if the ref was created.
        at: time of the move, by the clock of the machine that made it.
        what: the command: push, commit, ….
        who: name and e-mail address of the user; empty if unknown.
        shared: whether the ref was moved in the bucket, too.
    """

    ref: str
    commit_id: CommitId | None
    before_commit_id: CommitId | None
    at: datetime
    what: str
    who: str
    shared: bool


@answers(ReflogEntryJson, each=True)
def reflog(
    context: Context,
    ref: BranchOrTagUri,
    *,
    amount: Amount = 100,
    after: int | None = option("N", "Start after this number", min=0),
) -> None:
    """Show how a branch or tag moved, newest move first.

    A pushed branch or tag has a reflog in the bucket, which every clone sees; `lakecli gc run`
    deletes entries of more than 30 days. Moves of this clone that are not pushed come first, and
    moves from before the first push last; a clone keeps its own moves for 30 days. The number of
    each line makes a ref: main@{0} is the current position, main@{2} the position before the last
    two moves, and main@{2026-11-01} the position at a date.

    Each line has the ref, the commit, the time, what was done, and who did it.

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
        record=lambda item: _record(*item[1]),
    )


def _numbered(
    name: str, moves: Iterable[LoggedMove], *, shared: bool
) -> Iterator[tuple[str, LoggedMove, bool]]:
    """Yield each move with an expression such as ``main@{0}``, and whether it was never pushed.

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


def _record(ref: str, move: LoggedMove, _unpushed: bool) -> ReflogEntryJson:
    ids = {"commit_id": move.after, "before_commit_id": move.before}
    return pick(ReflogEntryJson, move, ref=ref, what=move.why, **ids)
