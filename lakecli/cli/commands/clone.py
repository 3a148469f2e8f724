"""``lakecli clone``: clone a repository from its storage namespace."""

from collections.abc import Sequence
from itertools import chain
from typing import TypedDict

from lakecli.cli.commands import refs_manifest
from lakecli.cli.commands.engine import SPARK_FROM, open_runner
from lakecli.cli.commands.moved_refs import update_lines
from lakecli.cli.context import Context
from lakecli.cli.hints import as_commands
from lakecli.cli.line import flag, option
from lakecli.cli.out.records import answers, pick
from lakecli.cli.out.text import one_line, place_lines
from lakecli.cli.params import EngineName, EngineOptions, RepositoryUri, StorageNamespace
from lakecli.engine.runner import count_head_entries
from lakecli.errors import LakeError, Refused, UsageError
from lakecli.imports.tree_parts import rebuild_heads
from lakecli.remote.ref_records import InvalidRecord
from lakecli.repository.clone import Cloned, clone_counted, clone_known
from lakecli.repository.contract import Repository
from lakecli.repository.lakefs.dump import LeftOut
from lakecli.repository.lakefs.hooks import branch_with_actions
from lakecli.repository.lakefs.restore import RefOutcome, Restored, clone_from_lakefs, update_refs
from lakecli.repository.reading.addresses import remember, trust_of
from lakecli.repository.reading.outside_counts import CountedPlace, allowable, look
from lakecli.repository.repo import DEFAULT_RANGE_ENTRIES
from lakecli.repository.sharing.fetch import RefUpdate


class ClonedJson(TypedDict):
    """A new clone.

    Attributes:
        repository: URI of the repository.
        storage_namespace: URI of the storage namespace.
        commits: number of commits that are new on this machine.
        left_out: branches and tags of the bucket that were not cloned, with the reasons.
        outside: places of objects outside the storage namespace.
        damaged: damaged records, which were ignored.
        updated: with --from-lakefs, if the repository existed already: the branches and tags that
            differed on this machine, as in refs-restore.
    """

    repository: str
    storage_namespace: str
    default_branch: str
    branches: int
    tags: int
    commits: int
    left_out: Sequence[RefUpdate | LeftOut]
    damaged: Sequence[InvalidRecord]
    outside: Sequence[CountedPlace]
    updated: Sequence[RefOutcome]


@answers(ClonedJson)
def clone(
    context: Context,
    storage_namespace: StorageNamespace,
    repository: RepositoryUri,
    *,
    from_lakefs: bool = flag(),
    refs: str | None = option("FILE"),
    default_branch: str | None = option("NAME", "--default-branch", "-d"),
    take_over: bool = flag(),
    rebuild: bool = flag(),
    engine: EngineOptions,
) -> None:
    """Clone a repository from its storage namespace onto this machine.

    Every branch and tag in the bucket is created on this machine; no data is copied. REPOSITORY is
    the name on this machine only. If a clone is interrupted, run the same command again to finish
    it. If it is already cloned under this name, the exit code is 11.

    Other machines' uncommitted changes, unpushed commits and operation logs are not in the bucket,
    so they are not cloned.

    A repository may refer to objects outside its storage namespace. lakecli reads them with your
    credentials only if you allow the buckets, prefixes or directories that they are in (setting
    trust.addresses). clone looks for such objects in up to 16 ranges of the default branch (a range
    lists about 6,000 paths), lists where they are with counts, and asks whether to allow these
    locations. Without a terminal it prints the command that allows them. `lakecli fsck` counts all
    such objects.

    With --from-lakefs, the repository is created from a refs dump of lakeFS, which lists the
    commits, branches and tags. The objects stay where they are. Without --refs, the dump that a
    lakeFS server left in the namespace is used. Nothing is written to the namespace: new commits
    and objects go into a directory of this machine and cannot be pushed. With --take-over, lakecli
    owns the namespace and writes to it (`lakecli help lakefs`). If the repository exists already,
    on this machine under this name or in the bucket, clone updates it from the dump, as `lakecli
    refs-restore --update` does.

    The first commit on top of a commit of lakeFS rewrites the list of paths of the lakeFS commit,
    once for each list. --rebuild does this for all branches at once. With --take-over, the rebuild
    can run on Spark: with --engine spark, or from 20,000,000 objects on.

    Args:
        from_lakefs: Clone a namespace of lakeFS from a refs dump.
        refs: The manifest that `lakectl refs-dump` printed; - reads standard input.
        default_branch: With --from-lakefs: the default branch.
        take_over: With --from-lakefs: claim the namespace, to write to it and push.
        rebuild: With --from-lakefs: rewrite the lists of paths of all branches now, not with the
            first commit on each.

    Examples:
        lakecli clone s3://my-bucket/sales lakefs://sales
        lakecli clone /mnt/lake/demo lakefs://demo
        lakecli clone --from-lakefs s3://my-bucket/old lakefs://old --refs refs.json
    """
    on_spark = engine.engine is EngineName.SPARK or engine.names_spark
    if on_spark and not (rebuild and take_over):
        raise UsageError(
            "Spark can only rebuild the trees of a namespace that is taken over",
            hint="add --rebuild and --take-over, or leave out --engine, --master and --conf",
        )
    name = repository.repository
    if not from_lakefs:
        if refs is not None or default_branch is not None or take_over or rebuild:
            raise UsageError(
                "--refs, --default-branch, --take-over and --rebuild need --from-lakefs",
                hint="add --from-lakefs, or leave them away",
            )
        with context.out.progress("clone") as progress:
            made = clone_counted(context.lake(), storage_namespace, name, progress=progress)
        _show_clone(context, made, made)
        context.out.note(
            "not cloned: uncommitted changes, unpushed commits and the operation logs of other "
            "clones"
        )
        return
    lake = context.lake()
    manifest = None if refs is None else refs_manifest.read_manifest(context, refs)
    with context.out.progress("clone") as shown:
        known = clone_known(lake, storage_namespace, name, take_over=take_over, progress=shown)
    if known is not None:
        updated = update_refs(context.synced_repository(repository), manifest)
        refs_manifest.show_updates(context, updated)
        _show_clone(context, updated, known[1], updates=updated.updated)
        if rebuild:
            _rebuild(context, updated.repository, engine)
        return
    restored = clone_from_lakefs(
        lake,
        storage_namespace,
        name,
        manifest,
        default_branch=default_branch,
        take_over=take_over,
        range_entries=DEFAULT_RANGE_ENTRIES,
    )
    rebuilt = _rebuild(context, restored.repository, engine) if rebuild else None
    _show_clone(context, restored, None)
    context.out.note(refs_manifest.NOT_IN_A_DUMP)
    if take_over:
        uri = restored.repository.uri
        context.out.note(f"publish the refs to other clones: lakecli push --all {uri}")
    context.out.note(_TAKEN_OVER if take_over else _BORROWED)
    if rebuilt is not None:
        context.out.note(f"rebuilt trees of branches: {rebuilt}")


def _rebuild(context: Context, repository: Repository, engine: EngineOptions) -> int:
    """Rebuild the trees of all branches, and return the number of branches."""
    size = None
    if not repository.record.is_borrowed:
        size = count_head_entries(repository, check_from=SPARK_FROM)
    with open_runner(context, engine, repository=repository, size=size) as runner:
        return rebuild_heads(repository, runner)


def _show_clone(
    context: Context,
    made: Cloned | Restored,
    cloned: Cloned | None,
    *,
    updates: Sequence[RefOutcome] | None = None,
) -> None:
    """Report a new clone, and ask whether lakecli may read the places outside its namespace.

    Args:
        made: the new clone, or the result of restoring a refs dump of lakeFS.
        cloned: the new clone; ``None`` if nothing was cloned from the bucket.
        updates: the refs that a newer dump moved, which were shown already; ``None`` for a clone
            that is new.
    """
    record = made.repository.record
    outside = _ask_about_outside(context, made.repository)
    source, of_dump = ("lakeFS in ", made.left_out) if isinstance(made, Restored) else ("", ())
    of_bucket = () if cloned is None else cloned.left_out
    if updates is None:
        for line in chain(update_lines(of_bucket), refs_manifest.left_out_lines(of_dump)):
            context.out.warn(f"left out: {line}")
    _warn_of_hooks(context, made.repository)
    context.keep(made.repository)
    context.out.emit(
        pick(
            ClonedJson,
            made,
            record,
            repository=made.repository.uri,
            left_out=[*of_bucket, *of_dump],
            damaged=() if cloned is None else cloned.damaged,
            outside=outside,
            updated=updates or (),
        ),
        text=lambda: [
            f"Repository: {made.repository.uri}",
            f"Cloned from {source}{one_line(record.storage_namespace)}:",
            f"branches: {made.branches}",
            f"tags: {made.tags}",
            f"commits: {made.commits}",
            f"default branch: {record.default_branch}",
        ],
    )


def _warn_of_hooks(context: Context, repository: Repository) -> None:
    """If the repository has hooks of lakeFS, warn that they no longer run."""
    found = branch_with_actions(repository)
    if found is None:
        return
    branch, files = found
    events = sorted({event for each in files for event in each.events or ("unknown",)})
    context.out.warn(
        f"hooks of lakeFS are not run by lakecli, so nothing of them guards a branch: "
        f"{', '.join(one_line(each.path) for each in files)} on {branch} "
        f"({one_line(', '.join(events))}); see: lakecli help lakefs"
    )


def _ask_about_outside(context: Context, repository: Repository) -> list[CountedPlace]:
    """List the places outside the namespace to which a new clone refers, and ask to allow them.

    If there is no terminal, print the command that allows the places instead of asking.
    """
    try:
        found = look(repository)
    except LakeError as error:
        context.out.warn(f"cannot check for objects outside the namespace: {error.message}")
        return []
    trust = trust_of(repository)
    unknown = [place for place in found.places if not place.allowed]
    if not unknown:
        return list(found.places)
    part = ""
    if found.ranges_read < found.ranges:
        part = f" (counted in {found.ranges_read} of {found.ranges} ranges; fsck counts all)"
    context.out.warn(f"some objects lie outside the storage namespace{part}:")
    for line in place_lines(unknown):
        context.out.note(f"  {line}")
    wanted = allowable(unknown, trust)
    if not wanted:
        context.out.note("they will not be read: lakecli never follows such addresses")
        return list(found.places)
    if context.can_ask:
        try:
            context.confirm("allow lakecli to read them with your credentials", yes=False)
        except Refused:
            pass
        else:
            remember(repository, wanted)
            return [place._replace(allowed=place.uri in wanted) for place in found.places]
    command = as_commands(trust.allowing(*wanted), None)
    context.out.note(f"to allow reading them: {one_line(command)}")
    return list(found.places)


_BORROWED = (
    "the namespace still belongs to lakeFS: nothing is written to it, and commits made here stay "
    "on this machine; --take-over claims it for lakecli"
)


_TAKEN_OVER = (
    "lakeFS's server and its garbage collection do not know what lakecli writes and may delete it: "
    "make the repository read-only in lakeFS or delete it there (`lakectl repo delete` keeps the "
    "objects), and stop lakeFS's garbage collection job"
)
