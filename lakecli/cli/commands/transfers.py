"""The output of uploads, downloads and other transfers: summaries, dry runs, failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NotRequired, TypeAlias, TypedDict

from lakecli.cli.context import Context
from lakecli.cli.out.records import FailureJson, pick
from lakecli.cli.out.text import human_size, quote_path
from lakecli.errors import PartialFailure
from lakecli.repository.transfer.ignore_patterns import LEFT_OUT

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.transfer.plan import Listed, PathStep, PlanTotals, TransferReport


Failures: TypeAlias = Sequence[tuple[bytes, str]]
"""The paths of objects that failed, each with the reason."""


class PlannedStep(TypedDict):
    """The action that a dry run shows for a path."""

    action: str
    path: bytes | str | None
    size: NotRequired[int]
    error: NotRequired[str]


class TransferPlanJson(PlannedStep):
    """The action of an upload or download for one path; the last object has the totals.

    Attributes:
        action: new, changed, unchanged, excluded, deleted or failed; total in the last object,
            which alone has the field new and the fields after it.
        path: path of the object; for a file that cannot be uploaded or would be deleted, path of
            the file; null in the total.
        size: size in bytes.
        error: the reason of a failure.
        destination: for a download without -r, absolute path of the file.
        new: number of objects that the destination lacks.
        new_size: size of the new objects in bytes.
        changed: number of objects that would replace an object or file of the destination.
        changed_size: size of the changed objects in bytes.
        unchanged: number of objects that the destination has already.
        unchanged_size: size of the unchanged objects in bytes.
        excluded: number of objects left out by --include and --exclude.
        excluded_size: size of the excluded objects in bytes.
        deleted: with --delete, number of objects or files that would be deleted.
        deleted_size: size of the deleted objects or files in bytes.
        failed: number of objects that would fail.
        failures: the objects that would fail, with the reasons.
    """

    destination: NotRequired[Path]
    new: NotRequired[int]
    new_size: NotRequired[int]
    changed: NotRequired[int]
    changed_size: NotRequired[int]
    unchanged: NotRequired[int]
    unchanged_size: NotRequired[int]
    excluded: NotRequired[int]
    excluded_size: NotRequired[int]
    deleted: NotRequired[int]
    deleted_size: NotRequired[int]
    failed: NotRequired[int]
    failures: NotRequired[Sequence[FailureJson]]


def summary_lines(
    operation: str, *, downloaded: int = 0, uploaded: int = 0, removed: int = 0
) -> Iterator[str]:
    """Yield lakectl's summary of a recursive transfer."""
    yield ""
    yield f"{operation} Summary:"
    yield ""
    if not (downloaded or uploaded or removed):
        yield "No changes"
        return
    yield f"Downloaded: {downloaded}"
    yield f"Uploaded: {uploaded}"
    yield f"Removed: {removed}"
    yield ""


def sentence(context: Context, verb: str, count: int, size: int, **counts: int) -> str:
    """Return a sentence that sums up a transfer; on a terminal it replaces lakectl's summary.

    Args:
        verb: the past form, such as ``Uploaded``.
        count: the number of objects transferred.
        size: the total size in bytes of the transferred and the unchanged objects.
        counts: further numbers by name; zeros are left out.
    """
    seconds = (context.now() - context.began).total_seconds()
    is_speed = size and seconds and not counts.get("unchanged")
    speed = f" ({human_size(int(size / seconds))}/s)" if is_speed else ""
    done = ", ".join([f"{verb} {count:,} object{'s' * (count != 1)}", *_named(counts)])
    return f"{done}: {human_size(size)} in {seconds:.1f} s{speed}."


def _named(counts: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {name}" for name, count in counts.items() if count]


def answer_transfer(
    context: Context, verb: str, report: TransferReport, answer: type, *, hint: str, **given: object
) -> None:
    """Report the result of a recursive transfer.

    Args:
        verb: ``upload`` or ``download``.
        answer: the class of the JSON record.
        hint: the hint of the error if some objects failed; it says what became of the others.
        given: fields of the JSON record that the report lacks.

    Raises:
        PartialFailure: some objects failed.
    """
    done = f"{verb}ed"
    count: int = getattr(report, done)
    failures = failure_records(report.failures)
    counts = {"unchanged": report.unchanged, "excluded": report.excluded, "failed": len(failures)}

    def lines() -> Iterable[str]:
        if context.out.stdout_terminal:
            counted = {"removed": report.deleted, **counts}
            return [sentence(context, done.capitalize(), count, report.size, **counted)]
        return summary_lines(verb.capitalize(), removed=report.deleted, **{done: count})

    context.out.emit(
        lambda: pick(answer, report, failed=len(failures), failures=failures, **given), text=lines
    )
    note_left_out(context, report.left_out)
    # On a terminal `sentence` says it. The bytes alone would say nothing.
    if any(counts.values()) and not context.out.stdout_terminal:
        context.out.note(", ".join((human_size(report.size), *_named(counts))))
    raise_failures(context, report.failures, verb=verb, hint=hint)


@contextmanager
def shown_plan(
    context: Context, *, verb: str, hint: str, destination: Path | None = None
) -> Iterator[Listed]:
    """Show a dry run: each path as soon as the transfer reports it, then the totals.

    Args:
        verb: the action, for messages about failures.
        hint: the hint of the error if some objects would fail; it says what becomes of the others.
        destination: for a single file, its path, which the JSON record contains.

    Yields:
        The function to call with each step of the dry run.

    Raises:
        PartialFailure: some objects would fail.
    """
    from lakecli.repository.transfer.plan import PlanTotals

    plan = PlanTotals()
    yield listed_in(context, plan, {} if destination is None else {"destination": destination})
    context.out.emit(lambda: _plan_record(plan), text=lambda: _plan_lines(plan))
    raise_failures(context, plan.failures, verb=verb, hint=hint)


def listed_in(context: Context, plan: PlanTotals, more: Mapping[str, object] = {}) -> Listed:
    """Return the function that prints and counts each step of a dry run.

    Args:
        plan: the totals, to which each step is added.
        more: further fields of each JSON record.
    """
    put = context.out.lister(record=lambda step: {**step_record(step), **more}, text=step_line)

    def listed(step: PathStep) -> None:
        plan.count(step)
        put(step)

    return listed


def show_steps(context: Context, steps: Iterable[PathStep]) -> None:
    """Write the steps of a dry run, one for each path, as text or JSON."""
    context.out.stream(steps, record=step_record, text=step_line)


def step_record(step: PathStep) -> dict[str, object]:
    """Return the JSON record of one step of a dry run."""
    record: dict[str, object] = {"action": step.action, "path": step.path, "size": step.size}
    return record | {"error": step.error} if step.error else record


def step_line(step: PathStep) -> str:
    """Return the line about one step of a dry run."""
    line = f"{step.action} {quote_path(step.path)}"
    return f"{line}: {step.error}" if step.error else line


def _plan_lines(plan: PlanTotals) -> Iterator[str]:
    yield ""
    yield "Dry run, nothing was transferred:"
    yield ""
    for name, tally in plan.tallies.items():
        if name == "deleted" and not tally.count:
            continue  # only --delete deletes
        yield f"{name.capitalize()}: {tally.count} ({human_size(tally.size)})"
    yield f"Failing: {len(plan.failures)}"


def _plan_record(plan: PlanTotals) -> dict[str, object]:
    record: dict[str, object] = {"action": "total", "path": None}
    for name, tally in plan.tallies.items():
        record[name] = tally.count
        record[f"{name}_size"] = tally.size
    return record | {"failed": len(plan.failures), "failures": failure_records(plan.failures)}


def note_left_out(context: Context, paths: Sequence[bytes]) -> None:
    """Print a note with the paths that were left out because they contain reserved names."""
    if not paths:
        return
    more = f" and {len(paths) - 3:,} more" if paths[3:] else ""
    context.out.note(f"left out: {', '.join(map(quote_path, paths[:3]))}{more}: {LEFT_OUT}")


def failure_records(failures: Failures) -> list[dict[str, object]]:
    """Return the JSON records of failures."""
    return [{"path": path, "error": why} for path, why in failures]


def raise_failures(
    context: Context, failures: Failures, *, verb: str, hint: str, count: int | None = None
) -> None:
    """Print failures, one line each, and raise an error; do nothing if there are none.

    Args:
        failures: the failures to list; if there are too many, only the first ones.
        hint: the hint of the error.
        count: the number of all failures, if `failures` has only the first ones.

    Raises:
        PartialFailure: there are failures.
    """
    if not failures:
        return
    paths = [path for path, _ in failures]
    if not context.out.json:
        for path, why in failures:
            context.out.warn(f"cannot {verb} {quote_path(path)}: {why}")
        paths = []
    count = len(failures) if count is None else count
    what = "object" if count == 1 else "objects"
    raise PartialFailure(f"{count} {what} failed to {verb}", hint=hint, paths=paths)
