"""Commit the changes of a working directory, without staging them first."""

import errno
import os
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from lakecli.base.model import ChangeType, Commit
from lakecli.base.uri import check_path
from lakecli.committed.values import decode_entry, is_same
from lakecli.committed.writer import apply
from lakecli.errors import LakeError, NothingToDo, PartialFailure, Refused
from lakecli.repository.commit_attempts import MAX_ATTEMPTS, Draft, attempt_on_top, kept_moving
from lakecli.repository.download import DownloadOptions
from lakecli.repository.guard import claim_head
from lakecli.repository.policy.early import check_early
from lakecli.repository.reading.contents import digest_of
from lakecli.repository.reading.view import View, view_of_branch
from lakecli.repository.staged.changes import unstage_equal
from lakecli.repository.transfer.ignore_patterns import EVERYTHING, Selection
from lakecli.repository.transfer.ingest import Ingested
from lakecli.repository.transfer.walk import FileChanged, FileOpener, SpecialFile
from lakecli.repository.upload import Uploader, UploadOptions
from lakecli.stores.streams import batches
from lakecli.worktree import checkout
from lakecli.worktree.index import state_of
from lakecli.worktree.kept_for_undo import claimed_files
from lakecli.worktree.linked_files import scan_restored
from lakecli.worktree.obstacles import InTheWay
from lakecli.worktree.scan import LocalChange, Scan
from lakecli.worktree.worktree import Worktree

BATCH: Final = 16_384
"""The number of files whose objects are made durable together."""


LOCAL_COMMIT: Final = "local commit"
"""The kind of the operation that commits a working directory."""


class CommitOptions(NamedTuple):
    """How to commit a working directory.

    Attributes:
        ours: if others have changed a file too, commit the directory's version.
        downloading: how the changes of others are downloaded after the commit.
    """

    message: str
    committer: str
    metadata: Mapping[str, str]
    selection: Selection = EVERYTHING
    uploading: UploadOptions = UploadOptions()
    downloading: DownloadOptions = DownloadOptions()
    ours: bool = False


class Committed(NamedTuple):
    """The result of committing a working directory.

    Attributes:
        uploaded: the number of committed files.
        removed: the number of files whose removal was committed.
        brought: the update of the directory to the new commit, with the changes of others.
        left: (path, reason) of changed files that were not committed, because they changed again
            after the directory was compared; the next commit includes them.
    """

    commit: Commit
    uploaded: int
    removed: int
    brought: checkout.Brought
    left: list[tuple[bytes, str]]


def commit(worktree: Worktree, options: CommitOptions) -> Committed:
    """Commit the changed files of a working directory to its branch, as one commit.

    Changes that are staged on the branch stay staged. Afterwards the directory is at the new
    commit, which includes the commits of others since the last sync.

    Raises:
        NothingToDo: no file has changed.
        Refused: the ref is not a branch, or files cannot be read or uploaded; the error names their
            paths.
        WorktreeConflict: others have changed some of the files, on the branch or in its staging
            area, or conflicts of an earlier pull are unresolved; nothing was committed.
        PartialFailure: all changed files changed again meanwhile; nothing was committed.
        LostRace: other commands kept moving the branch.
    """
    with worktree.locked():
        return _Committing(worktree, options).run()


class _Committing:
    def __init__(self, worktree: Worktree, options: CommitOptions) -> None:
        self._worktree = worktree
        self._options = options
        self._repository = worktree.repository
        branch = worktree.branch
        if branch is None:
            raise Refused(
                f"{worktree.root} is at {worktree.link.ref}, which is not a branch",
                hint="go to a branch first: `checkout BRANCH`",
            )
        self._branch = branch
        self._left: list[tuple[bytes, str]] = []
        self._values: dict[bytes, bytes | None] = {}
        """The new value of each path that the commit changes, by repository path, in path order."""
        self._files = InTheWay(())
        self._replaced: set[bytes] = set()
        """Paths of the branch that are above or below a file of the directory, and so conflict."""
        self._same_there: set[bytes] = set()
        """Paths to commit whose contents on the branch are already those of the directory."""

    def run(self) -> Committed:
        worktree, options = self._worktree, self._options
        check_early(self._repository, self._branch, who=options.committer)
        self._continue()
        worktree.follow_back()
        scan = scan_restored(worktree)
        takes = options.selection.takes
        chosen = {path: change for path, change in scan.changes.items() if takes(path)}
        self._check(scan, chosen)
        self._upload(scan, chosen)
        self._left.sort()
        if self._left and not self._values:
            raise PartialFailure(
                f"files of {worktree.root} changed meanwhile; nothing was committed",
                hint="commit again",
                paths=[path for path, _ in self._left[: checkout.MAX_LISTED]],
            )
        try:
            made = self._commit()
        except NothingToDo:
            # A killed command may have moved the branch already.
            self._bring(worktree.head(), scan)
            raise
        removed = sum(value is None for value in self._values.values())
        brought = self._bring(made, scan)
        uploaded = len(self._values) - removed
        return Committed(made, uploaded, removed, brought, self._left)

    def _continue(self) -> None:
        """Finish a pull or checkout that was interrupted."""
        link = self._worktree.link
        if not link.active:
            return
        if link.target is None:
            raise Refused(
                f"an operation of lakectl in {self._worktree.root} is not finished: {link.active}",
                hint="finish it with lakectl, or: `local pull`",
            )
        target = self._worktree.commit(link.target)
        self._bring(target, None, operation=link.active)

    def _bring(
        self, target: Commit, scan: Scan | None, *, operation: str = "commit"
    ) -> checkout.Brought:
        return checkout.bring(
            self._worktree,
            target,
            operation=operation,
            policy=checkout.OwnChanges.KEEP,
            options=self._options.downloading,
            changes=None if scan is None else scan.changes,
        )

    def _check(self, scan: Scan, chosen: Mapping[bytes, LocalChange]) -> None:
        worktree, selection = self._worktree, self._options.selection
        problems = [each for each in scan.problems if selection.takes(each.path)]
        if problems:
            what = f"{len(problems)} files" if problems[1:] else "a file"
            raise Refused(
                f"{what} of {worktree.root} cannot be committed: {problems[0].reason}",
                hint="leave out links and special files: `links=skip`; follow links: "
                "`links=follow`",
                paths=[each.path for each in problems[: checkout.MAX_LISTED]],
            )
        self._files = InTheWay(path for path, change in chosen.items() if change.state is not None)
        unresolved = [path for path in worktree.link.unresolved if path in chosen]
        unresolved += [path for path in worktree.blocked if self._files.of(path)]
        unresolved = sorted({*unresolved})
        if unresolved and not self._options.ours:
            what = f"changed both in {worktree.root} and on {self._branch}"
            raise _conflict(unresolved, what, checkout.RESOLVE, kind="unresolved conflict")
        if not chosen:
            hint = "see what is compared: `local status`"
            raise NothingToDo(f"no changes in {worktree.root}", hint=hint)

    # -- bytes -------------------------------------------------------------------------------

    def _upload(self, scan: Scan, chosen: Mapping[bytes, LocalChange]) -> None:
        """Upload the chosen files to the namespace, and record the values to commit."""
        prefix = self._worktree.link.prefix
        options = self._options.uploading
        upload = Uploader(self._repository, self._branch, options)
        opener = FileOpener(os.fsencode(self._worktree.root), options.links)
        files = [path for path, change in chosen.items() if change.type is not ChangeType.REMOVED]
        for path in files:
            check_path(prefix + path)
        self._repository.lake.runtime.on_step("upload")
        values: dict[bytes, bytes | None] = {
            prefix + path: None for path, change in chosen.items() if change.state is None
        }
        done: dict[bytes, Ingested] = {}

        def bring_in(path: bytes) -> None:
            ingested = self._bring_in(upload, opener, path, chosen[path])
            if ingested is not None:
                done[path] = ingested

        for batch in batches(files, BATCH):
            done.clear()
            upload.ingest.workers.for_each(batch, bring_in)
            values.update(claimed_files(self._worktree, upload, done))
            for path, each in done.items():
                scan.changes[path] = chosen[path]._replace(digest=each.digest)
        self._values = dict(sorted(values.items()))

    def _bring_in(
        self, upload: Uploader, opener: FileOpener, path: bytes, change: LocalChange
    ) -> Ingested | None:
        """Upload a file; if it has changed since the scan, leave it out of the commit instead."""
        problem = "the file changed while it was committed"
        try:
            with opener.open(self._worktree.path_of(path)) as file:
                ingested = upload.ingest.file(file)
        except (FileChanged, SpecialFile) as error:
            problem = error.message
        except LakeError as error:
            error.message = f"{os.fsdecode(path)}: {error.message}"
            raise
        except OSError as error:
            if error.errno not in {errno.ELOOP, errno.ENOTDIR, errno.ENOENT}:
                reason = (error.strerror or str(error)).lower()
                raise Refused(
                    f"a file of {self._worktree.root} cannot be read: {reason}",
                    hint="nothing was committed",
                    paths=[path],
                ) from error
        else:
            assert ingested.status is not None
            if state_of(ingested.status) == change.state:
                return ingested
        self._left.append((path, problem))
        return None

    # -- the commit --------------------------------------------------------------------------

    def _commit(self) -> Commit:
        for _ in range(MAX_ATTEMPTS):
            attempt = attempt_on_top(
                self._repository, self._branch, kind=LOCAL_COMMIT, who=self._options.committer
            )
            with attempt.view() as view:
                draft = self._draft(view)
            commit = attempt.move(draft)
            if commit is not None:
                return commit
        raise kept_moving(self._branch)

    def _draft(self, view: View) -> Draft:
        options, root = self._options, self._worktree.root
        head = claim_head(view)
        lost = self._changed_there(view)
        if lost and not options.ours:
            hint = f"bring what others changed: `local pull`; {checkout.RESOLVE}"
            raise _conflict(lost, f"changed both in {root} and on {self._branch}", hint)
        values = {**self._values, **dict.fromkeys(self._replaced)}
        changes = {
            path: value for path, value in sorted(values.items()) if path not in self._same_there
        }
        staged = list(self._staged(view))
        if staged:
            what = f"staged on {self._branch} too, with another change"
            hint = "see what is staged, and commit or reset it first: `status REPOSITORY`"
            raise _conflict(staged, what, hint)
        tree = apply(self._repository.trees, view.commit.metarange_id, changes.items())
        if tree == head.metarange_id:
            raise NothingToDo(f"{self._branch} has the changes of {self._worktree.root} already")
        unstage_equal(self._repository, self._branch, tree)
        return Draft(tree, [head], options.message, options.committer, options.metadata)

    def _changed_there(self, view: View) -> list[bytes]:
        """Return the paths, relative to the directory, at which others changed the branch too.

        At these paths the contents on the branch differ from both the base and the directory. A new
        path on the branch conflicts, too, if a file of the directory is in its way. If the contents
        on the branch and in the directory are equal, the branch's entry is kept, whatever its
        content type.
        """
        worktree = self._worktree
        lost = []
        self._same_there.clear()
        self._replaced.clear()
        for change in worktree.differences(worktree.base_tree, view.commit.metarange_id):
            path = worktree.link.prefix + change.path
            if path not in self._values:
                if change.right is not None and self._files.of(change.path):
                    lost.append(change.path)
                    self._replaced.add(path)
            elif _has_same_contents(self._values[path], change.right):
                self._same_there.add(path)
            else:
                lost.append(change.path)
        return lost

    def _staged(self, view: View) -> Iterator[bytes]:
        """Yield the relative paths to commit at which others have staged a different change."""
        prefix = self._worktree.link.prefix
        branch = view_of_branch(self._repository, view.txn, self._branch)
        changes = self._values
        for path, staged in branch.staged(prefix=prefix):
            if path not in changes or is_same(staged or None, changes[path]):
                continue
            if not is_same(staged or None, view.find_committed(path)):
                yield path[len(prefix) :]


def _has_same_contents(left: bytes | None, right: bytes | None) -> bool:
    """Return whether two encoded entries are both absent or have the same bytes."""
    if left is None or right is None:
        return left is right
    here, there = decode_entry(left), decode_entry(right)
    return here.size == there.size and digest_of(here) == digest_of(there)


def _conflict(
    listed: list[bytes], what: str, hint: str, *, kind: str = "conflict"
) -> checkout.WorktreeConflict:
    count = f"{len(listed)} files were" if listed[1:] else "a file was"
    message = f"{kind}: {count} {what}"
    return checkout.WorktreeConflict(message, hint=hint, paths=listed[: checkout.MAX_LISTED])
