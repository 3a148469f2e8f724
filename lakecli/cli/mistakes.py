"""What somebody meant who typed a command of Git, or left out the second word of one of ours."""

from __future__ import annotations

from typing import Final

from lakecli.base.uri import SCHEME

GIT: Final = {
    "add": "lakecli commit takes all files of a linked directory; elsewhere: lakecli fs upload",
    "am": "apply a commit to a branch: lakecli cherry-pick",
    "archive": "files of a ref: lakecli fs download -r; in a bucket: lakecli export",
    "describe": "the tags: lakecli tag list; the commit of a ref: lakecli rev-parse",
    "init": "a repository: lakecli repo create; a directory linked with one: lakecli local init",
    "ls-files": "lakecli fs ls -r lakefs://REPOSITORY/BRANCH/",
    "ls-remote": "lakecli status lakefs://REPOSITORY",
    "ls-tree": "lakecli fs ls lakefs://REPOSITORY/REF/",
    "merge-base": "lakecli find-merge-base",
    "rebase": "commits of one branch onto another: lakecli cherry-pick",
    "remote": "the bucket of a repository is its only remote; lakecli repo list shows it",
    "reset": "discard uncommitted changes: lakecli branch reset",
    "revert": "lakecli branch revert",
    "stash": "uncommitted changes stay on their branch; start another one: lakecli branch create",
    "switch": "another ref in a linked directory: lakecli checkout; a new branch: lakecli branch "
    "create",
    "worktree": "another linked directory: lakecli local clone",
}
"""The command that does what a word of Git does."""

_URI_SHOWS: Final = {
    "branch": "branch show",
    "config": "config get",
    "fs": "fs ls",
    "gc": "gc status",
    "op": "op log",
    "repo": "repo list",
    "show": "show commit",
    "tag": "tag show",
}
_LISTS: Final = ("branch", "tag")


def meant(words: tuple[str, ...], next_word: str) -> str | None:
    """Return a hint for a line that is no command, or ``None``.

    Args:
        words: the words of a group, or none.
        next_word: the word that does not follow them.
    """
    if not words:
        return GIT.get(next_word)
    if next_word.startswith(SCHEME) and words[0] in _URI_SHOWS:
        command = _URI_SHOWS[words[0]]
        if words[0] in _LISTS and "/" not in next_word.removeprefix(SCHEME).rstrip("/"):
            command = f"{words[0]} list"
        argument = "" if command == "repo list" else f" {next_word}"
        return f"did you mean lakecli {command}{argument}?"
    return None
