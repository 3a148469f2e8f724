"""Link a directory with a path of a ref: `local init` and `local clone`."""

import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from shlex import quote

from lakecli.base.directories import LINK_FILE, make_durable
from lakecli.base.model import Commit
from lakecli.base.uri import LakeUri, as_directory, ref_of
from lakecli.committed.point_reads import find
from lakecli.errors import AlreadyExists, Refused, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.download import DownloadOptions
from lakecli.repository.reading.view import commit_at
from lakecli.repository.transfer.ignore_patterns import INCOMING, Selection
from lakecli.stores.uri import parse
from lakecli.worktree.checkout import Brought, OwnChanges, bring
from lakecli.worktree.link import Link, find_root, read_link, write_link
from lakecli.worktree.worktree import LinkMode, Worktree, lock


def init(
    repository: Repository,
    uri: LakeUri,
    root: Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    force: bool = False,
) -> Worktree:
    """Link a directory with a path of a ref, without changing any file.

    Args:
        root: the absolute path of the directory; it is created if it is missing.

    Raises:
        NotFound: no such ref.
        AlreadyExists: the directory is linked, and `force` is not set.
        Refused: the directory is inside a linked directory, or contains the storage namespace or
            the local store.
        UsageError: the path is an object, or a pattern can match nothing.
    """
    Selection(include, exclude)  # raises an error for a pattern that matches nothing
    src, head = link_target(repository, uri)
    _check_place(repository, root)
    make_durable(root)
    with lock(root):
        if os.path.lexists(root / os.fsdecode(LINK_FILE)) and not force:
            hint = "link it anew: `force=True`; see what it is linked with: `local list`"
            raise AlreadyExists(f"directory {root} is linked already", hint=hint)
        link = Link(src, head.id, include=tuple(include), exclude=tuple(exclude))
        write_link(root, link)
    return Worktree(repository, root, link)


def clone(
    repository: Repository,
    uri: LakeUri,
    root: Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    options: DownloadOptions,
    linking: LinkMode = LinkMode.AUTO,
) -> Brought:
    """Link an empty or missing directory with a path of a ref, and download its objects.

    If the process was killed, repeating the call continues the download.

    Raises:
        Refused: the directory is not empty; or as raised by `init`.
        UsageError: as raised by `init`.
    """
    Selection(include, exclude)  # raises an error for a pattern that matches nothing
    src, head = link_target(repository, uri)
    _check_place(repository, root)
    make_durable(root)
    link = Link(src, None, "clone", head.id, tuple(include), tuple(exclude))
    with lock(root):
        begun = read_link(root)
        same = attrgetter("src", "at_head", "include", "exclude")
        if begun is None or same(begun) != same(link):
            if {each.name for each in root.iterdir()} - {os.fsdecode(INCOMING)}:
                raise Refused(
                    f"directory {root} exists and is not empty",
                    hint="clone into another directory; or link it as it is: "
                    f"`local init {quote(str(link.src))} {quote(str(root))}`",
                )
            begun = link
            write_link(root, link)
        worktree = Worktree(repository, root, begun, linking=linking)
        return bring(worktree, head, operation="clone", policy=OwnChanges.KEEP, options=options)


def link_target(repository: Repository, uri: LakeUri) -> tuple[LakeUri, Commit]:
    """Return the URI to link a directory with, and the commit that the URI names now.

    The name of a branch or tag is kept; any other ref expression is replaced by its commit.
    """
    expression = ref_of(uri)
    with repository.lake.kv.read() as txn:
        head = commit_at(repository, txn, expression)
        refs = repository.refs(txn)
        is_name = not (refs.find_branch(expression) is None and refs.find_tag(expression) is None)
    path = uri.path or b""
    if path and find(repository.trees, head.metarange_id, path.rstrip(b"/")) is not None:
        raise UsageError(
            f"{uri} is an object; a directory is linked with the path above it",
            hint=f"{LakeUri(uri.repository, expression, path.rpartition(b'/')[0] + b'/')}",
        )
    ref = expression if is_name else head.id
    return LakeUri(uri.repository, ref, as_directory(path)), head


def _check_place(repository: Repository, root: Path) -> None:
    """Refuse a directory that cannot be a working directory."""
    if root.exists() and not root.is_dir():
        raise UsageError(f"not a directory: {root}")
    above = find_root(root.parent)
    if above is not None:
        hint = "choose another directory"
        raise Refused(f"{root} lies in {above}, which is linked itself", hint=hint)
    namespace = parse(repository.record.storage_namespace)
    places = [os.fspath(repository.lake.home.store)]
    if not namespace.bucket:
        places.append(namespace.path)
    real = os.path.realpath(root)
    for place in map(os.path.realpath, places):
        if os.path.commonpath([real, place]) == real:
            hint = "choose another directory"
            raise Refused(f"lakecli keeps its own data in {root}: {place}", hint=hint)
