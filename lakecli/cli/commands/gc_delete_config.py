"""``lakecli gc delete-config``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import RepositoryUri
from lakecli.gc.rules import delete_rules, get_rules, rules_fields


def gc_delete_config(context: Context, repository: RepositoryUri) -> None:
    """Delete the retention rules: keep whatever branches and tags reach.

    Examples:
        lakecli gc delete-config lakefs://demo
    """
    store = context.repository(repository).store
    rules = get_rules(store)
    delete_rules(store)
    context.out.emit(rules_fields(rules))
    context.out.note("deleted the retention rules")
