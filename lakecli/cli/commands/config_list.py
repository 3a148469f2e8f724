"""``lakecli config list``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.lakectl import ignored_lines
from lakecli.cli.line.declare import Option
from lakecli.settings.settings import OriginKind, Setting


def config_list(
    context: Context,
    *,
    show_origin: Annotated[
        bool, Option("--show-origin", help="Show where each value comes from")
    ] = False,
) -> None:
    """List all settings and their values.

    A value comes from an option, else from an environment variable, else from the configuration
    file, else it is the default. Settings of lakectl that have no effect are named, with the
    reason.

    Examples:
        lakecli config list
        lakecli config list --show-origin
    """
    columns = ("Key", "Value", "Origin") if show_origin else ("Key", "Value")

    def row(setting: Setting) -> tuple[str, ...]:
        cells = (setting.key.name, setting.text or "")
        return (*cells, origin_of(setting)) if show_origin else cells

    def record(setting: Setting) -> dict[str, object]:
        fields: dict[str, object] = {"key": setting.key.name, "value": setting.text}
        if show_origin:
            fields |= {"origin": setting.origin, "place": setting.place or None}
        return fields

    context.out.table(columns, context.settings, row=row, record=record)
    for line in ignored_lines(context):
        context.out.note(line)


def origin_of(setting: Setting) -> str:
    """Return where a value came from: a flag, a variable, a file, or ``default``."""
    return setting.place if setting.origin != OriginKind.DEFAULT else "default"
