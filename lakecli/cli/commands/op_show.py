"""``lakecli op show``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lakecli.cli.context import Context
from lakecli.cli.operations import operation_lines, operation_record
from lakecli.cli.out.text import quote_path
from lakecli.cli.params import Amount, OperationId, RepositoryUri
from lakecli.kv.operations import Operation
from lakecli.repository.contract import Repository
from lakecli.repository.undo.log import find_operation, staged_paths


def op_show(
    context: Context, repository: RepositoryUri, operation: OperationId, *, amount: Amount = 100
) -> None:
    """Show one operation: what it changed, and the state before.

    Branches and tags are shown with their commits before and after, and staged paths with what was
    staged there before.

    Examples:
        lakecli op show lakefs://demo 4f0c21aa83de
        lakecli op show lakefs://demo 4f0c --amount 0 --json
    """
    opened = context.logged_repository(repository, operation=operation)
    logged = find_operation(opened, operation)
    paths, more = _paths(opened, logged.operation, amount)
    record = operation_record(logged.operation, undone=logged.undone)
    record["paths"] = [
        {"branch": branch, "path": path, "before": before} for branch, path, before in paths
    ]

    def text() -> Iterator[str]:
        yield from operation_lines(logged.operation, undone=logged.undone)
        if paths:
            yield ""
            yield "Staged paths, with what was staged there before"
        for branch, path, before in paths:
            yield f"  {branch}  {quote_path(path)}  {before}"

    context.out.emit(record, text=text)
    if more:
        context.out.hint("for more paths run with --amount 0")


def _paths(
    repository: Repository, operation: Operation, amount: int
) -> tuple[list[tuple[str, bytes, str]], bool]:
    """Return what was staged where, and whether there is more."""
    words = {None: "nothing", b"": "deletion"}
    staged = (
        (branch, path, words.get(before, "object"))
        for branch, path, before in staged_paths(repository, operation)
    )
    shown = list(islice(staged, amount if amount > 0 else None))
    return shown, next(staged, None) is not None
