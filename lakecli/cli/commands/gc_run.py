"""``lakecli gc run``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from lakecli.cli.collection import report_lines, report_record
from lakecli.cli.context import Context
from lakecli.cli.engine import open_runner
from lakecli.cli.params import (
    NO_CONF,
    Conf,
    DryRun,
    Engine,
    EngineName,
    Master,
    Parallelism,
    Parser,
    RepositoryUri,
    Yes,
    read_duration,
)
from lakecli.cli.transfers import NoProgress, parallelism, progress

if TYPE_CHECKING:
    from lakecli.pipeline.gc.run import GcReport


def gc_run(
    context: Context,
    repository: RepositoryUri,
    *,
    dry_run: DryRun = False,
    grace: Annotated[
        timedelta | None,
        typer.Option(
            "--grace",
            metavar="TIME",
            help="How old garbage has to be, and how long it stays condemned; default: gc.grace",
        ),
        Parser(read_duration),
    ] = None,
    force_shared: Annotated[
        bool,
        typer.Option("--force-shared", help="Collect although a lakeFS may work in the namespace"),
    ] = False,
    yes: Yes = False,
    engine: Engine = EngineName.AUTO,
    master: Master = "",
    conf: Conf = NO_CONF,
    workers: Parallelism = None,
    no_progress: NoProgress = False,
) -> None:
    """Find garbage, and delete it a grace period later.

    Run it from time to time: each run takes one step, as far as time allows. The first one lists
    what no branch, no tag and none of their recent positions reaches, and condemns it; nothing is
    deleted. Once the grace period and one hour are over, the next run looks at everything that
    came into use meanwhile, asks, and deletes the rest. Until the sweep begins, `lakecli gc undo`
    takes it back. A sweep that was killed is finished by the same command, on any machine, 30
    minutes after its last sign of life: so long it may still be under way. One that fails ends,
    and the next run looks anew.

    The grace period that counts is the longer one of that of the run that condemned and that of
    the run that sweeps. So give --grace to both, or set gc.grace.

    What counts as in use: all branches and tags in the bucket and where they stood in the last 30
    days, by the dates of the bucket; what any clone uploaded or committed within the grace period;
    and of this clone its branches, tags, uncommitted changes and operation log. Rules
    (`lakecli gc set-config`) let commits lose their objects a number of days after another one
    took their place on a branch; without rules, whatever is reached stays. Work that another clone
    has not pushed for longer than the grace period may lose objects: pushing it finds that out.

    Only what lakecli wrote is deleted: data objects, ranges, metaranges, commit packs that others
    replace, old moves in the reflog, what came by a link and was not staged, uploads that were
    abandoned, leftovers of doctor. Where a lakeFS works in the same namespace it is refused.

    Run it from the clone that holds unpushed work, or push first.

    With --engine spark, Spark reads ranges and lists data objects. --engine auto takes it where a
    master is named, or where the largest branch of this clone has 20,000,000 objects or more.

    Examples:
        lakecli gc run lakefs://demo --dry-run
        lakecli gc run lakefs://demo
        lakecli gc run lakefs://demo -y
    """
    from lakecli.pipeline.gc.run import GcOptions, advance
    from lakecli.repository.check.fsck import count_entries

    opened = context.synced_repository(repository)
    with (
        open_runner(
            context,
            engine=engine,
            master=master,
            conf=conf,
            size=count_entries(opened) if engine is EngineName.AUTO else None,
            parallelism=parallelism(context, opened, workers),
        ) as runner,
        progress(context, "gc", hidden=no_progress) as shown,
    ):
        options = GcOptions(
            grace=context.settings.gc_grace if grace is None else grace,
            dry_run=dry_run,
            force_shared=force_shared,
            confirm=lambda question: context.confirm(question, yes=yes),
            progress=shown,
        )
        report: GcReport = advance(opened, runner, options)
    context.out.emit(
        report_record(report, dry_run=dry_run),
        text=lambda: report_lines(report, opened.uri, dry_run=dry_run),
    )
