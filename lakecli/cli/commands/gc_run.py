"""``lakecli gc run``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from lakecli.cli.collection import report_lines, report_record
from lakecli.cli.context import Context
from lakecli.cli.engine import open_runner_of
from lakecli.cli.line.declare import Option
from lakecli.cli.params import DryRun, EngineOptions, RepositoryUri, TransferOptions, Yes
from lakecli.cli.reading import Parser, read_duration
from lakecli.cli.transfers import progress
from lakecli.gc.run import GcOptions, GcReport, advance


def gc_run(
    context: Context,
    repository: RepositoryUri,
    *,
    dry_run: DryRun = False,
    grace: Annotated[
        timedelta | None,
        Option(
            "--grace",
            metavar="TIME",
            help="Minimum age of garbage, and delay until it is deleted; default: gc.grace",
        ),
        Parser(read_duration),
    ] = None,
    force_shared: Annotated[
        bool,
        Option("--force-shared", help="Collect even if a lakeFS server may use the namespace"),
    ] = False,
    lakefs_stopped: Annotated[
        bool,
        Option(
            "--lakefs-stopped",
            help="Confirm, once, that lakeFS has stopped in a namespace that was taken over",
        ),
    ] = False,
    accept_restored: Annotated[
        bool,
        Option(
            "--accept-restored",
            help="Accept, once, that branches or tags are missing or older than they were",
        ),
    ] = False,
    yes: Yes = False,
    engine: EngineOptions,
    transfer: TransferOptions,
) -> None:
    """Find garbage, and delete it after a grace period.

    Garbage is what no branch, no tag and none of their recent positions reaches. Run this command
    from time to time; each run takes one step. The first run condemns garbage: it records what is
    garbage, and deletes nothing. A run after the grace period and one hour sweeps: it checks again
    what is in use, asks, and deletes the rest. Until the sweep, `lakecli gc undo` cancels the
    condemnation. If a sweep is killed, the same command on any machine finishes it, 30 minutes
    after the sweep's last sign of life. If a sweep fails, the next run starts over.

    The longer of the grace periods of the condemning and of the sweeping run counts. Give --grace
    to both, or set gc.grace.

    In use are: all branches and tags in the bucket and their positions in the last 30 days, by the
    clock of the bucket; whatever any clone uploaded or committed within the grace period; and the
    branches, tags, uncommitted changes and operation log of this clone. With retention rules
    (`lakecli gc set-config`), commits lose their objects a number of days after a newer commit
    replaced them at the head of a branch; without rules, every commit that is reached keeps its
    objects. Work that another clone has kept unpushed for longer than the grace period may lose
    objects; its push reports that.

    Only objects that lakecli wrote are deleted: data, lists of paths (ranges and metaranges),
    commit packs that others replace, old reflog entries, uploads by presigned URL that were never
    staged, abandoned uploads, and leftovers of `lakecli doctor` and of jobs on Spark. If a lakeFS
    server works in the same namespace, gc run refuses to start.

    In a namespace that was taken over from lakeFS (`lakecli clone --from-lakefs --take-over`), what
    lakeFS wrote is garbage by the same rules, once its server and its garbage collection have
    stopped there permanently. Confirm that with --lakefs-stopped, once for all machines. What
    lakeFS's branches had uncommitted at the last refs dump is deleted too. gc run refuses if lakeFS
    has written since that dump: bring its commits with lakecli refs-restore --update first. A
    lakecli refs-dump withdraws the confirmation.

    If a branch or tag is missing in the bucket, or older than this clone or the last collection
    saw it, gc run stops with exit code 8 and deletes nothing. Restore it from a clone that has it.
    If a backup was restored and the present branches and tags are right, --accept-restored asks,
    and the collection begins anew, with a whole grace period.

    Run it in the clone that has unpushed work, or push first.

    --engine spark reads lists of paths, lists data objects and compares both on Spark; what it
    finds passes through _lakecli/scratch/ in the namespace. --engine auto uses Spark if a --master
    is given, or if the largest branch of this clone has 20,000,000 objects or more.

    Examples:
        lakecli gc run lakefs://demo --dry-run
        lakecli gc run lakefs://demo
        lakecli gc run lakefs://demo -y
        lakecli gc run lakefs://taken --lakefs-stopped
    """
    opened = context.synced_repository(repository)
    with (
        open_runner_of(context, engine, opened, workers=transfer.workers) as runner,
        progress(context, "gc", hidden=transfer.no_progress) as shown,
    ):
        options = GcOptions(
            grace=context.settings.gc_grace if grace is None else grace,
            dry_run=dry_run,
            force_shared=force_shared,
            lakefs_stopped=lakefs_stopped,
            accept_restored=accept_restored,
            confirm=lambda question: context.confirm(question, yes=yes),
            progress=shown,
        )
        report: GcReport = advance(opened, runner, options)
    context.out.emit(
        report_record(report, dry_run=dry_run),
        text=lambda: report_lines(report, opened.uri, dry_run=dry_run),
    )
