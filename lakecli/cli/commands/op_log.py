"""``lakecli op log``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.here import repository_here
from lakecli.cli.operations import COLUMNS, operation_record, operation_row
from lakecli.cli.params import Amount, HereRepositoryUri
from lakecli.repository.undo.log import iter_log


def op_log(context: Context, repository: HereRepositoryUri = None, *, amount: Amount = 100) -> None:
    """Show the operation log of a repository, newest operation first.

    Each operation is listed with its ID, time, changes and command line. Operations are kept for 30
    days on the machine that ran them. The log of a deleted repository is kept under its name.

    Without REPOSITORY, the repository of the linked directory is meant, or what `lakecli use` set.

    Examples:
        lakecli op log
        lakecli op log lakefs://demo
        lakecli op log lakefs://demo --amount 5 --json
    """
    found = iter_log(context.logged_repository(repository_here(repository, context)))
    context.out.table(
        COLUMNS,
        context.out.first(found, amount=amount),
        row=lambda item: operation_row(
            item.operation, undone=item.undone, now=context.now() if context.out.terminal else None
        ),
        record=lambda item: operation_record(item.operation, undone=item.undone),
    )
