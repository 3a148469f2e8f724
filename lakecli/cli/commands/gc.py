"""``lakecli gc``: garbage collection and its retention rules."""

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TypedDict

from lakecli.cli.commands.engine import open_runner_of
from lakecli.cli.commands.names_from_file import read_document
from lakecli.cli.context import Context
from lakecli.cli.line import REQUIRED, flag, option
from lakecli.cli.out.records import answers, fields_of
from lakecli.cli.out.text import human_size, local_date
from lakecli.cli.params import DryRun, EngineOptions, RepositoryUri, TransferOptions, Yes
from lakecli.cli.parsers import read_duration
from lakecli.gc.policy import Rules, delete_rules, get_rules, parse_rules, put_rules, rules_fields
from lakecli.gc.report import GarbageSummary
from lakecli.gc.run import Action, GcOptions, GcReport, GcStatus, prepare, status, take, undo
from lakecli.remote.gc_protocol import Phase


class CollectionJson(TypedDict):
    """The result of a run of garbage collection.

    The other fields are those of `GcReport`.

    Attributes:
        dry_run: true if nothing was changed, because of --dry-run.
        objects: number of garbage objects.
        size: total size of the garbage objects in bytes.
    """

    dry_run: bool
    objects: int
    size: int


class RetentionRuleJson(TypedDict):
    """The retention period of one branch.

    Attributes:
        branch_id: name of the branch.
    """

    branch_id: str
    retention_days: int


class RetentionRulesJson(TypedDict):
    """The retention rules: how long the objects of old commits are kept.

    Attributes:
        branches: branches that have their own retention period, by name.
    """

    default_retention_days: int
    branches: Sequence[RetentionRuleJson]


@answers(CollectionJson)
def gc_run(
    context: Context,
    repository: RepositoryUri,
    *,
    dry_run: DryRun = False,
    grace: timedelta | None = option("TIME", read=read_duration),
    force_shared: bool = flag(),
    lakefs_stopped: bool = flag(),
    accept_restored: bool = flag(),
    yes: Yes = False,
    engine: EngineOptions,
    transfer: TransferOptions,
) -> None:
    """Find garbage, and delete it after a grace period.

    Garbage is everything that cannot be reached from a branch, a tag or their recent positions. Run
    this command from time to time; each run takes one step. The first run condemns garbage: it
    records what is garbage, and deletes nothing. A later run, after the grace period plus one hour,
    sweeps: it checks again what is in use, asks, and deletes the rest. Until the sweep, `lakecli gc
    undo` cancels the condemnation. If a sweep is killed, the same command on any machine finishes
    it, 30 minutes after the sweep's last sign of life. If a sweep fails, the next run starts over.

    The grace period is that of the condemning or of the sweeping run, whichever is longer. Only
    machines that run this command need the setting gc.grace; other clones need not know it.

    In use are: all branches and tags in the bucket and their positions in the last 30 days, by the
    clock of the bucket; whatever any clone uploaded or committed within the grace period; and the
    branches, tags, uncommitted changes and operation log of this clone. With retention rules
    (`lakecli gc set-config`), commits lose their objects a number of days after a newer commit
    replaced them at the head of a branch; without rules, every commit that is reached keeps its
    objects.

    Work that another clone has kept unpushed for longer than the grace period may lose objects; a
    push of that clone reports the loss. So run this command in the clone that has unpushed work, or
    push first.

    Only objects that lakecli wrote are deleted: data, lists of paths (ranges and metaranges), old
    commit packs (files with commits) whose commits a newer pack has too, old reflog entries,
    uploads by presigned URL that were never staged, abandoned uploads, and leftovers of `lakecli
    doctor` and of jobs on Spark. If a lakeFS server works in the same namespace, gc run refuses to
    start.

    In a namespace that was taken over from lakeFS (`lakecli clone --from-lakefs --take-over`), what
    lakeFS wrote is garbage by the same rules, once its server and its garbage collection have
    stopped there permanently. Confirm that with --lakefs-stopped, once for all machines. The
    uncommitted changes of lakeFS's branches at the last refs dump are deleted, too. gc run refuses
    if lakeFS has written since that dump: first bring its commits with `lakecli refs-restore
    --update`. A `lakecli refs-dump` withdraws the confirmation.

    If a branch or tag has vanished from the bucket, or is older there than this clone or the last
    collection saw it, gc run stops with exit code 8 and deletes nothing. (A deletion by lakecli
    leaves a record in the bucket and does not count.) Restore the branch or tag from a clone that
    has it. If a backup was restored and the present branches and tags are right, give
    --accept-restored: it asks, and the collection begins anew, with a whole grace period.

    --engine spark reads lists of paths, lists data objects and compares both on Spark; what it
    finds passes through _lakecli/scratch/ in the namespace. --engine auto uses Spark if a --master
    is given, or if the largest branch of this clone has 20,000,000 objects or more.

    Args:
        grace: Minimum age of garbage, and delay until it is deleted; at least 24h; default: 14d
            (gc.grace).
        force_shared: Collect even if a lakeFS server may use the namespace.
        lakefs_stopped: Confirm, once, that lakeFS has stopped in a namespace that was taken over.
        accept_restored: Accept, once, that branches or tags are missing or older than they were.

    Examples:
        lakecli gc run lakefs://demo --dry-run
        lakecli gc run lakefs://demo
        lakecli gc run lakefs://demo -y
        lakecli gc run lakefs://taken --lakefs-stopped
    """
    opened = context.synced_repository(repository)
    with open_runner_of(context, engine, opened, workers=transfer.workers) as runner:
        options = GcOptions(
            grace=context.settings.gc_grace if grace is None else grace,
            dry_run=dry_run,
            force_shared=force_shared,
            lakefs_stopped=lakefs_stopped,
            accept_restored=accept_restored,
        )
        step = prepare(opened, runner, options)
        if step.question:
            context.confirm(step.question, yes=yes)
        with context.out.progress("gc", hidden=transfer.no_progress) as shown:
            report = take(step, progress=shown)
    own = CollectionJson(
        dry_run=dry_run,
        objects=sum(each.objects for each in report.garbage),
        size=sum(each.size for each in report.garbage),
    )
    context.out.emit(
        fields_of(report) | own, text=lambda: report_lines(report, opened.uri, dry_run=dry_run)
    )


@answers(GcStatus)
def gc_status(context: Context, repository: RepositoryUri) -> None:
    """Show the state of garbage collection, and the commands that are possible now.

    Refs dumps that `lakecli refs-dump` wrote are kept for 30 days, and listed.

    Examples:
        lakecli gc status lakefs://demo
    """
    opened = context.repository(repository)
    found = status(opened).with_grace(context.settings.gc_grace)
    context.out.emit(found, text=lambda: status_lines(found, opened.uri))


@answers(GcStatus)
def gc_undo(context: Context, repository: RepositoryUri, *, force: bool = flag()) -> None:
    """Cancel the condemnation of garbage.

    This is possible until the sweep begins; nothing has been deleted until then. The next `lakecli
    gc run` starts over.

    --force also ends an interrupted sweep, so that other commands can write again. Objects that the
    sweep deleted cannot be restored; `lakecli fsck` lists what is missing. A sweep that may still
    be running is not ended: wait 30 minutes after its last sign of life, which `lakecli gc status`
    shows. If the recorded state of the collection is damaged, --force replaces it by an idle one.

    Args:
        force: End an interrupted sweep, or replace a damaged state.

    Examples:
        lakecli gc undo lakefs://demo
        lakecli gc undo lakefs://demo --force
    """
    opened = context.repository(repository)
    found = undo(opened, force=force)
    lines = ["Cancelled: nothing is condemned any more."]
    if force:
        lines.append(f"If a sweep had begun, see what is missing: lakecli fsck {opened.uri}")
    context.out.emit(found, text=lambda: lines)


@answers(RetentionRulesJson)
def gc_set_config(
    context: Context,
    repository: RepositoryUri,
    *,
    filename: str = option("FILE", "--filename", "-f", default=REQUIRED),
) -> None:
    """Set the retention rules: how long commits keep their objects, per branch.

    The rules are lakeFS's: a default number of days, and different numbers for some branches. A
    commit keeps its objects for that number of days after a newer commit replaced it at the head of
    the branch. Heads and tags always keep theirs. Without rules, every commit that branches and
    tags reach keeps its objects. The rules hold for all clones from the next `lakecli gc run` on.

        {"default_retention_days": 21,
         "branches": [{"branch_id": "main", "retention_days": 28}]}

    Args:
        filename: File with the rules as JSON; - for standard input.

    Examples:
        lakecli gc set-config lakefs://demo -f rules.json
        lakecli gc set-config lakefs://demo -f -
    """
    rules = parse_rules(read_document(context, filename))
    put_rules(context.repository(repository).store, rules)
    context.out.emit(rules_fields(rules))
    context.out.note("set the retention rules")


@answers(RetentionRulesJson)
def gc_get_config(
    context: Context, repository: RepositoryUri, *, as_json: bool = flag("-p")
) -> None:
    """Show the retention rules.

    Args:
        as_json: Print the rules as JSON that gc set-config reads.

    Examples:
        lakecli gc get-config lakefs://demo
        lakecli gc get-config lakefs://demo -p | lakecli gc set-config lakefs://other -f -
    """
    rules = get_rules(context.repository(repository).store)
    fields = rules_fields(rules)
    context.out.emit(
        fields, text=lambda: json.dumps(fields, indent=2).splitlines() if as_json else _lines(rules)
    )


def _lines(rules: Rules) -> Iterator[str]:
    yield f"Default Retention Days: {rules.default_days}"
    yield "Branch Rules: "
    for name, days in sorted(rules.branches.items()):
        yield f"  - Branch: {name}"
        yield f"    Retention Days: {days}"


@answers(RetentionRulesJson)
def gc_delete_config(context: Context, repository: RepositoryUri) -> None:
    """Delete the retention rules: keep whatever branches and tags reach.

    Examples:
        lakecli gc delete-config lakefs://demo
    """
    store = context.repository(repository).store
    rules = get_rules(store)
    delete_rules(store)
    context.out.emit(rules_fields(rules))
    context.out.note("deleted the retention rules")


def status_lines(status: GcStatus, uri: str) -> Iterator[str]:
    """Yield the lines that show a state of garbage collection."""
    if status.phase is Phase.IDLE:
        yield "Nothing is condemned." if status.epoch else "Nothing was ever condemned."
    elif status.phase is Phase.CONDEMNED:
        assert status.since is not None
        assert status.sweep_at is not None
        yield f"Garbage was condemned at {local_date(status.since)}; nothing has been deleted yet."
        yield from _summary_lines(status.summary)
        yield f"To delete it from {local_date(status.sweep_at)} on: lakecli gc run {uri}"
        yield f"To cancel before that: lakecli gc undo {uri}"
    else:
        assert status.resume_at is not None
        at = local_date(status.resume_at)
        yield "A sweep is running or was interrupted. Until it ends, other commands cannot write."
        yield from _summary_lines(status.summary)
        yield f"If it is no longer running, finish it from {at} on: lakecli gc run {uri}"
        yield f"or end it without deleting more: lakecli gc undo --force {uri}"
    for each in status.dumps:
        yield (
            f"Kept until {local_date(each.until)}: the refs dump of {local_date(each.since)}, "
            f"commits {each.manifest.commits}"
        )


def _summary_lines(summary: GarbageSummary | None) -> Iterator[str]:
    if summary is not None:
        yield f"By branch: {summary}"


def report_lines(report: GcReport, uri: str, *, dry_run: bool) -> Iterator[str]:
    """Yield the lines that report a run of garbage collection."""
    for each in report.accepted:
        yield f"{'Would accept' if dry_run else 'Accepted'}: {each}"
    if report.commits or report.action in (Action.CONDEMNED, Action.FOUND_NOTHING):
        yield (
            f"In use: {_count(report.commits, 'commit')}, {_count(report.ranges, 'range')}, "
            f"{_count(report.entries, 'entry', 'entries')}"
        )
    if report.lost:
        yield (
            f"Unpushed commits have lost {_count(len(report.lost), 'range or metarange')}; "
            "a push lists them"
        )
    yield from _garbage_lines(report, dry_run=dry_run)
    if dry_run or report.action is Action.SWEPT:  # otherwise the state has it
        yield from _summary_lines(report.summary)
    if report.spared:
        yield f"Spared because it is in use again: {_count(report.spared, 'object')}"
    if dry_run:
        yield from _next_lines(report, uri)
    else:
        yield from status_lines(report.status, uri)


def _next_lines(report: GcReport, uri: str) -> Iterator[str]:
    """Yield the lines that name the next command after a dry run of garbage collection."""
    if report.action is Action.CONDEMNED:
        yield f"Nothing was changed; to condemn it: lakecli gc run {uri}"
    elif report.action is Action.SWEPT:
        at = report.status.sweep_at
        when = "" if at is None else f" from {local_date(at)} on"
        yield f"Nothing was changed; to sweep it{when}: lakecli gc run {uri}"


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _garbage_lines(report: GcReport, *, dry_run: bool) -> Iterator[str]:
    if report.action is Action.WAITS:
        return
    if not report.garbage:
        yield "No garbage." if report.action is not Action.SWEPT else "Nothing to delete."
        return
    verb = {Action.CONDEMNED: "Condemned", Action.SWEPT: "Deleted"}[report.action]
    if dry_run:
        verb = {"Condemned": "Would condemn", "Deleted": "Would delete"}[verb]
    size = human_size(sum(each.size for each in report.garbage))
    yield f"{verb}: {_count(sum(each.objects for each in report.garbage), 'object')}, {size}"
    rows = [
        (each.prefix, each.kind, str(each.objects), human_size(each.size), each.why)
        for each in report.garbage
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for prefix, kind, objects, amount, why in rows:
        yield (
            f"  {prefix:{widths[0]}}  {kind:{widths[1]}}  {objects:>{widths[2]}}  "
            f"{amount:>{widths[3]}}  {why}"
        )
