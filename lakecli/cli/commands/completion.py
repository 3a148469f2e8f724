"""``lakecli completion``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lakecli.cli.context import Context


class Shell(StrEnum):
    """The shells there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: Context,
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish")],
) -> None:
    """Print the completion script of a shell.

    Packages put the scripts where the shells look for them. Without, load one when a shell
    starts: by a line in ~/.bashrc, in ~/.zshrc (behind compinit), or in
    ~/.config/fish/config.fish.

    Examples:
        eval "$(lakecli completion bash)"
        eval "$(lakecli completion zsh)"
        lakecli completion fish | source
    """
    from lakecli.cli.generate import completion_script

    script = completion_script(shell)
    context.out.emit({"shell": shell, "script": script}, text=script.splitlines)
