"""``lakecli repo list``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.out.common_records import repository_record
from lakecli.cli.out.text import local_date, one_line
from lakecli.cli.params import PageOptions


def repo_list(
    context: Context,
    *,
    page: PageOptions,
) -> None:
    """List the repositories on this machine, ordered by name.

    Examples:
        lakecli repo list
        lakecli repo list --json --amount 0
    """
    found = context.lake().repositories(prefix=page.prefix, after=page.after)
    context.out.table(
        ("Repository", "Creation Date", "Default Ref Name", "Storage ID", "Storage Namespace"),
        context.out.page(found, amount=page.amount, name=lambda item: item.name),
        row=lambda item: (
            item.name,
            local_date(item.created_at),
            item.default_branch,
            item.name,  # as lakectl fills this column
            one_line(item.storage_namespace),
        ),
        record=repository_record,
    )
    context.out.say("")
