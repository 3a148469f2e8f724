"""The commands and options of lakectl that lakecli lacks, each with the reason."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from lakecli.cli.line import GLOBAL_OPTIONS, Declaration
from lakecli.cli.tree import COMMANDS as PRESENT


class Gap(NamedTuple):
    """Commands or options that lakecli lacks for the same reason.

    Attributes:
        names: commands, options preceded by their command, or global options.
        why: the reason, or the alternative in lakecli.
    """

    names: tuple[str, ...]
    why: str


def _gaps(text: str) -> tuple[Gap, ...]:
    """Parse paragraphs, each with names separated by commas, a colon, and the reason."""
    pairs = (" ".join(part.split()).partition(": ") for part in text.strip().split("\n\n"))
    return tuple(Gap(tuple(names.split(", ")), why) for names, _, why in pairs)


COMMANDS: Final = _gaps("""
auth groups acl get, auth groups acl set, auth groups create, auth groups delete,
auth groups list, auth groups members add, auth groups members list, auth groups members remove,
auth groups policies attach, auth groups policies detach, auth groups policies list,
auth policies create, auth policies delete, auth policies list, auth policies show,
auth users aws-iam attach, auth users aws-iam detach, auth users aws-iam list,
auth users aws-iam lookup, auth users create, auth users credentials create,
auth users credentials delete, auth users credentials list, auth users delete,
auth users groups list, auth users list, auth users policies attach, auth users policies detach,
auth users policies list: there are no users; permissions are
those of the bucket, see `lakecli help policy`

actions runs describe, actions runs list, actions validate, cat-hook-output: hooks run on a server;
for checks and rules see `lakecli help policy`

usage summary: a server counts the usage

identity: there is no login; `lakecli config get user.name` shows who commits

config: `lakecli config` on a terminal asks for other settings, as there is no server; without one
it is an error

gc check-async, gc prepare-async: `lakecli gc run` does all of it

repo create-bare: `lakecli clone --from-lakefs` makes a repository of a dump

docs: the manual pages are files; see `man lakecli`

abuse commit, abuse create-branches, abuse link-same-object, abuse list, abuse merge,
abuse random-delete, abuse random-read, abuse random-write: there is no server to put load on
""")
"""Commands of lakectl that lakecli lacks; if lakecli has a command by now, it is not shown."""

OPTIONS: Final = _gaps("""
repo create --sample-data: `lakecli quickstart` makes a repository with files

refs-dump --poll-interval, refs-dump --timeout, refs-restore --poll-interval,
refs-restore --timeout: nothing is polled, since nothing runs on a server
""")
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


def _items(gaps: tuple[Gap, ...], present: set[str]) -> Iterator[str]:
    for names, why in gaps:
        lacking = [name for name in names if name not in present]
        if lacking:
            yield f"{', '.join(f'`{name}`' for name in lacking)}: {why}."
