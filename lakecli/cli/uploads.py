"""What is said about uploads of several files, of named ones, or of a directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakecli.base.uri import LakeUri
from lakecli.cli.context import Context
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.objects import Upload
from lakecli.cli.out.text import quote_path
from lakecli.cli.transfers import (
    failure_records,
    note_left_out,
    note_rest,
    raise_failures,
    summary_lines,
)
from lakecli.repository.upload_tree import UploadReport


@contextmanager
def telling_what_is_staged(context: Context) -> Iterator[UploadReport]:
    """Give a report to fill; if the upload ends early, note what is staged."""
    report = UploadReport()
    try:
        yield report
    except BaseException:
        if report.uploaded or report.unchanged:
            done = report.uploaded + report.unchanged
            context.out.note(f"{done} objects are staged; run the same command to continue")
        raise


def tell_directory(context: Context, source: str, target: LakeUri) -> None:
    """Print the line that lakectl prints before it compares a directory."""
    directory = source if source.endswith("/") else f"{source}/"
    context.out.say(
        "", f"diff 'local://{quote_path(directory)}' <--> '{quote_path(str(target))}'..."
    )


def answer(context: Context, report: UploadReport) -> None:
    """Answer with what was uploaded.

    Raises:
        PartialFailure: some files failed.
    """
    failures = failure_records(report.failures)

    context.out.emit(
        lambda: pick(Upload, report, failed=len(failures), failures=failures),
        text=lambda: summary_lines("Upload", uploaded=report.uploaded, removed=report.deleted),
    )
    note_left_out(context, report.left_out)
    note_rest(
        context,
        report.size,
        unchanged=report.unchanged,
        excluded=report.excluded,
        failed=len(failures),
    )
    raise_failures(
        context,
        report.failures,
        verb="upload",
        hint="the others are staged; fix these and repeat the upload, or see --follow and --skip",
    )
