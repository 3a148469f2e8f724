"""What uploads and downloads share on the command line: parallelism, progress, summaries."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lakecli.cli.text import human_size, quote_path
from lakecli.errors import PartialFailure, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakecli.cli.context import Context
    from lakecli.cli.params import LinkOptions, SelectionOptions
    from lakecli.progress import Progress
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.walk import LinkPolicy
    from lakecli.repository.transfer.selection import Plan, Selection, Tally

PreSign = Annotated[
    bool,
    typer.Option(
        "--pre-sign",
        hidden=True,
        help="Accepted for lakectl compatibility; has no effect",
    ),
]


def parallelism(context: Context, repository: Repository, asked: int | None) -> int:
    """Return how many objects to move at a time: as asked, else as set and as the store can use."""
    if asked is not None:
        return asked
    from lakecli.objectstore.uri import is_local
    from lakecli.repository.transfer.parallel import LOCAL_WORKERS

    configured = context.settings.transfer_parallelism
    if is_local(repository.record.storage_namespace):
        return min(configured, LOCAL_WORKERS)
    return configured


@contextmanager
def progress(context: Context, verb: str, *, hidden: bool) -> Iterator[Progress]:
    """Show how far a transfer is, unless that is not wanted."""
    from lakecli.progress import NO_PROGRESS

    with nullcontext(NO_PROGRESS) if hidden else context.out.progress(verb) as shown:
        yield shown


def summary_lines(operation: str, counts: dict[str, int], size: int) -> Iterator[str]:
    """Yield the end of a recursive transfer: ``Upload Summary:`` and what became of how many."""
    yield f"{operation} Summary:"
    yield ""
    yield from (f"{name}: {count}" for name, count in counts.items())
    yield f"Size: {human_size(size)}"


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield what a recursive transfer would do."""
    yield "Dry run, nothing was transferred:"
    yield ""
    for name, tally in _tallies(plan).items():
        yield f"{name.capitalize()}: {tally.count} ({human_size(tally.size)})"
    yield f"Failing: {len(plan.failures)}"


def plan_record(plan: Plan) -> dict[str, object]:
    """Return the same as JSON shows it."""
    record: dict[str, object] = {}
    for name, tally in _tallies(plan).items():
        record[name] = tally.count
        record[f"{name}_size"] = tally.size
    return record | {"failed": len(plan.failures), "failures": failure_records(plan.failures)}


def _tallies(plan: Plan) -> dict[str, Tally]:
    return {
        "new": plan.new,
        "changed": plan.changed,
        "unchanged": plan.unchanged,
        "excluded": plan.excluded,
    }


def selection(options: SelectionOptions, *, recursive: bool) -> Selection:
    """Return the selection of ``--include`` and ``--exclude``.

    Raises:
        UsageError: a pattern that matches nothing, or options for many objects without ``-r``.
    """
    from lakecli.repository.transfer.selection import EVERYTHING, Selection

    check_dry_run(options.dry_run, recursive=recursive)
    if not options.include and not options.exclude:
        return EVERYTHING
    if not recursive:
        raise UsageError("--include and --exclude need -r", hint="add -r")
    return Selection(options.include, options.exclude)


def link_policy(options: LinkOptions) -> LinkPolicy:
    """Return the policy of ``--follow`` and ``--skip``.

    Raises:
        UsageError: both are given.
    """
    from lakecli.repository.core.walk import LinkPolicy

    if options.follow and options.skip:
        raise UsageError("--follow and --skip exclude each other", hint="give one of them")
    if options.follow:
        return LinkPolicy.FOLLOW
    return LinkPolicy.SKIP if options.skip else LinkPolicy.FAIL


def check_dry_run(dry_run: bool, *, recursive: bool) -> None:  # noqa: FBT001 - a flag, as given
    """Refuse a dry run of one object.

    Raises:
        UsageError: it is one.
    """
    if dry_run and not recursive:
        raise UsageError("--dry-run needs -r", hint="add -r")


def failure_records(failures: Sequence[tuple[bytes, str]]) -> list[dict[str, object]]:
    """Return what failed as JSON shows it."""
    return [{"path": path, "error": why} for path, why in failures]


def raise_failures(
    context: Context,
    failures: Sequence[tuple[bytes, str]],
    *,
    verb: str,
    hint: str,
    count: int | None = None,
) -> None:
    """Tell what failed, one line each, and fail; nothing happens where nothing did.

    Args:
        context: of the command.
        failures: to be told; the first ones, where there are too many.
        verb: what could not be done.
        hint: what helps.
        count: of all failures, if these are not all.

    Raises:
        PartialFailure: something failed.
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


_URI: Final = re.compile(
    r"(s3[an]?|gs|az|abfss?|wasbs?|https?|hdfs|lakefs|local|file):/+(?=[^/])", re.IGNORECASE
)


def check_local(path: str | os.PathLike[str], *, hint: str) -> None:
    """Refuse a URI where a file or directory of this machine is meant.

    As a path it would be a directory called ``s3:``.

    Raises:
        UsageError: it is one; the hint names the command that takes URIs.
    """
    text = os.fspath(path)
    if (found := _URI.match(text)) is not None:
        if found[1].lower() in {"local", "file"}:
            hint = "give the path without the scheme"
        raise UsageError(f"not a path on this machine: {text}", hint=hint)
