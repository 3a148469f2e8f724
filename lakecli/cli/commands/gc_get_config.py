"""``lakecli gc get-config``."""

from __future__ import annotations

import json

from lakecli.cli.context import Context
from lakecli.cli.params import RepositoryUri


def gc_get_config(context: Context, repository: RepositoryUri) -> None:
    """Show the retention rules.

    Examples:
        lakecli gc get-config lakefs://demo
    """
    from lakecli.pipeline.gc.rules import get_rules, rules_fields

    fields = rules_fields(get_rules(context.repository(repository).store))
    context.out.emit(fields, text=lambda: json.dumps(fields, indent=4).splitlines())
