"""Giving files of a working directory the contents that a commit has: `restore`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakecli.base.model import Commit, MetarangeId
from lakecli.committed.values import decode_entry
from lakecli.errors import NotFound
from lakecli.repository.download import DownloadOptions
from lakecli.repository.upload import UploadOptions
from lakecli.worktree.bring import Brought
from lakecli.worktree.fetching import Expected, WantedFile
from lakecli.worktree.hard_links import restore_objects
from lakecli.worktree.keep import RESTORE, keep
from lakecli.worktree.scan import LocalChange
from lakecli.worktree.worktree import Worktree
from lakecli.worktree.writer import Writer


def restore(
    worktree: Worktree,
    paths: Sequence[bytes],
    *,
    source: Commit | None,
    options: DownloadOptions,
) -> Brought:
    """Give files the contents that a commit has; what is overwritten is kept for undo.

    Files that the commit lacks stay, unless the base has them.

    Args:
        worktree: the working directory.
        paths: of files and directories, relative to it; ``b""`` is the directory itself.
        source: the commit; ``None``: the base. Conflicts at these paths are then resolved.
        options: of the downloads.

    Raises:
        NotFound: neither the base nor the commit has something at a path.
    """
    with worktree.locked():
        worktree.follow_back()
        base = worktree.base_tree
        tree = base if source is None else source.metarange_id
        changes = worktree.scan().changes
        if restore_objects(worktree, changes):
            changes = worktree.scan().changes
        wanted: dict[bytes, bytes | None] = {}
        for path in paths:
            found = dict(_wanted(worktree, path, tree, changes))
            if not found and not any(_is_at(path, each) for each in worktree.index.paths()):
                raise NotFound(
                    f"the commit has no file {worktree.path_of(path).decode(errors='replace')}",
                    hint="see what has changed: lakecli local status",
                )
            wanted.update(found)
        overwritten = [
            path
            for path in sorted(wanted)
            if (change := changes.get(path)) is not None and change.state is not None
        ]
        brought = Brought(worktree.head() if source is None else source)
        uploading = UploadOptions(parallelism=options.parallelism)
        if overwritten:
            commit = worktree.link.at_head if source is None else source.id
            keep(
                worktree,
                overwritten,
                kind=RESTORE,
                commit=commit,
                options=uploading,
                resolves=source is None,
            )
            brought.kept = len(overwritten)
        _write(worktree, wanted, changes, brought, options)
        if source is None and not brought.failures:
            worktree.index.save(worktree.index_file)
            left = [path for path in worktree.link.unresolved if path not in wanted]
            if tuple(left) != worktree.link.unresolved:
                worktree.relink(unresolved=tuple(left))
        return brought


def _wanted(
    worktree: Worktree, path: bytes, tree: MetarangeId, changes: dict[bytes, LocalChange]
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (path, encoded entry or ``None``) of the files at a path that have to change."""
    prefix = len(worktree.link.prefix)
    for each, change in changes.items():
        value = worktree.find(tree, each) if _is_at(path, each) else None
        if value is not None and not worktree.equals(each, change, value):
            yield each, value
    for difference in worktree.differences(worktree.base_tree, tree):
        each = difference.path[prefix:]
        if _is_at(path, each) and each not in changes:
            yield each, difference.right


def _is_at(path: bytes, each: bytes) -> bool:
    """Return whether a file is the one at a path, or below it."""
    return not path or each == path or each.startswith(path + b"/")


def _write(
    worktree: Worktree,
    wanted: dict[bytes, bytes | None],
    changes: dict[bytes, LocalChange],
    brought: Brought,
    options: DownloadOptions,
) -> None:
    writer = Writer(worktree, options, keeps_bit=True)
    for path, value in sorted(wanted.items()):
        change = changes.get(path)
        if change is not None:
            expected = Expected.ABSENT if change.state is None else change.state
        else:
            expected = Expected.ABSENT if worktree.index.find(path) is None else Expected.BASE
        if value is None:
            writer.remove(path, expected)
        else:
            writer.add(WantedFile(path, decode_entry(value), expected))
    report = writer.finish()
    brought.downloaded, brought.removed = report.downloaded, report.removed
    brought.size = report.size
    brought.conflicts = sorted(report.kept)
    brought.impossible = sorted(report.impossible)
    brought.left_out = sorted(worktree.own)
    brought.failures = sorted(report.failures)
