"""Uploads of several files, of named ones, or of a directory; and what a dry run says of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lakecli.base.uri import LakeUri, ref_of
from lakecli.cli.answers import pick
from lakecli.cli.answers.objects import Upload
from lakecli.cli.context import Context
from lakecli.cli.text import quote_path
from lakecli.cli.transfers import (
    failure_records,
    note_left_out,
    note_rest,
    raise_failures,
    summary_lines,
)
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.plan import PathStep
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import UploadReport, plan_file, plan_upload, upload_tree


class Uploads(NamedTuple):
    """An upload of a directory, of named files below one, or of several files."""

    repository: Repository
    target: LakeUri
    sources: list[str]
    options: UploadOptions
    names: list[bytes] | None
    delete: bool
    max_delete: int | None

    def plan(self) -> Iterator[PathStep]:
        """Return what would be done."""
        return plan_upload(
            *self._where(),
            source=self._files(),
            options=self.options,
            names=self.names,
            delete=self.delete,
        )

    def plan_one(self, path: bytes) -> Iterator[PathStep]:
        """Return what would be done with the only file, which gets a path."""
        source, branch = Path(self.sources[0]), ref_of(self.target)
        return plan_file(self.repository, branch, path, source=source, options=self.options)

    def upload(self, context: Context) -> UploadReport:
        """Upload; if that ends early, note what is staged."""
        report = UploadReport()
        try:
            return upload_tree(
                *self._where(),
                source=self._files(),
                options=self.options,
                names=self.names,
                delete=self.delete,
                max_delete=self.max_delete,
                report=report,
            )
        except BaseException:
            if report.uploaded or report.unchanged:
                done = report.uploaded + report.unchanged
                context.out.note(f"{done} objects are staged; run the same command to continue")
            raise

    def _where(self) -> tuple[Repository, str, bytes]:
        return self.repository, ref_of(self.target), self.target.path or b""

    def _files(self) -> Path | list[Path]:
        """Return the directory, or several files."""
        return list(map(Path, self.sources)) if len(self.sources) > 1 else Path(self.sources[0])


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

    def record() -> Upload:

        return pick(Upload, report, failed=len(failures), failures=failures)

    context.out.emit(
        record,
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
