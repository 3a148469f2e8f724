"""Commands about the program itself: its version and completion scripts."""

from enum import StrEnum
from typing import TypedDict

from lakecli import __version__, native
from lakecli.cli.context import Context
from lakecli.cli.line import argument
from lakecli.cli.out.records import answers


class ScriptJson(TypedDict):
    """A completion script."""

    shell: str
    script: str


class VersionJson(TypedDict):
    """The version of lakecli."""

    version: str


@answers(VersionJson)
def version(context: Context) -> None:
    """Print the version of lakecli.

    With --verbose, stderr says whether the compiled core is in use, which makes bulk work faster.

    Examples:
        lakecli version
    """
    if context.verbose:
        problem = native.problem()
        context.out.debug(f"compiled core: {f'not used, {problem}' if problem else 'used'}")
    context.out.emit({"version": __version__}, text=lambda: [f"lakecli version: {__version__}"])


class Shell(StrEnum):
    """The shells that have a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@answers(ScriptJson)
def completion(context: Context, shell: Shell = argument("SHELL")) -> None:
    """Print the completion script of a shell.

    The package installs the scripts where shells look for them. If your shell does not, load the
    script at start-up: add the line below to ~/.bashrc, to ~/.zshrc after compinit, or to
    ~/.config/fish/config.fish.

    Refs and paths come from this machine, because a TAB does not wait for a bucket: a path that
    was never read here is not completed until `fs ls` has listed its directory. A repository that
    is named by its storage namespace (s3://bucket/sales@main) is completed if this machine has a
    clone of it, or if the namespace is a directory.

    Args:
        shell: bash, zsh or fish.

    Examples:
        eval "$(lakecli completion bash)"
        eval "$(lakecli completion zsh)"
        lakecli completion fish | source
    """
    from lakecli.cli.manual.completion import completion_script
    from lakecli.cli.manual.describe import describe_all

    script = completion_script(shell, describe_all())
    context.out.emit({"shell": shell, "script": script}, text=script.splitlines)
