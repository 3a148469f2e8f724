"""``lakecli merge``, ``cherry-pick`` and ``find-merge-base``."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypedDict

from lakecli.base.model import NO_METADATA, ChangeType, Commit, CommitId, Difference
from lakecli.base.uri import LakeUri, ref_of
from lakecli.cli import params
from lakecli.cli.commands.differences import DifferenceJson, show_counts, stream_differences
from lakecli.cli.commands.moved_refs import bring_along
from lakecli.cli.commands.names_from_file import STANDARD_INPUT
from lakecli.cli.commands.output_file import check_writable, replacing
from lakecli.cli.context import Context
from lakecli.cli.line import Kind, argument, flag, option
from lakecli.cli.out.records import answers, to_json
from lakecli.cli.out.text import commit_lines
from lakecli.cli.parsers import check_message, read_ref, ref_here
from lakecli.committed.change_counts import ChangeCounts
from lakecli.committed.merge import Conflicts
from lakecli.errors import UsageError
from lakecli.repository import merge as merging
from lakecli.repository.cherry_pick import cherry_pick as pick
from lakecli.repository.reading.merge_points import find_merge_base as library_find_merge_base


class MergeBaseJson(TypedDict):
    """The common ancestors of two commits.

    Attributes:
        base_commit_id: the first of the best common ancestors.
        base_commit_ids: all best common ancestors; if there are several, their merge is the base of
            a merge.
    """

    base_commit_id: CommitId
    base_commit_ids: Sequence[CommitId]
    source_commit_id: CommitId
    destination_commit_id: CommitId


@answers(Commit)
@answers(DifferenceJson, each=True, option="--dry-run")
@answers(ChangeCounts, each=True, option="--stat")
@answers(merging.Conflict, each=True, option="--conflicts")
def merge(
    context: Context,
    source: params.SourceUri,
    destination: params.HereBranchUri = None,
    *,
    message: params.Message = "",
    metadata: params.Metadata = NO_METADATA,
    strategy: params.Winner = None,
    decide: params.DecisionOptions,
    plan: Path | None = option("FILE"),
    conflicts: Path | None = option("FILE"),
    squash: bool = flag(),
    allow_empty: bool = flag("--allow-empty", "--force"),
    allow_empty_message: bool = option(
        None, "--allow-empty-message/--no-allow-empty-message", default=True, hidden=True
    ),
    dry_run: params.DryRun = False,
    stat: params.StatOptions,
    no_verify: params.NoVerify = False,
) -> None:
    """Merge a ref into a branch.

    All changes of the source since the common ancestor are applied to the branch in one merge
    commit, or none are. A path that both sides changed differently is a conflict: conflicts are
    listed and nothing is merged, unless each has a side that wins. The branch must have no
    uncommitted changes; those of the source are ignored. Several best common ancestors are merged
    first: `lakecli help revisions`.

    --strategy chooses a side for all conflicts, --take for those at paths that match a pattern, and
    --plan for each one. --plan has precedence over --take, and --take over --strategy. --conflicts
    FILE writes a plan: one JSON object a line, with the objects of both sides and of their common
    ancestor, and who changed them last. Set "take" in each line to "source" or "dest", and merge
    with --plan FILE. If one of these objects has changed by then, nothing is merged, and the error
    says what has changed; --plan FILE --conflicts NEW-FILE writes a plan with the decisions that
    are still valid.

    If both sides appended to a table of Delta Lake or Iceberg, its log is in conflict. Choosing one
    side drops the rows of the other side, so these options leave such a conflict open, unless
    --table-logs is given.

    lakeFS records the MD5 of an object, lakecli the BLAKE3. If the two sides have objects of equal
    size at a path, one with an MD5 and one with a BLAKE3, they may be identical. Such a path is
    listed as a conflict, and the error says that the objects may be equal.

    --dry-run lists the changes as `lakecli diff` does, conflicts included; with --stat it counts
    them by prefix.

    BRANCH defaults to that of the linked directory, or else to the default set by `lakecli use`. If
    merge runs in a directory that is linked with the branch, the directory is updated, too, as by
    `local pull`.

    Args:
        plan: Resolve conflicts by an edited file from --conflicts.
        conflicts: Merge nothing, and write the conflicts to a file, or to - (stdout).
        squash: Commit the source's changes without its history.
        allow_empty: Merge even if the source has no new changes, unless both are at the same
            commit.

    Examples:
        lakecli merge lakefs://demo/experiment lakefs://demo/main
        lakecli merge experiment
        lakecli merge lakefs://demo/experiment lakefs://demo/main --dry-run
        lakecli merge lakefs://demo/experiment lakefs://demo/main --dry-run --stat
        lakecli merge lakefs://demo/v1.1 lakefs://demo/main --strategy source-wins -m "Take 1.1"
        lakecli merge experiment --take source:raw/ --take 'dest:*.csv'
        lakecli merge experiment --conflicts plan.jsonl
        lakecli merge experiment --plan plan.jsonl
    """
    if stat.stat and not dry_run:
        raise UsageError("--stat needs --dry-run", hint="add --dry-run")
    if conflicts and dry_run:
        raise UsageError("--conflicts merges nothing", hint="leave out --dry-run")
    decisions = decide.decisions(strategy, plan)
    context.skips_hooks = no_verify
    check_message(message, allow_empty=allow_empty_message)
    destination = ref_here(destination, context)
    if str(conflicts) != STANDARD_INPUT:
        context.out.say(f"Source: {source}", f"Destination: {destination}")
    repository = context.synced_repository(source, destination)
    from_, into = ref_of(source), ref_of(destination)
    options = merging.MergeOptions(
        committer=context.committer(),
        message=message or None,
        metadata=metadata,
        decisions=decisions,
        squash=squash,
        allow_empty=allow_empty,
    )
    if conflicts:
        with merging.conflicts_of(repository, from_, into, options) as found:
            _write_plan(context, found, conflicts)
        return
    if dry_run:
        with merging.preview(repository, from_, into, options) as changes:
            _list(context, changes, stat)
        return
    made = merging.merge(repository, from_, into, options)
    context.out.emit(made, text=lambda: [f'Merged "{from_}" into "{into}" to get "{made.id}".'])
    bring_along(context, repository, into)


def _write_plan(context: Context, found: Iterator[merging.Conflict], file: Path) -> None:
    """Write conflicts, one JSON object a line."""
    if str(file) == STANDARD_INPUT:
        context.out.stream(found, text=to_json)
        return
    check_writable(file)
    count = 0
    with replacing(file) as opened:
        for each in found:
            opened.write(to_json(each).encode() + b"\n")
            count += 1
    conflicts = "1 conflict" if count == 1 else f"{count:,} conflicts"
    context.out.say(f'Wrote {conflicts} to {file}. Set "take" to "source" or "dest" in each line.')


def _list(context: Context, changes: Iterable[Difference], stat: params.StatOptions) -> None:
    """List or count the changes of a merge; if there are conflicts, raise the merge's error."""
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


@answers(Commit)
def cherry_pick(
    context: Context,
    ref: params.RefUri,
    branch: params.HereBranchUri = None,
    *,
    parent_number: params.ParentNumber = None,
    allow_empty_commit: params.AllowEmptyCommit = False,
    decide: params.DecisionOptions,
) -> None:
    """Apply the changes of one commit to a branch.

    The new commit has the message and the metadata of the original. Two metadata keys record the ID
    and the committer of the original. A merge commit is compared with its first parent unless
    --parent-number names another. If the branch has different changes of the same paths, nothing is
    committed, unless --take chooses a side for each path: source is the commit, dest the branch.

    BRANCH defaults to that of the linked directory, or else to the default set by `lakecli use`. If
    the command runs in a directory that is linked with the branch, the directory is updated, too.

    Examples:
        lakecli cherry-pick lakefs://demo/experiment lakefs://demo/main
        lakecli cherry-pick lakefs://demo/8d7c1b02 lakefs://demo/main
        lakecli cherry-pick lakefs://demo/experiment lakefs://demo/main --take source:raw/
    """
    decisions = decide.decisions()
    branch = ref_here(branch, context)
    context.out.say(f"Branch: {branch}")
    repository = context.synced_repository(ref, branch)
    made = pick(
        repository,
        ref_of(ref),
        ref_of(branch),
        committer=context.committer(),
        parent_number=parent_number,
        allow_empty=allow_empty_commit,
        decisions=decisions,
    )
    context.out.emit(made, text=lambda: commit_lines(made, branch=ref_of(branch)))
    bring_along(context, repository, ref_of(branch))


@answers(MergeBaseJson)
def find_merge_base(
    context: Context,
    source: params.SourceUri,
    destination: LakeUri = argument("DESTINATION", read=read_ref, kind=Kind.REF),
    *,
    at_op: params.AtOp = "",
) -> None:
    """Show the commit that a merge of two refs would start from.

    This is their best common ancestor, as git merge-base defines it. Two branches that were merged
    into each other at the same time have several best common ancestors: each is printed on a line
    of its own, and a merge starts from their merge (see `lakecli help revisions`).

    Args:
        destination: lakefs://REPOSITORY/REF to merge it into.

    Examples:
        lakecli find-merge-base lakefs://demo/experiment lakefs://demo/main
    """
    context.out.say(f"Source: {source}", f"Destination: {destination}")
    points = library_find_merge_base(
        context.synced_repository(source, destination, at_op=at_op),
        ref_of(source),
        ref_of(destination),
    )
    bases = [base.id for base in points.bases]
    from_, into = points.source.id, points.destination.id
    context.out.emit(
        {
            "base_commit_id": bases[0],
            "base_commit_ids": bases,
            "source_commit_id": from_,
            "destination_commit_id": into,
        },
        text=lambda: [
            f'Found base "{base}" when merging "{from_}" into "{into}".' for base in bases
        ],
    )
