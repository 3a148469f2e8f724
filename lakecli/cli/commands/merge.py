"""``lakecli merge``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from lakecli.base.model import ChangeType, Difference, MergeStrategy
from lakecli.base.uri import LakeUri, ref_of
from lakecli.cli.context import Context
from lakecli.cli.differences import show_counts, stream_differences
from lakecli.cli.line.declare import Argument, Option
from lakecli.cli.out.common_records import commit_record
from lakecli.cli.params import (
    BranchUri,
    DryRun,
    Message,
    Metadata,
    StatOptions,
    Winner,
)
from lakecli.cli.reading import NO_METADATA, Kind, Parser, check_message, read_ref
from lakecli.committed.threeway import Conflicts
from lakecli.errors import UsageError
from lakecli.repository import merge as merging


def merge(
    context: Context,
    source: Annotated[
        LakeUri,
        Argument(metavar="SOURCE", help="lakefs://REPOSITORY/REF to merge"),
        Parser(read_ref, Kind.REF),
    ],
    destination: BranchUri,
    *,
    message: Message = "",
    metadata: Metadata = NO_METADATA,
    strategy: Winner = None,
    squash: Annotated[
        bool, Option("--squash", help="Commit the source's changes without its history")
    ] = False,
    allow_empty: Annotated[
        bool,
        Option("--allow-empty", "--force", help="Merge even if the source has nothing new"),
    ] = False,
    allow_empty_message: Annotated[
        bool, Option("--allow-empty-message/--no-allow-empty-message", hidden=True)
    ] = True,
    dry_run: DryRun = False,
    stat: StatOptions,
) -> None:
    """Merge a ref into a branch.

    All changes of the source since the common ancestor are applied to the branch in one merge
    commit, or none are. A path that both sides changed differently is a conflict: conflicts are
    listed and nothing is merged, unless --strategy chooses a side. The branch must have no
    uncommitted changes; those of the source are ignored.

    An object that lakeFS uploaded has an MD5, one of lakecli a BLAKE3. If such objects of a path
    have one size, a conflict may be none, and the error says so.

    --dry-run lists the changes as `lakecli diff` does, conflicts included; with --stat it counts
    them by prefix.

    Examples:
        lakecli merge lakefs://demo/experiment lakefs://demo/main
        lakecli merge lakefs://demo/experiment lakefs://demo/main --dry-run
        lakecli merge lakefs://demo/experiment lakefs://demo/main --dry-run --stat
        lakecli merge lakefs://demo/v1.1 lakefs://demo/main --strategy source-wins -m "Take 1.1"
    """
    if stat.stat and not dry_run:
        raise UsageError("--stat needs --dry-run", hint="add --dry-run")
    check_message(message, allow_empty=allow_empty_message)
    context.out.say(f"Source: {source}", f"Destination: {destination}")
    repository = context.synced_repository(source, destination)
    from_, into = ref_of(source), ref_of(destination)
    options = merging.MergeOptions(
        committer=context.committer(),
        message=message or None,
        metadata=metadata,
        strategy=MergeStrategy.FAIL if strategy is None else MergeStrategy(strategy),
        squash=squash,
        allow_empty=allow_empty,
    )
    if dry_run:
        with merging.preview(repository, from_, into, options) as changes:
            _list(context, changes, stat)
        return
    made = merging.merge(repository, from_, into, options)
    context.out.emit(
        lambda: commit_record(made),
        text=lambda: [f'Merged "{from_}" into "{into}" to get "{made.id}".'],
    )


def _list(context: Context, changes: Iterable[Difference], stat: StatOptions) -> None:
    """List or count changes, and fail as the merge would if conflicts are among them."""
    conflicts = Conflicts()

    def collected() -> Iterator[Difference]:
        for change in changes:
            if change.type == ChangeType.CONFLICT:
                conflicts.add(change.path, unlike_checksums=change.unlike_checksums)
            yield change

    if stat.stat:
        show_counts(context.out, collected(), depth=stat.depth)
    else:
        stream_differences(context.out, collected())
    conflicts.check()
