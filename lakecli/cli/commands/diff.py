"""``lakecli diff``: list or count the paths that differ."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

from lakecli.base.model import Difference
from lakecli.base.uri import LakeUri, ref_of
from lakecli.cli.commands import differences
from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line import Kind, argument, flag
from lakecli.cli.out.records import answers
from lakecli.cli.params import AtOp, EngineOptions, Prefix, StatOptions, refuse_several
from lakecli.cli.parsers import linked, read_ref_or_own_file, ref_here
from lakecli.committed.change_counts import ChangeCounts
from lakecli.errors import UsageError
from lakecli.refs.expression import split_range
from lakecli.repository.contract import Repository
from lakecli.repository.diff import TreesToCompare, compare_here, diff_refs, diff_uncommitted
from lakecli.repository.log import rev_parse

SPARK_FROM_RANGES: Final = 4_000
"""The number of changed ranges from which ``--engine auto`` selects Spark, if installed."""


@answers(differences.DifferenceJson, each=True)
@answers(ChangeCounts, each=True, option="--stat")
def diff(
    context: Context,
    left: LakeUri | None = argument(
        "REF", default=None, read=read_ref_or_own_file, kind=Kind.REF_OR_OWN_FILE
    ),
    right: LakeUri | None = argument(
        "REF", default=None, read=read_ref_or_own_file, kind=Kind.REF_OR_OWN_FILE
    ),
    *,
    two_way: bool = flag(),
    prefix: Prefix = "",
    exit_code: bool = flag(),
    name_only: bool = flag(),
    null: bool = flag("--null", "-z"),
    at_op: AtOp = "",
    stat: StatOptions,
    engine: EngineOptions,
) -> ExitCode | None:
    """List the paths that differ.

    With one branch, diff lists its uncommitted changes. With two refs, it lists the changes that
    merging the second into the first would make, conflicts included; uncommitted changes are
    ignored. With --two-way, it lists the changes that turn the first ref into the second. If the
    second is a branch, write BRANCH$ to include its uncommitted changes. As in Git, A...B in one
    URI stands for two refs, and A..B for two refs with --two-way.

    Without a ref, in a directory linked by `lakecli local`, diff lists the files that have changed
    since the directory was last synced. If files are named, only these are compared. --prefix is
    then relative to the directory.

    --stat counts the paths that were added, changed and removed, and those in conflict, with the
    bytes added and removed, for each prefix of up to --depth directories. Each path is counted
    once, at the longest prefix shown. Unless stdout is a terminal, the columns are separated by
    tabs: prefix, added, changed, removed, conflicts, bytes added, bytes removed.

    --engine spark compares two refs on Spark, with the same result. --engine auto uses Spark if it
    is installed and at least 4,000 ranges differ (a range lists about 6,000 paths).

    Args:
        left: lakefs://REPOSITORY/REF, or NAMESPACE@REF without a clone (lakecli help remotes); or a
            file of a linked directory.
        right: lakefs://REPOSITORY/REF to compare with.
        two_way: Compare the two refs directly, without their common ancestor.
        exit_code: Exit with 13 if there are differences.
        name_only: Show only the paths.
        null: Show only the paths, unquoted, each ended by NUL.

    Examples:
        lakecli diff
        lakecli diff lakefs://demo/main
        lakecli diff lakefs://demo/main lakefs://demo/experiment
        lakecli diff --two-way lakefs://demo/v1.0 lakefs://demo/main --prefix raw/
        lakecli diff lakefs://demo/main..experiment
        lakecli diff --exit-code lakefs://demo/main
        lakecli diff --stat --depth 2 lakefs://demo/v1.0 lakefs://demo/main
        lakecli diff -z lakefs://demo/main | xargs -0 -n 1 echo
        lakecli diff s3://my-bucket/demo@v1.0 s3://my-bucket/demo@main
    """
    given = {"--json": context.out.json and not stat.stat, "--stat": stat.stat}
    refuse_several(given | {"--name-only": name_only, "-z": null and not name_only})
    files = [each for each in (left, right) if each is not None and each.path is not None]
    if files or (left is None and linked(context) is not None):
        if len(files) != sum(each is not None for each in (left, right)):
            raise UsageError(
                "a file of the directory cannot be compared with a ref",
                hint="leave out the ref: files are compared with the commit last synced",
            )
        about_refs = {
            "--two-way": two_way,
            "--at-op": bool(at_op),
            "--engine, --master or --conf": engine != EngineOptions(),
        }
        _refuse_for_files(about_refs)
        from lakecli.cli.commands.worktrees import open_worktree, show_diff

        worktree = open_worktree(context)
        start = len(worktree.link.prefix)
        count = show_diff(
            context,
            worktree,
            paths=[(each.path or b"")[start:] for each in files],
            prefix=os.fsencode(prefix),
            depth=stat.depth if stat.stat else None,
            names=name_only or null,
            null=null,
        )
        return _found(count) if exit_code else None
    left, right, two_way = _split(left or ref_here(None, context), right, two_way=two_way)
    if not (name_only or null):  # programs that read the output expect only paths
        two = () if right is None else (f"Left ref: {left}", f"Right ref: {right}")
        context.out.say(*(two or (f"Ref: {left}",)))
    repository = context.synced_repository(left, *([] if right is None else [right]), at_op=at_op)
    path = os.fsencode(prefix)
    stack = ExitStack()
    if right is None:
        if engine != EngineOptions():
            raise UsageError("--engine needs two refs")
        _check_branch(repository, left, two_way=two_way)
        opened = diff_uncommitted(repository, ref_of(left), prefix=path)
    else:
        compare = partial(_compare, context, repository, stack, engine)
        refs = (ref_of(left), ref_of(right))
        opened = diff_refs(repository, *refs, prefix=path, two_way=two_way, compare=compare)
    with stack, opened as found:
        if stat.stat:
            count = differences.show_counts(context.out, found, depth=stat.depth)
        elif name_only or null:
            count = differences.stream_paths(context.out, found, null=null)
        else:
            count = differences.stream_differences(context.out, found)
    return _found(count) if exit_code else None


def _found(count: int) -> ExitCode:
    """Return the exit code of ``diff --exit-code``, given the number of differences."""
    return ExitCode.DIFFERENCES if count else ExitCode.OK


def _split(
    left: LakeUri, right: LakeUri | None, *, two_way: bool
) -> tuple[LakeUri, LakeUri | None, bool]:
    """Split a range such as ``main...dev`` into its two refs.

    Returns:
        The left ref, the right ref, and whether to compare them directly (without a merge base).
        If `left` is not a range, or `right` is given, the arguments are returned unchanged.
    """
    span = split_range(ref_of(left)) if right is None else None
    if span is None:
        return left, right, two_way
    first, dots, last = span
    return left._replace(ref=first), left._replace(ref=last), two_way or dots == ".."


def _refuse_for_files(given: Mapping[str, bool]) -> None:
    """Refuse options for refs when the files of a linked directory are compared."""
    for name, wanted in given.items():
        if wanted:
            raise UsageError(
                f"{name} is about refs, not about the files of a linked directory",
                hint="name two refs: lakecli diff REF REF",
            )


def _compare(
    context: Context,
    repository: Repository,
    stack: ExitStack,
    engine: EngineOptions,
    compared: TreesToCompare,
) -> Iterator[Difference]:
    """Compare two trees on the requested engine; by default, on the faster one."""
    if engine != EngineOptions() or _is_large(repository, compared):
        from lakecli.cli.commands.engine import SPARK_FROM, open_runner

        runner = stack.enter_context(
            open_runner(context, engine, repository=repository, size=SPARK_FROM)
        )
        if runner.name != "local":
            from lakecli.engine.differences import compare_by

            return compare_by(repository, compared, runner=runner)

    return compare_here(repository.trees, compared)


def _is_large(repository: Repository, compared: TreesToCompare) -> bool:
    """Return whether at least `SPARK_FROM_RANGES` changed ranges exist, so that Spark is faster."""
    trees = repository.trees
    left, right = trees.metarange(compared.left), trees.metarange(compared.right)
    if len(left) + len(right) < SPARK_FROM_RANGES:
        return False
    from lakecli.committed.diff import changed_ranges

    changed = changed_ranges(left, right)
    if len(changed) < SPARK_FROM_RANGES:
        return False
    from lakecli.committed.check import count_existing

    return count_existing(repository.store, changed) >= SPARK_FROM_RANGES


def _check_branch(repository: Repository, uri: LakeUri, *, two_way: bool) -> None:
    """Refuse to show uncommitted changes of a ref that is not a branch."""
    compare = f"compare two refs: lakecli diff {uri} {uri._replace(ref='REF')}"
    if two_way:
        raise UsageError("--two-way needs two refs", hint=compare)
    if uri.namespace is not None:
        raise UsageError("without a clone there are no uncommitted changes", hint=compare)
    if not rev_parse(repository, ref_of(uri)).staging:
        message = f"only a branch has uncommitted changes, not {uri.ref!r}"
        raise UsageError(message, hint=compare)
