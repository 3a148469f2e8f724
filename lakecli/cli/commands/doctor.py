"""``lakecli doctor``: check a storage namespace, or a repository on this machine."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import Final, TypedDict

from lakecli.base.uri import SCHEME, LakeUri, NotUri
from lakecli.cli.context import Context
from lakecli.cli.hints import as_commands
from lakecli.cli.line import Kind, argument, flag
from lakecli.cli.out.output import Output
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import one_line
from lakecli.cli.parsers import read_repository
from lakecli.doctor.checks import Check, CheckVerdict
from lakecli.repository import doctor as library
from lakecli.repository.handle.shareable import Examiner
from lakecli.stores.uri import normalise

_GROUPS: Final = {
    "machine": "compiled-core local-store map cache disk-space",
    "objects": "list write read overwrite read-after-write list-after-write ranges names",
    "conditions": "create-only compare-and-set race",
    "features": "multipart checksums presign cors clock delete-matching delete",
    "repository": "claim shared sharing",
    "commands": "to-read to-clone to-presign to-change to-take-in to-push to-collect",
}
"""Groups of checks, in order. On a terminal, checks of a group share a line if all passed."""

_STYLES: Final = {"ok": "green", "warning": "yellow", "failed": "bright red", "skipped": "dim"}
_QUIET: Final = (CheckVerdict.OK, CheckVerdict.SKIPPED)


class ExaminationJson(TypedDict):
    """The result of all checks of the doctor.

    Attributes:
        target: the repository, or the normalised URI of the storage namespace.
        storage_namespace: URI of the storage namespace; null if the local store cannot be opened.
        verdict: the worst verdict of all checks: ok, warning or failed.
        checks: the results of the checks, in the order in which the checks ran.
    """

    target: str
    storage_namespace: str | None
    verdict: str
    checks: Sequence[Check]


def read_target(text: str, context: Context) -> LakeUri | str:
    """Parse a repository's URI, or return a storage namespace in its normal form."""
    is_namespace = text.startswith("/") or ("://" in text and not text.startswith(SCHEME))
    if not is_namespace and (text.startswith(SCHEME) or context.base_uri):
        return read_repository(text, context)

    if "/" not in text:
        raise NotUri(text, hint="a storage namespace is a URI or an absolute path")
    return normalise(text)


@answers(ExaminationJson)
def doctor(
    context: Context,
    target: LakeUri | str = argument("TARGET", read=read_target, kind=Kind.REPOSITORY),
    *,
    again: bool = flag("--again"),
) -> None:
    """Check a storage namespace, or a repository on this machine.

    The checks cover credentials (their source is shown, never a secret); listing, reading, writing,
    overwriting, deleting and multipart uploads, each by a trial; create-only and compare-and-set
    writes, also by several writers at once; deletions of one version; consistency after a write;
    range reads; object names that some stores confuse; checksums; a presigned URL and the CORS rule
    that web pages need; and the difference between the clocks of the store and of this machine. For
    a repository they also cover the compiled core, the local store, its cache, free disk space,
    which repository or lakeFS the namespace belongs to, and whether the refs, commits and the state
    of garbage collection in it can be read. The result includes whether several machines may write
    to the namespace, and which groups of commands will work.

    A store whose conditional writes are unsafe lets two writers win only sometimes. So 66
    create-only races and 66 compare-and-set races of eight writers are run, for a minute at most: a
    store that fails one race in ten is detected with a probability of 99.9 %. In a namespace with a
    repository, the result is recorded, with date and user, in _lakecli/sharing.json: every clone
    relies on it, and later runs need only 12 races of each kind. After a failure, push is refused,
    even if earlier or later runs passed. Only --again ends this, once the store has been repaired
    or replaced and passes the whole test; the record names the user who did that.

    All test objects are written below _lakecli/doctor-ID/ in the namespace and removed at the end,
    also after an interruption. Nothing else is changed. (A bucket with versioning keeps them as old
    versions.) The checks of the store send at most 1,344 requests with 17 MiB (318 with 3 MiB if a
    result is recorded), and end after two minutes or when the store stops responding.

    Each check is ok, a warning, failed, or skipped with a reason. Each problem is followed by its
    fix. On a terminal, checks without a problem share a line; --verbose gives each its own.

    The exit code is 0 if nothing failed. Otherwise it is that of the most serious failure: 10 for
    an unreachable store or a full disk, else 6 for a missing bucket or directory, 9 for
    credentials, permissions or clocks, 8 for wrong bytes, 7 for an operation that the store does
    not support.

    Args:
        target: lakefs://REPOSITORY, or the URI or path of a storage namespace.
        again: Repeat the whole test of conditional writes; a pass clears a failure.

    Examples:
        lakecli doctor lakefs://demo
        lakecli doctor s3://my-bucket/demo
        lakecli doctor /var/lake/demo --json
        lakecli doctor lakefs://demo --again
    """
    for line in context.ignored_of_lakectl():
        context.out.note(line)
    examiner = Examiner(context.runtime.now, context.committer(), again)
    examination = _examine(context, target, examiner)
    if examination.namespace is not None:
        context.out.say(f"Storage namespace: {one_line(examination.namespace)}")
    found: list[Check] = []
    fixes: set[str] = set()
    is_short = context.out.stdout_terminal and not context.verbose
    uri = str(target) if isinstance(target, LakeUri) else None
    with closing(examination.checks) as checks:
        for name, group in groupby(checks, key=_group if is_short else attrgetter("name")):
            members = [check._replace(fix=as_commands(check.fix, uri)) for check in group]
            found += members
            wrong = [check for check in members if check.verdict not in _QUIET]
            if not is_short or len(members) == 1:
                wrong = members
            for check in wrong:
                context.out.say(*_lines(context.out, check, fixes if is_short else set()))
            for verdict in _QUIET:
                quiet = [each for each in members if each.verdict == verdict and each not in wrong]
                if quiet:
                    names = ", ".join(each.name for each in quiet)
                    context.out.say(_line(context.out, verdict, name, names))
    context.out.emit(
        {
            "target": str(target),
            "storage_namespace": examination.namespace,
            "verdict": library.verdict_of(found),
            "checks": found,
        },
        text=lambda: [_summary(found)],
    )
    problem = library.problem_of(found)
    if problem is not None:
        problem.hint = None if is_short else problem.hint  # its fix was shown
        raise problem


def _examine(context: Context, target: LakeUri | str, examiner: Examiner) -> library.Examination:
    if isinstance(target, str):
        return library.examine_namespace(target, context.runtime, examiner)
    home, runtime = context.lake_home(), context.runtime
    return library.examine_repository(target.repository, context.lake, home, runtime, examiner)


def _group(check: Check) -> str:
    return next(
        (name for name, checks in _GROUPS.items() if check.name in checks.split()), check.name
    )


def _lines(out: Output, check: Check, shown: set[str]) -> Iterator[str]:
    """Yield the line of a check, and its fix unless it was shown already.

    Args:
        shown: the fixes that were shown already.
    """
    yield _line(out, check.verdict, check.name, one_line(check.seen))
    if check.fix and check.fix not in shown:
        shown.add(check.fix)
        yield f"         {'':<{library.WIDTH}}  fix: {one_line(check.fix)}"


def _line(out: Output, verdict: CheckVerdict, name: str, seen: str) -> str:
    return f"{out.style(f'{verdict:<7}', _STYLES[verdict])}  {name:<{library.WIDTH}}  {seen}"


def _summary(checks: Iterable[Check]) -> str:
    counts = Counter(str(check.verdict) for check in checks)
    parts = [f"{counts[verdict]} {verdict}" for verdict in _STYLES if counts[verdict]]
    return f"{counts.total()} checks: {', '.join(parts)}"
