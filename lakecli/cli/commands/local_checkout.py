"""``lakecli local checkout``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.here import absolute
from lakecli.cli.line.declare import Option
from lakecli.cli.params import LinkOptions, TransferOptions, Yes
from lakecli.cli.reading import Completion, Kind
from lakecli.cli.transfers import PreSign
from lakecli.cli.working_directory import checkout_worktree, linked_below
from lakecli.cli.worktrees import Directory, open_worktree
from lakecli.errors import UsageError


def local_checkout(
    context: Context,
    directory: Directory = ".",
    *,
    ref: Annotated[
        str,
        Option("--ref", "-r", metavar="REF", help="Branch, tag or commit to go to"),
        Completion(Kind.REF),
    ] = "",
    all_: Annotated[bool, Option("--all", help="All linked directories below DIRECTORY")] = False,
    yes: Yes = False,
    links: LinkOptions,
    transfer: TransferOptions,
    pre_sign: PreSign = False,
) -> None:
    """Undo the changes of a linked directory, and go to another ref.

    Without --ref the directory gets the files of the commit that it was last synced with. Changed
    files are overwritten, new ones are deleted, after a question that -y answers; `undo` brings
    them back. To go to another ref and keep changes, use `checkout`.

    Examples:
        lakecli local checkout -y
        lakecli local checkout ./data --ref v1.0 -y
        lakecli local checkout --all -y
    """
    del pre_sign
    if all_ and ref:
        raise UsageError("--all and --ref exclude each other", hint="give one of them")
    trust = context.settings.local_trust
    places = linked_below(absolute(directory), trust) if all_ else [directory]
    for place in places:
        worktree = open_worktree(context, str(place), links=links)
        checkout_worktree(context, worktree, ref=ref, discard=True, yes=yes, transfer=transfer)
