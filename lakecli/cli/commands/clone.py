"""``lakecli clone``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.engine import open_runner
from lakecli.cli.lakefs import left_out_record, read_manifest, show_restored, show_updates
from lakecli.cli.line.declare import Argument, Option
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.sharing import Damage, RefUpdate
from lakecli.cli.params import EngineOptions, RepositoryUri
from lakecli.cli.reading import Completion, EngineName, Kind
from lakecli.cli.sharing import show_clone, update_lines
from lakecli.errors import UsageError
from lakecli.imports.rebuild import count_heads, rebuild_heads
from lakecli.repository.clone import clone_counted, clone_known
from lakecli.repository.contract import Repository
from lakecli.repository.lakefs.dump import RefsManifest
from lakecli.repository.lakefs.restore import clone_from_lakefs
from lakecli.repository.lakefs.update import update_refs
from lakecli.repository.repo import DEFAULT_RANGE_ENTRIES


def clone(
    context: Context,
    storage_namespace: Annotated[
        str,
        Argument(
            metavar="NAMESPACE",
            help="s3://BUCKET/PREFIX, gs://…, az://…, local:///DIRECTORY or an absolute path",
        ),
        Completion(Kind.DIRECTORY),
    ],
    repository: RepositoryUri,
    *,
    from_lakefs: Annotated[
        bool,
        Option(
            "--from-lakefs", help="The namespace belongs to a lakeFS: clone it from a refs dump"
        ),
    ] = False,
    refs: Annotated[
        str | None,
        Option(
            "--refs",
            metavar="FILE",
            help="The manifest that `lakectl refs-dump` printed; - reads standard input",
        ),
        Completion(Kind.FILE),
    ] = None,
    default_branch: Annotated[
        str | None,
        Option(
            "--default-branch", "-d", metavar="NAME", help="With --from-lakefs: the default branch"
        ),
    ] = None,
    take_over: Annotated[
        bool,
        Option(
            "--take-over", help="With --from-lakefs: claim the namespace, to write to it and push"
        ),
    ] = False,
    rebuild: Annotated[
        bool,
        Option(
            "--rebuild",
            help="With --from-lakefs: rewrite the lists of paths of all branches now, not with the "
            "first commit on each",
        ),
    ] = False,
    engine: EngineOptions,
) -> None:
    """Clone a repository from its storage namespace onto this machine.

    Every branch and tag in the bucket is created on this machine; no data is copied. REPOSITORY is
    the name on this machine only. If a clone is interrupted, run the same command again to finish
    it.

    Other machines' uncommitted changes, unpushed commits and operation logs are not in the bucket,
    so they are not cloned.

    A repository may refer to objects outside its storage namespace. lakecli reads them with your
    credentials only if you allow their places. clone looks for such objects in up to 16 ranges of
    the default branch (a range lists about 6,000 paths), lists their places with counts, and asks
    whether to allow them; without a terminal it prints the command that allows them (setting
    trust.addresses). `lakecli fsck` counts all of them.

    With --from-lakefs the repository is made of a refs dump of lakeFS, which names its commits,
    branches and tags; the objects are read where they are. Without --refs, the dump that a lakeFS
    server left in the namespace is used. Nothing is written to the namespace: what is committed
    goes into a directory of this machine and cannot be pushed. With --take-over, the namespace
    becomes lakecli's; see lakecli help lakefs. If lakecli has the repository already, on this
    machine under this name or in the bucket, what is new in the dump comes into it, as by lakecli
    refs-restore --update. The first commit on a tree of lakeFS rewrites its ranges, once for each
    tree; --rebuild does so for all branches at once, with --take-over also on Spark: by --engine
    spark, or from 20,000,000 objects on.

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
    if from_lakefs:
        manifest = None if refs is None else read_manifest(context, refs)
        known = _update(context, storage_namespace, repository, manifest, take_over=take_over)
        if known is not None:
            if rebuild:
                _rebuild(context, known, engine)
            return
        restored = clone_from_lakefs(
            context.lake(),
            storage_namespace,
            repository.repository,
            manifest,
            default_branch=default_branch,
            take_over=take_over,
            range_entries=DEFAULT_RANGE_ENTRIES,
        )
        rebuilt = _rebuild(context, restored.repository, engine) if rebuild else None
        show_restored(context, restored, taken_over=take_over)
        if rebuilt is not None:
            context.out.note(f"rebuilt trees of branches: {rebuilt}")
        return
    if refs is not None or default_branch is not None or take_over or rebuild:
        raise UsageError(
            "--refs, --default-branch, --take-over and --rebuild need --from-lakefs",
            hint="add --from-lakefs, or leave them away",
        )

    with context.out.progress("clone") as progress:
        made = clone_counted(
            context.lake(),
            storage_namespace,
            repository.repository,
            progress=progress,
        )
    show_clone(
        context,
        made,
        source="",
        left_out=[pick(RefUpdate, each) for each in made.left_out],
        warnings=update_lines(made.left_out),
        damaged=[pick(Damage, each) for each in made.damaged],
    )
    context.out.note(
        "not cloned: uncommitted changes, unpushed commits and the operation logs of other clones"
    )


def _update(
    context: Context,
    storage_namespace: str,
    uri: RepositoryUri,
    manifest: RefsManifest | None,
    *,
    take_over: bool,
) -> Repository | None:
    """Take a newer dump into a repository that exists here or in the bucket, and return it."""
    with context.out.progress("clone") as progress:
        known = clone_known(
            context.lake(),
            storage_namespace,
            uri.repository,
            take_over=take_over,
            progress=progress,
        )
    if known is None:
        return None
    found, made = known
    updated = update_refs(context.synced(found), manifest)
    cloned = () if made is None else made.left_out
    show_clone(
        context,
        updated,
        source="lakeFS in ",
        left_out=[
            *(pick(RefUpdate, each) for each in cloned),
            *(left_out_record(each) for each in updated.left_out),
        ],
        warnings=(),
        damaged=[pick(Damage, each) for each in (() if made is None else made.damaged)],
        updated=show_updates(context, updated),
    )
    return updated.repository


def _rebuild(context: Context, repository: Repository, engine: EngineOptions) -> int:
    """Rebuild the trees of all branches, and return how many there are."""
    size = None if repository.record.is_borrowed else count_heads(repository)
    with open_runner(context, engine, repository=repository, size=size) as runner:
        return rebuild_heads(repository, runner)
