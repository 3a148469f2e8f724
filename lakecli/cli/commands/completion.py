"""``lakecli completion``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument
from lakecli.cli.line.describe import describe_all
from lakecli.cli.manual.completion.scripts import completion_script
from lakecli.cli.manual.completion.table import make_table


class Shell(StrEnum):
    """The shells there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: Context,
    shell: Annotated[Shell, Argument(metavar="SHELL", help="bash, zsh or fish")],
) -> None:
    """Print the completion script of a shell.

    The package installs the scripts where shells look for them. If your shell does not, load the
    script at start-up: add the line below to ~/.bashrc, to ~/.zshrc after compinit, or to
    ~/.config/fish/config.fish.

    Refs and paths come from this machine, because a TAB does not wait for a bucket: a path that
    was never read here is not completed until `fs ls` has listed its directory. A repository that
    is named by its storage namespace (s3://bucket/sales@main) is completed if this machine has a
    clone of it, or if the namespace is a directory.

    Examples:
        eval "$(lakecli completion bash)"
        eval "$(lakecli completion zsh)"
        lakecli completion fish | source
    """
    script = completion_script(shell, make_table(describe_all()))
    context.out.emit({"shell": shell, "script": script}, text=script.splitlines)
