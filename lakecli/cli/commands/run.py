"""``lakecli run``, and ``run list``, ``show``, ``resume`` and ``abort``."""

import shlex
from typing import TypedDict

from lakecli.base.model import CommitId
from lakecli.base.uri import LakeUri, ref_of
from lakecli.cli.commands.named_checks import checks_of
from lakecli.cli.context import Context
from lakecli.cli.line import Kind, argument, option
from lakecli.cli.out.records import answers, pick
from lakecli.cli.out.text import one_line
from lakecli.cli.params import BranchUri, Checks, Message, NoVerify, RepositoryUri
from lakecli.cli.parsers import read_branch
from lakecli.cli.programs import outcome_of, run_program
from lakecli.errors import JobFailed, without_passwords
from lakecli.repository import run as runs


class RunReportJson(TypedDict):
    """The result of a run.

    Attributes:
        commit_id: the merge commit on the destination; null if there was no new data.
    """

    id: str
    branch: str
    destination: str
    commit_id: CommitId | None


@answers(RunReportJson)
def run(
    context: Context,
    destination: LakeUri = argument("DEST", read=read_branch, kind=Kind.BRANCH),
    job: list[str] = argument("JOB"),
    *,
    branch: str = option("NAME"),
    check: Checks = (),
    keep: runs.Keep = option("WHEN", default=runs.Keep.ON_FAILURE),
    message: Message = "",
    no_verify: NoVerify = False,
) -> None:
    """Run a job on a branch of its own, check its result, and publish all of it or nothing.

    Usage: DEST [OPTIONS] -- JOB [ARGUMENT]...

    The branch begins at DEST and stays on this machine. If the job exits with 0, what it staged is
    committed, checked and published as by `lakecli publish`, which pushes DEST; then the branch is
    removed. If the job has staged and committed nothing, that is a success, too.

    The job's environment has the variables LAKECLI_REF (the URI of its branch), LAKECLI_BASE_URI
    (so that paths without a URI are paths of its branch) and LAKECLI_RUN_ID.

    The exit code says what failed: 14 the job (the error has the job's own exit code), 15 a check,
    16 a hook; 4 is a conflict with what others have published. DEST is then unchanged, and the
    branch is kept: see `lakecli run list`, `resume` and `abort`. A killed run does not hinder the
    next one, which removes the killed run if it has the same --branch or --keep never.

    Args:
        destination: lakefs://REPOSITORY/BRANCH to publish on.
        job: Program to run, with its arguments, after --.
        branch: Name of the branch of the run; default: a new one.
        keep: Keep the branch: always, on-failure or never.

    Examples:
        lakecli run lakefs://demo/main --check schema -- python load.py 2026-11-28
        lakecli run lakefs://demo/main --branch nightly -- sh -c 'lakecli fs upload new.csv raw/a'
    """
    context.skips_hooks = no_verify
    checks = checks_of(context, check)
    repository = context.synced_repository(destination)
    options = runs.RunOptions(
        ref_of(destination),
        context.committer(),
        branch=branch,
        message=message or without_passwords(f"Run {shlex.join(job)}")[:200],
        job=tuple(job),
        checks=tuple(check),
        keep=keep,
    )
    with runs.running(repository, options, checks) as opened:
        context.out.note(f"run {opened.run.id} on {opened}")
        context.out.flush()
        environ = {
            **context.environ,
            "LAKECLI_BASE_URI": f"{opened}/",
            "LAKECLI_REF": str(opened),
            "LAKECLI_RUN_ID": opened.run.id,
        }
        code = run_program(
            job, environ, JobFailed, "the job", shows=not context.out.json, lock=[opened.lock]
        )
        if code:
            failure = JobFailed(f"the job {outcome_of(code)}")
            failure.job_exit_code = code
            raise failure
    _report(context, opened)


def _report(context: Context, opened: runs.OpenRun) -> None:
    made, into = opened.commit, opened.run.destination
    context.out.emit(
        pick(RunReportJson, opened.run, commit_id=None if made is None else made.id),
        text=lambda: [
            f"No new data for {into}." if made is None else f'Published on "{into}" as "{made.id}".'
        ],
    )


@answers(runs.JobRun, each=True)
def run_list(context: Context, repository: RepositoryUri) -> None:
    """List the runs on this machine that are under way, were killed, or whose branch was kept.

    Examples:
        lakecli run list lakefs://demo
    """
    context.out.table(
        ("Branch", "Destination", "Date", "State"),
        runs.iter_runs(context.repository(repository)),
        row=lambda each: (
            each.branch,
            each.destination,
            context.out.date(each.began),
            _state(each),
        ),
    )


def _state(found: runs.JobRun) -> str:
    """Return how far a run has come, and why it ended."""
    if found.is_running:
        return "running"
    ended = "published" if found.stage == runs.Stage.PUBLISHED else "killed"
    return one_line(found.failure or ended)


@answers(runs.JobRun)
def run_show(context: Context, branch: BranchUri) -> None:
    """Show a run, named by its branch.

    Examples:
        lakecli run show lakefs://demo/run-5f3a8c12d0be
    """
    found = runs.find(context.repository(branch), ref_of(branch))
    shown = found._asdict() | {
        "began": context.out.date(found.began),
        "job": shlex.join(found.job),
        "checks": shlex.join(found.checks),
    }
    context.out.emit(
        found, text=lambda: [f"{name}: {one_line(str(each))}" for name, each in shown.items()]
    )


@answers(RunReportJson)
def run_resume(context: Context, branch: BranchUri, *, no_verify: NoVerify = False) -> None:
    """Check and publish what a job has written, if the run failed or was killed after the job.

    The job is not run again. What it staged is committed, its checks run, and the branch is
    published and removed. If the job itself failed or was killed, its data may be incomplete, and
    the run cannot be resumed.

    Examples:
        lakecli run resume lakefs://demo/run-5f3a8c12d0be
    """
    context.skips_hooks = no_verify
    repository = context.synced_repository(branch)
    checks = checks_of(context, runs.find(repository, ref_of(branch)).checks)
    _report(context, runs.resume(repository, ref_of(branch), checks))


@answers(runs.JobRun)
def run_abort(context: Context, branch: BranchUri) -> None:
    """Remove a run that failed or was killed, with its branch; `undo` restores the branch.

    Examples:
        lakecli run abort lakefs://demo/run-5f3a8c12d0be
    """
    removed = runs.abort(context.synced_repository(branch), ref_of(branch))
    context.out.emit(removed, text=lambda: [f"removed branch {removed.branch}"])
