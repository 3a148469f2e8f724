"""``lakecli doctor``."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lakecli.cli.context import Context
from lakecli.cli.params import Completion, Kind, Parser, read_repository
from lakecli.cli.text import one_line
from lakecli.uri import SCHEME, LakeUri

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakecli.cli.output import Output
    from lakecli.objectstore.probe.check import Check
    from lakecli.repository.check.doctor import Examination

_STYLES: Final = {"ok": "green", "warning": "yellow", "failed": "bright red", "skipped": "dim"}


def read_target(text: str, context: Context) -> LakeUri | str:
    """Read a repository's URI, or a storage namespace into its one spelling."""
    is_namespace = text.startswith("/") or ("://" in text and not text.startswith(SCHEME))
    if not is_namespace and (text.startswith(SCHEME) or context.base_uri):
        return read_repository(text, context)
    from lakecli.objectstore.uri import normalise

    return normalise(text)


def doctor(
    context: Context,
    target: Annotated[
        LakeUri | str,
        typer.Argument(
            metavar="TARGET", help="lakefs://REPOSITORY, or a storage namespace of any kind"
        ),
        Parser(read_target),
        Completion(Kind.REPOSITORY),
    ],
) -> None:
    """Check a storage namespace by trying it out, and what a repository has on this machine.

    Looked at are the credentials in use (where they come from, never a secret); listing, reading,
    writing, writing over, deleting and sending in parts, each by doing it; create-only writes and
    compare-and-set, also with several writers racing; whether a write is seen at once; parts of
    objects; checksums; a signed URL; and how far the store's clock is from this machine's. Of a
    repository also the local store, its cache, free disk space, whose the namespace is, and
    whether what clones share there can be read. From all that follows whether several machines
    may write there, and for each group of commands what it needs and whether it has that.

    Everything is written under _lakecli/doctor-ID/ in the namespace, and removed in the end, also
    after an interruption; nothing else is touched. (A bucket that keeps old versions keeps a few
    dozen of some bytes.) A run sends at most 150 requests, and gives up after two minutes or once
    the store has stopped answering.

    Every check is ok, a warning, failed, or skipped, with the reason; below what is not well
    stands what to do about it. The exit code is 0 where nothing failed. Otherwise it is that of
    the most serious failure: 10 where the store cannot be reached or a disk is full, else 6 for a
    missing bucket or directory, 9 for credentials, permissions or the clock, 8 for wrong bytes, 7
    for what the store cannot do.

    Examples:
        lakecli doctor lakefs://demo
        lakecli doctor s3://my-bucket/demo
        lakecli doctor /var/lake/demo --json
    """
    from lakecli.repository.check.doctor import problem_of, verdict_of

    examination = _examine(context, target)
    if examination.namespace is not None:
        context.out.say(f"Storage namespace: {one_line(examination.namespace)}")
    found: list[Check] = []
    with closing(examination.checks) as checks:
        for check in checks:
            found.append(check)
            context.out.say(*_lines(context.out, check))
    context.out.emit(
        {
            "target": str(target),
            "storage_namespace": examination.namespace,
            "verdict": verdict_of(found),
            "checks": [_record(check) for check in found],
        },
        text=lambda: [_summary(found)],
    )
    problem = problem_of(found)
    if problem is not None:
        raise problem


def _examine(context: Context, target: LakeUri | str) -> Examination:
    from lakecli.objectstore.probe.run import Instruments
    from lakecli.repository.check import doctor as library
    from lakecli.repository.core.lake import Home

    instruments = Instruments(context.now, context.new_id)
    if isinstance(target, str):
        return library.examine_namespace(target, instruments, free_space=_free_space)
    home = Home(context.home.store, context.home.cache, context.settings.cache_size)
    return library.examine_repository(
        target.repository, context.lake, home, instruments, free_space=_free_space
    )


def _free_space(directory: str) -> int:
    from shutil import disk_usage

    return disk_usage(directory).free


def _lines(out: Output, check: Check) -> Iterator[str]:
    from lakecli.repository.check.doctor import WIDTH

    mark = out.style(f"{check.verdict:<7}", _STYLES[check.verdict])
    yield f"{mark}  {check.name:<{WIDTH}}  {one_line(check.seen)}"
    if check.fix:
        yield f"         {'':<{WIDTH}}  fix: {one_line(check.fix)}"


def _summary(checks: Iterable[Check]) -> str:
    counts = Counter(str(check.verdict) for check in checks)
    parts = [f"{counts[verdict]} {verdict}" for verdict in _STYLES if counts[verdict]]
    return f"{counts.total()} checks: {', '.join(parts)}"


def _record(check: Check) -> dict[str, object]:
    return {
        "name": check.name,
        "verdict": check.verdict,
        "seen": check.seen,
        "fix": check.fix or None,
        "kind": check.kind,
        "details": dict(check.details),
    }
