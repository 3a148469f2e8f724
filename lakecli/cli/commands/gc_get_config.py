"""``lakecli gc get-config``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.params import RepositoryUri
from lakecli.gc.rules import Rules, get_rules, rules_fields


def gc_get_config(
    context: Context,
    repository: RepositoryUri,
    *,
    as_json: Annotated[
        bool, Option("-p", help="Print the rules as JSON that gc set-config reads")
    ] = False,
) -> None:
    """Show the retention rules.

    Examples:
        lakecli gc get-config lakefs://demo
        lakecli gc get-config lakefs://demo -p | lakecli gc set-config lakefs://other -f -
    """
    store = context.repository(repository).store
    rules = get_rules(store)
    fields = rules_fields(rules)
    context.out.emit(
        fields,
        text=lambda: json.dumps(fields, indent=2).splitlines() if as_json else _lines(rules),
    )


def _lines(rules: Rules) -> Iterator[str]:
    yield f"Default Retention Days: {rules.default_days}"
    yield "Branch Rules: "
    for name, days in sorted(rules.branches.items()):
        yield f"  - Branch: {name}"
        yield f"    Retention Days: {days}"
