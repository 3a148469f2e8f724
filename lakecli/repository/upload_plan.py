"""What a recursive upload would do, told from what is on this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakecli.committed.encode import encode_entry
from lakecli.repository.core.walk import size_of, walk
from lakecli.repository.transfer.ingest import SpecialFile
from lakecli.repository.transfer.readers import FileChanged
from lakecli.repository.transfer.selection import Plan
from lakecli.repository.upload import (
    TreeUpload,
    UploadReport,
    check_tree,
    expected_of,
    is_same,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.walk import Found
    from lakecli.repository.upload import UploadOptions


class _TreePlan(TreeUpload):
    """The same without writing anything: what a recursive upload would do."""

    def __init__(
        self, repository: Repository, branch: str, prefix: bytes, options: UploadOptions
    ) -> None:
        super().__init__(repository, branch, prefix, options, UploadReport(), writes=False)
        self._plan = Plan(failures=self._report.failures)

    def plan(self, found: Iterator[Found]) -> Plan:
        self._upload.workers.for_each(self._with_present(found), self._one)
        self._plan.failures.sort()
        return self._plan

    def _exclude(self, found: Found) -> None:
        self._plan.excluded.add(size_of(found))

    def _one(self, item: tuple[Found, bytes | None, int]) -> None:
        found, present, size = item
        try:
            is_there = present is not None and self._is_same(found, size, present)
        except OSError as error:
            self._fail(found, (error.strerror or str(error)).lower())
            return
        except (SpecialFile, FileChanged) as error:
            self._fail(found, error.message)
            return
        self._options.progress.advance(items=1)
        with self._lock:
            if present is None:
                self._plan.new.add(size)
            else:
                (self._plan.unchanged if is_there else self._plan.changed).add(size)

    def _is_same(self, found: Found, size: int, present: bytes) -> bool:
        expected = expected_of(present)
        if expected is None or expected[1] != size:
            return False
        looked = self._upload.ingest.look(found.path)
        entry = self._upload.entry(
            self._prefix + found.relative, looked, at=self._now(), has_mtime=True
        )
        return is_same(present, encode_entry(entry))


def plan_upload(
    repository: Repository, branch: str, prefix: bytes, *, source: Path, options: UploadOptions
) -> Plan:
    """Tell what `upload_tree` would do, from what is on this machine; nothing is written.

    Files of the size that the branch has at their path are read, to compare them.

    Raises:
        NotFound: no such directory or branch.
        Refused: the storage namespace lies below the directory.
    """
    prefix = check_tree(repository, branch, prefix, source)
    return _TreePlan(repository, branch, prefix, options).plan(
        walk(os.fsencode(source), options.links)
    )
