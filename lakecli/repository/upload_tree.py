"""Upload many files: all files of a directory, those that a list names, or single files.

Each file is compared with the entry that the branch has at its path. `upload_tree` writes new files
into the namespace in several threads, and stages them in chunks; in a dry run it only reports what
would be done. With `delete`, the objects without a file in the directory are removed with the last
files.
"""

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from shlex import quote
from threading import Lock
from typing import Final, NamedTuple

from lakecli.base.temporary_files import temporary_space
from lakecli.base.uri import as_directory, check_path
from lakecli.committed.values import decode_entry, is_same
from lakecli.errors import IntegrityError, LakeError, NotFound, Refused, Unreachable, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import check_branch, open_view
from lakecli.repository.staged.stager import is_to_stage, values_on
from lakecli.repository.transfer import walk
from lakecli.repository.transfer.destination import is_marker
from lakecli.repository.transfer.ignore_patterns import Selection, is_own
from lakecli.repository.transfer.ingest import SMALL, TINY, look
from lakecli.repository.transfer.parallel import FailureBudget, Workers
from lakecli.repository.transfer.plan import Listed, PathAction, PathStep, TransferReport
from lakecli.repository.transfer.walk import AscendingNames, FileChanged, FileOpener, WalkedFile
from lakecli.repository.upload import BroughtIn, Uploader, UploadOptions, expected_object, values_of
from lakecli.stores.contract import is_much_less
from lakecli.stores.uri import is_local, parse

_Records = Sequence[tuple[bytes, bytes]]
"""Paths and encoded entries."""

CHUNK: Final = 16_384
"""Number of files staged together in a local namespace; each chunk syncs the disk once."""

BUCKET_CHUNK: Final = 1_024
"""Number of files staged together in a bucket, where each object is durable immediately."""

CHUNK_BYTES: Final = 4 << 30
"""Bytes after which files are staged, even if their number is smaller than the limit."""

LOOK_AHEAD: Final = 1_024
"""Number of files whose entries on the branch are read together."""


@dataclass(slots=True)
class UploadReport(TransferReport):
    """The result of an upload of many files; `size` includes the unchanged objects.

    Attributes:
        uploaded: number of objects staged because they are new or changed.
    """

    uploaded: int = 0


def upload_tree(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    source: Path | Sequence[Path],
    options: UploadOptions,
    names: Sequence[bytes] | None = None,
    delete: bool = False,
    max_delete: int | None = None,
    listed: Listed | None = None,
) -> UploadReport:
    """Upload every file below a directory; report files that fail, and upload the rest.

    The path of an object consists of `prefix`, a slash unless the prefix is empty or ends in a
    slash, and the name of the file relative to `source`. With `delete`, other objects below the
    prefix are deleted in the same operation, together with the last files. If a file fails, nothing
    is deleted, because its object may be meant to stay. Objects that the selection leaves out stay,
    and so do objects that somebody else changes meanwhile, and markers of directories that exist.
    If the upload ends early, a notice says how many objects are staged.

    Args:
        repository: the repository.
        branch: the branch on which the objects are staged.
        prefix: the prefix of the paths.
        source: the directory; or several files, each of which is uploaded under its name. If such a
            file is a symbolic link, the link is followed, because the caller named it.
        options: how to upload.
        names: names of files relative to the directory; ``None`` for all.
        delete: delete the objects below the prefix that the directory lacks.
        max_delete: refuse to delete more objects than this.
        listed: if given, the call is a dry run: nothing is written, the report stays empty, and
            `listed` is called with each step that would be taken, in path order, deletions last.
            The branch is compared as this machine knows it. A file is read and compared if the
            branch has an object of the same size at its path. Reserved names are excluded.

    Raises:
        NotFound: no such directory or branch.
        Refused: the storage namespace is below the directory, and `names` does not exclude it; or
            too many objects would be deleted; or the directory has no file; or it has far fewer
            files than the branch, and a second walk finds other files. Nothing is staged.
        UsageError: two files have the same name.
    """
    target = _UploadTarget(repository, branch, as_directory(prefix), options)
    with _files(target, source, names, delete=delete) as files:
        if listed is not None:
            _list(target, files, listed)
            return UploadReport()
        count = len(files.surplus)
        if max_delete is not None and count > max_delete:
            raise Refused(
                f"{count:,} objects would be deleted, more than {max_delete:,}",
                hint="list them: `listed=LIST.append`",
            )
        return _StagedUpload(target, files).run()


def plan_file(
    repository: Repository,
    branch: str,
    path: bytes,
    *,
    source: Path,
    options: UploadOptions,
    listed: Listed,
) -> None:
    """Report what `upload_file` would do, as `upload_tree` does in a dry run.

    Raises:
        NotFound: the file or the branch does not exist.
    """
    check_path(path)
    check_branch(repository, branch)
    if not source.exists():
        raise NotFound(f"no such file: {source}")
    found = WalkedFile(os.path.realpath(os.fsencode(source)), path)
    target = _UploadTarget(repository, branch, b"", options)
    _list(target, _UploadFiles(iter([found])), listed)


class _UploadTarget(NamedTuple):
    """The destination and options of an upload; the prefix is empty or ends in a slash."""

    repository: Repository
    branch: str
    prefix: bytes
    options: UploadOptions


class _UploadFiles(NamedTuple):
    """The files that one command uploads.

    Attributes:
        found: the files, in byte order of their names.
        root: the directory of the files; ``None``: they are in several directories.
        surplus: the objects to delete, as found at the start.
        walked: with `delete`, all files of the directory.
    """

    found: Iterator[WalkedFile]
    root: bytes | None = None
    surplus: _Records = ()
    walked: "_WalkedFiles | None" = None

    def absent(self, below: bytes) -> _Records:
        """Return the objects of `surplus` that still have no file, to be deleted at the end."""
        return () if self.walked is None else self.walked.absent(self.surplus, below)


@contextmanager
def _files(
    target: _UploadTarget,
    source: Path | Sequence[Path],
    names: Sequence[bytes] | None,
    *,
    delete: bool,
) -> Iterator[_UploadFiles]:
    """Check source and branch, then yield the files; no file is read yet."""
    repository, branch, prefix, options = target
    if not isinstance(source, Path):
        check_branch(repository, branch)
        yield _UploadFiles(iter(walk.by_own_names(source)))
        return
    if not source.is_dir():
        raise NotFound(f"no such directory: {source}")
    check_branch(repository, branch)
    _check_outside(repository, source, names)
    root = os.fsencode(source)
    if not delete:
        yield _UploadFiles(files_of(source, names, options), root)
        return
    with closing(_WalkedFiles(source, options)) as walked:
        surplus = _surplus(repository, branch, prefix, walked)
        yield _UploadFiles(iter(walked), root, surplus, walked)


def _check_outside(repository: Repository, source: Path, names: Sequence[bytes] | None) -> None:
    """Raise `Refused` if the files to upload are in the repository's own storage namespace."""
    namespace = parse(repository.record.storage_namespace)
    if namespace.bucket:
        return
    root, place = os.path.realpath(source), os.path.realpath(namespace.path)
    if os.path.commonpath([root, place]) != root:
        return
    below = os.fsencode(os.path.relpath(place, root)) + b"/"
    if names is None or place == root or any(name.startswith(below) for name in names):
        raise Refused(
            f"the storage namespace {namespace} lies in {source}, which would be uploaded into it",
            hint="upload another directory",
        )


def files_of(
    source: Path, names: Sequence[bytes] | None, options: UploadOptions
) -> Iterator[WalkedFile]:
    """Yield all files below a directory, or only those with the given names."""
    root = os.fsencode(source)
    return (
        walk.walk(root, options.links) if names is None else walk.named(root, names, options.links)
    )


class _Item(NamedTuple):
    """A file that was found, and the entry that the branch has at its path.

    Attributes:
        present: the encoded entry that the branch has at its path.
        size: the size of the file in bytes.
        refusal: the step that reports why the file is not uploaded; ``None`` if it is uploaded.
        content: the contents of the file, if it was read together with others.
    """

    found: WalkedFile
    present: bytes | None
    size: int
    refusal: PathStep | None
    content: walk.SmallFile | None = None


def _items(
    target: _UploadTarget, found: Iterator[WalkedFile], opener: FileOpener | None = None
) -> Iterator[_Item]:
    """Yield files, each with the branch's entry at its path, or with a reason to leave it out.

    Args:
        opener: if given, reads tiny files that are new on the branch.
    """
    repository, branch, prefix, options = target
    while batch := list(islice(found, LOOK_AHEAD)):
        refusals = [_refusal(each, prefix, options.selection) for each in batch]
        taken = [each for each, refusal in zip(batch, refusals, strict=True) if refusal is None]
        present = values_on(repository, branch, [prefix + each.relative for each in taken])
        new = [each for each, value in zip(taken, present, strict=True) if value is None]
        read = {} if opener is None else dict(zip(new, opener.read_small(new, TINY), strict=True))
        contents = list(map(read.get, taken))
        sizes = [
            walk.size_of(each) if content is None else len(content[0])
            for each, content in zip(taken, contents, strict=True)
        ]
        options.progress.expect(items=len(taken), size=sum(sizes))
        known = zip(present, sizes, contents, strict=True)
        for each, refusal in zip(batch, refusals, strict=True):
            value, size, content = next(known) if refusal is None else (None, 0, None)
            yield _Item(each, value, size, refusal, content)


def _refusal(found: WalkedFile, prefix: bytes, selection: Selection) -> PathStep | None:
    path = prefix + found.relative
    if is_own(found.relative):
        return PathStep(PathAction.EXCLUDED, path)
    if not selection.takes(found.relative):
        return PathStep(PathAction.EXCLUDED, path, walk.size_of(found))
    problem = found.problem
    if problem is None:
        try:
            check_path(path)
        except UsageError as error:
            problem = error.message
    return None if problem is None else PathStep(PathAction.FAILED, found.path, error=problem)


_OF_ONE_FILE: Final = (OSError, walk.SpecialFile, FileChanged, IntegrityError, Unreachable)
"""Errors that concern one file, unless the store cannot be reached at all."""


def _reason(error: OSError | LakeError) -> str:
    return error.message if isinstance(error, LakeError) else (error.strerror or str(error)).lower()


class _StagedUpload:
    """An upload in which several threads write files; the files are staged in chunks."""

    def __init__(self, target: _UploadTarget, files: _UploadFiles) -> None:
        self._repository, self._branch, self._prefix, self._options = target
        self._upload = Uploader(self._repository, self._branch, self._options)
        self._workers = self._upload.ingest.workers
        self._opener = FileOpener(files.root, self._options.links)
        self._files = files
        self._is_local = is_local(self._repository.store.uri)
        self._items = _items(target, files.found, self._opener if self._is_local else None)
        self._budget = FailureBudget()
        self._chunk = CHUNK if self._is_local else BUCKET_CHUNK
        self._report = UploadReport()
        self._lock = Lock()
        self._staging = Lock()
        self._pending: list[BroughtIn] = []
        self._pending_bytes = 0

    def run(self) -> UploadReport:
        """Upload the files, and return the report."""
        report, items = self._report, self._taken()
        try:
            if self._is_local:
                self._small_first(items)
            else:
                self._workers.for_each(items, self._one)
            surplus = () if report.failures else self._files.absent(self._prefix)
            self._stage_pending(surplus)
            self._upload.finish()
        except BaseException:
            # Stage what arrived, so that the repeated command does not send it again.
            with suppress(LakeError):
                self._stage_pending()
            if staged := report.uploaded + report.unchanged:
                self._repository.notify(
                    f"{staged} objects are staged", hint="run the same command to continue"
                )
            raise
        report.failures.sort()
        return report

    def _taken(self) -> Iterator[_Item]:
        """Yield the files that are to be uploaded; record all other files in the report."""
        for item in self._items:
            found, refusal = item.found, item.refusal
            if refusal is None:
                yield item
            elif refusal.action is PathAction.FAILED:
                self._report.failures.append((found.path, refusal.error))
            elif is_own(found.relative):
                self._report.left_out.append(found.relative)
            else:
                self._report.excluded += 1

    def _small_first(self, items: Iterator[_Item]) -> None:
        """Write the small files of each batch in this thread, then its large files in several.

        In a local namespace, threads with small files wait for the interpreter and for the
        directory in which all of them create files, so one thread is as fast as several.
        """
        while batch := list(islice(items, LOOK_AHEAD)):
            self._together([item for item in batch if item.size <= SMALL])
            if large := [item for item in batch if item.size > SMALL]:
                self._workers.for_each(large, self._one)

    def _together(self, items: Sequence[_Item]) -> None:
        """Write all files whose contents were read already at once, then the rest one by one."""
        read = [item for item in items if item.content is not None]
        ingested = self._upload.ingest.together([item.content for item in read if item.content])
        brought = {
            item.found: BroughtIn(self._prefix + item.found.relative, each, None)
            for item, each in zip(read, ingested, strict=True)
            if each is not None
        }
        self._add([*brought.values()])
        for item in items:  # count failures in a row as if the files were written one by one
            if item.found in brought:
                self._budget.succeeded()
            else:
                self._one(item)

    def _one(self, item: _Item) -> None:
        """Write one file into the namespace; record an error that concerns only this file.

        Raises:
            LakeError: the error concerns all files.
        """
        found, present = item[:2]
        try:
            with self._opener.open(found.path) as file:
                brought = self._upload.file(file, self._prefix + found.relative, present)
        except _OF_ONE_FILE as error:
            self._report.failures.append((found.path, _reason(error)))
            if self._budget.failed(error):
                raise
            return
        self._budget.succeeded()
        self._add([brought])

    def _add(self, brought: list[BroughtIn]) -> None:
        """Add written files to the pending files; stage all pending files if there are enough."""
        size = sum(each.ingested.size for each in brought)
        self._options.progress.advance(items=len(brought))
        with self._lock:
            self._pending += brought
            self._pending_bytes += size
            is_full = len(self._pending) >= self._chunk or self._pending_bytes >= CHUNK_BYTES
        if is_full:
            self._stage_pending()

    def _stage_pending(self, surplus: Sequence[tuple[bytes, bytes]] = ()) -> None:
        with self._staging:
            with self._lock:
                pending, self._pending = self._pending, []
                self._pending_bytes = 0
            if not pending and not surplus:
                return
            changes: list[tuple[bytes, bytes]] = []

            def encode() -> None:
                at = self._repository.lake.runtime.now()
                values = values_of(pending, self._options, at=at)
                changes.extend(
                    (each.path, value)
                    for each, value in zip(pending, values, strict=True)
                    if each.present is None or is_to_stage(self._branch, each.present, value)
                )

            # An object that is uploaded again must not be collected, even if the branch has it.
            works: list[Callable[[], None]] = [partial(self._upload.flush, pending), encode]
            Workers(2).for_each(works, lambda work: work())  # encodes while the disk writes
            self._report.deleted += self._upload.stage(changes, surplus)
            self._report.uploaded += len(changes)
            self._report.unchanged += len(pending) - len(changes)
            self._report.size += sum(each.ingested.size for each in pending)


def _list(target: _UploadTarget, files: _UploadFiles, listed: Listed) -> None:
    """Report what an upload would do, a batch of files at a time; nothing is written."""
    repository, _, prefix, options = target
    options.check(repository.lake.runtime.now())
    workers = Workers(options.parallelism)
    opener = FileOpener(files.root, options.links)
    steps: list[tuple[bytes, PathStep]] = []

    def compare(item: _Item) -> PathStep:
        """Compare a file with the branch's object; read the file only if the sizes are equal."""
        found, present, size = item[:3]
        path = prefix + found.relative
        action = PathAction.NEW if present is None else PathAction.CHANGED
        expected = expected_object(repository, present, size, options)
        if expected is not None and expected.size == size:
            try:
                with opener.open(found.path) as file:
                    seen = look(
                        file,
                        expected=expected,
                        lake=repository.lake,
                        progress=options.progress,
                        workers=workers,
                    )
            except _OF_ONE_FILE as error:
                return PathStep(PathAction.FAILED, found.path, error=_reason(error))
            at = repository.lake.runtime.now()
            brought = BroughtIn(path, seen, present)
            if is_same(present, brought.value(options, at=at, has_mtime=True)):
                action = PathAction.UNCHANGED
        options.progress.advance(items=1)
        return PathStep(action, path, size)

    def add(item: _Item) -> None:
        steps.append((item.found.relative, item.refusal or compare(item)))

    items, failed = _items(target, files.found), False
    while batch := list(islice(items, LOOK_AHEAD)):
        workers.for_each(batch, add)
        for _, step in sorted(steps):
            failed = failed or step.action is PathAction.FAILED
            listed(step)
        steps.clear()
    for path, value in () if failed else files.surplus:
        listed(PathStep(PathAction.DELETED, path, decode_entry(value).size))


class _WalkedFiles:
    """The files of a directory, as one walk finds them; used for uploads and for deletions.

    Their names are in a temporary file, because there may be millions; `close` deletes the file.
    """

    def __init__(self, source: Path, options: UploadOptions) -> None:
        self.source = source
        from tempfile import TemporaryFile  # most uploads delete nothing

        self._options = options
        self.takes = options.selection.takes
        self._file = TemporaryFile("w+", encoding="ascii")  # noqa: SIM115 - closed by `close`
        try:
            for path, relative, problem in files_of(source, None, options):
                line = json.dumps([os.fsdecode(path), os.fsdecode(relative), problem])
                with temporary_space():
                    self._file.write(line + "\n")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Delete the temporary file."""
        self._file.close()

    def __iter__(self) -> Iterator[WalkedFile]:
        """Yield the files in byte order of their names; one iteration at a time."""
        self._file.seek(0)
        for line in self._file:
            path, relative, problem = json.loads(line)
            yield WalkedFile(os.fsencode(path), os.fsencode(relative), problem)

    def is_same_again(self) -> bool:
        """Walk the directory again; return whether both walks find the same file names."""
        again = _names(files_of(self.source, None, self._options))
        return all(name == other for name, other in zip_longest(_names(self), again))

    def absent(self, records: Iterable[tuple[bytes, bytes]], below: bytes) -> _Records:
        """Return the selected records for which the directory has no file.

        Each path is checked in the directory again, to find files that the walk missed, or that
        were created after the walk.

        Args:
            records: paths and encoded entries.
            below: the prefix of the paths, which ends in a slash unless it is empty.
        """
        cut = len(below)
        return [(path, value) for path, value in records if self._lacks(path[cut:], value)]

    def _lacks(self, relative: bytes, value: bytes) -> bool:
        if not relative or is_own(relative) or not self.takes(relative):
            return False
        name = b"/" + relative.removesuffix(b"/")
        if os.path.normpath(b"." + name) != name[1:]:
            return True  # no file has such a name
        try:
            status = os.lstat(os.fsencode(self.source) + b"/" + relative)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return True
        except OSError as error:
            return error.errno == errno.ENAMETOOLONG  # after other errors, the file may exist
        # A directory is not a file of this name, but the marker of the directory stays.
        return stat.S_ISDIR(status.st_mode) and not (
            relative.endswith(b"/") and is_marker(relative, decode_entry(value).size)
        )


def _names(found: Iterable[WalkedFile]) -> Iterator[bytes]:
    return (each.relative for each in found if not is_own(each.relative))


def _surplus(repository: Repository, branch: str, below: bytes, walked: _WalkedFiles) -> _Records:
    """Return the selected objects below a prefix that the directory lacks."""
    names = AscendingNames(_names(walked))
    before = 0

    def counted(records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        nonlocal before
        for record in records:
            before += walked.takes(record[0][len(below) :])
            yield record

    with open_view(repository, branch) as view:
        records = counted(view.scan(prefix=below))
        others = (record for record in records if not names.has(record[0][len(below) :]))
        found = walked.absent(others, below)
    if found and not names.any:
        raise Refused(
            f"there is no file in {walked.source}, so everything would be deleted",
            hint=f"if that is meant: `fs rm -r {quote(repository.at(branch, os.fsdecode(below)))}`",
        )
    if is_much_less(before - len(found), before):
        _walk_again(repository, walked, f"{len(found):,} of {before:,} objects of the branch")
    return found


def _walk_again(repository: Repository, walked: _WalkedFiles, lacking: str) -> None:
    """Walk the directory again, because many of the branch's objects have no file in it.

    Args:
        lacking: how many objects have no file, for messages.

    Raises:
        Refused: the walks differ.
    """
    if not walked.is_same_again():
        raise Refused(
            f"{walked.source} lacks {lacking}, and a second walk found other files than the first",
            hint="nothing was staged; repeat it when the directory does not change",
        )
    hint = "if that is not meant, check the directory and undo the upload"
    repository.notify(f"{walked.source} lacks {lacking}; a second walk found the same", hint=hint)
