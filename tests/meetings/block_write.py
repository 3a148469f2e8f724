"""A command of the meetings: what a block of `fs.committing` does, in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from lakecli.base.uri import ref_of
from lakecli.cli import tree
from lakecli.cli.context import Context
from lakecli.cli.line import Argument
from lakecli.cli.params import NewPathUri
from lakecli.repository import workspace
from lakecli.repository.rm import rm_trees
from lakecli.repository.upload import UploadOptions, upload_file
from tests.meetings.arguments import BLOCK_WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

WORDS: Final = BLOCK_WRITE[0]


def block_write(
    context: Context,
    directory: NewPathUri,
    file: Annotated[str, Argument(metavar="FILE", help="What is written")],
) -> None:
    """Replace a directory by one file, in a workspace."""
    repository = context.synced_repository(directory)
    name = workspace.begin(repository, ref_of(directory))
    below = directory.path or b""
    rm_trees(repository, name, [below.rstrip(b"/")])
    upload_file(
        repository,
        name,
        below + b"1",
        source=file,
        options=UploadOptions(content_type="text/plain"),
    )
    repository.lake.runtime.on_step("written")
    workspace.commit(repository, name, message="block", committer=context.committer())


class BlockWrite(tree.Command):
    """The command, whose function is here."""

    def load(self) -> Callable[..., None]:
        """Return its function."""
        return block_write


def install(patch: pytest.MonkeyPatch) -> None:
    """Let the command line have the command."""
    patch.setitem(tree.COMMANDS, WORDS, BlockWrite(WORDS))
    patch.setattr(tree, "_BEGINNINGS", tree._BEGINNINGS | {(WORDS,)})
