"""The commands and options of lakectl that lakecli lacks, each with the reason."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from lakecli.cli.line import GLOBAL_OPTIONS, Declaration
from lakecli.cli.manual.tables import TableEntry, read_table
from lakecli.cli.tree import COMMANDS as PRESENT

COMMANDS: Final = read_table(Path(__file__).with_name("lakectl_commands.txt"))
"""Commands of lakectl that lakecli lacks; if lakecli has a command by now, it is not shown."""

OPTIONS: Final = read_table(Path(__file__).with_name("lakectl_options.txt"))
"""Options of lakectl that lakecli lacks; if lakecli has an option by now, it is not shown."""


def command_items() -> Iterator[str]:
    """Yield an item for each group of missing commands."""
    return _items(COMMANDS, set(PRESENT))


def option_items() -> Iterator[str]:
    """Yield an item for each group of missing options."""
    return _items(OPTIONS, options_present())


def options_present() -> set[str]:
    """Return all options of lakecli; each is preceded by its command, except global options."""
    present = {flag for option in GLOBAL_OPTIONS for flag in option.flags}
    for words, command in PRESENT.items():
        for option in Declaration(command.load()).options:
            present |= {f"{words} {flag}" for flag in option.flags}
    return present


def _items(gaps: Sequence[TableEntry], present: set[str]) -> Iterator[str]:
    for names, why in gaps:
        lacking = [name for name in names if name not in present]
        if lacking:
            yield f"{', '.join(f'`{name}`' for name in lacking)}: {why}."
