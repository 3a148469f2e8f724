"""A command of the meetings: what `write_table` of Spark does, without a cluster.

The driver chooses the table, an executor uploads a file, and the driver commits it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Final

from lakecli.base.uri import ref_of
from lakecli.cli import tree
from lakecli.cli.context import Context
from lakecli.cli.line import Argument
from lakecli.cli.params import NewPathUri
from lakecli.engine.runner import StoreLocation
from lakecli.repository.guard import GcGuard, claim_values
from lakecli.repository.transfer.ingest import Ingest
from lakecli.repository.transfer.walk import FileOpener, LinkPolicy
from lakecli.spark.file_writer import UploadedFile, new_entries
from lakecli.spark.target import WriteTarget
from tests.meetings.arguments import SPARK_WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

WORDS: Final = SPARK_WRITE[0]


def spark_write(
    context: Context,
    table: NewPathUri,
    mode: Annotated[str, Argument(metavar="MODE", help="As of write_table")],
    file: Annotated[str, Argument(metavar="FILE", help="The rows")],
) -> None:
    """Write a table of one file, which executors name by its contents."""
    repository = context.synced_repository(table)
    target = WriteTarget(repository, ref_of(table), table.path or b"", mode=mode)
    if not target.begin(expected="", read=(), commits=True):
        return
    location = StoreLocation.of(repository)
    repository.lake.runtime.on_step("rows")
    # Its own guard lives as long as the process, whose clock does not pass with that of the world.
    guard = GcGuard(location.store())
    ingest = Ingest(location.store(), guard)
    with FileOpener(None, LinkPolicy.FOLLOW).open(os.fsencode(file)) as opened:
        ingested = ingest.file(opened)
    ingest.flush([ingested])
    repository.lake.runtime.on_step("written")
    part = UploadedFile("part-0.csv", ingested.digest, ingested.size, 1)
    additions = claim_values(repository, new_entries(repository, target.prefix, [part]))
    target.commit(additions, message="rows", committer=context.committer(), metadata={})


class SparkWrite(tree.Command):
    """The command, whose function is here."""

    def load(self) -> Callable[..., None]:
        """Return its function."""
        return spark_write


def install(patch: pytest.MonkeyPatch) -> None:
    """Let the command line have the command."""
    patch.setitem(tree.COMMANDS, WORDS, SparkWrite(WORDS))
    patch.setattr(tree, "_BEGINNINGS", tree._BEGINNINGS | {(WORDS,)})
