"""A command of the meetings: what a PUT of S3 through ``lakecli serve`` does, in one process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from lakecli.base.model import Entry
from lakecli.base.uri import ref_of
from lakecli.cli import tree
from lakecli.cli.context import Context
from lakecli.cli.line import Argument
from lakecli.cli.params import NewPathUri
from lakecli.committed.values import encode_entry
from lakecli.errors import LakeError
from lakecli.serving.writes import BranchWriter, Client, PathChange
from tests.meetings.arguments import SERVE_PUT

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

WORDS: Final = SERVE_PUT[0]


def serve_put(
    context: Context,
    path: NewPathUri,
    file: Annotated[str, Argument(metavar="FILE", help="What is written")],
) -> None:
    """Write one object as the S3 surface of an endpoint does."""
    repository = context.synced_repository(path)
    writer = BranchWriter(lambda _: repository, ref_of(path), elapsed=lambda: 0.0)
    found = writer.deposit([Path(file).read_bytes()])
    at = repository.lake.runtime.now()
    value = encode_entry(Entry(found.address, found.size, found.digest, at, "text/plain"))
    change = PathChange(path.path or b"", lambda _: value, found)
    (outcome,) = writer.apply([change], client=Client("s3", "test"), action="PutObject")
    if isinstance(outcome, LakeError):
        raise outcome


class ServePut(tree.Command):
    """The command, whose function is here."""

    def load(self) -> Callable[..., None]:
        """Return its function."""
        return serve_put


def install(patch: pytest.MonkeyPatch) -> None:
    """Let the command line have the command."""
    patch.setitem(tree.COMMANDS, WORDS, ServePut(WORDS))
    patch.setattr(tree, "_BEGINNINGS", tree._BEGINNINGS | {(WORDS,)})
