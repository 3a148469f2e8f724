"""``lakecli plugin list``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.program import Plugin
from lakecli.cli.out.text import quote_path
from lakecli.cli.plugins import list_plugins


def plugin_list(context: Context) -> None:
    """List the plugins: programs in PATH whose names begin with lakecli-.

    The program lakecli-NAME is run by `lakecli NAME`, with the same arguments, streams and
    environment, and its exit code is returned. Commands of lakecli come first. Global options
    before NAME are not passed on.

    Examples:
        lakecli plugin list
    """
    found = list_plugins(context.environ)
    if not found:
        context.out.note("No lakecli plugins found in your PATH.")
        return
    context.out.say("Available plugins:")
    context.out.stream(
        found,
        record=lambda plugin: pick(Plugin, plugin),
        text=lambda plugin: f"  {quote_path(plugin.name)}",
    )
