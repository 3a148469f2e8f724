"""An opened linked directory: its base, its ref's present commit, its files, and its lock."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final

from lakecli.base.identity import blake3_of
from lakecli.base.model import (
    EMPTY_TREE,
    ChangeType,
    Commit,
    CommitId,
    Difference,
    Entry,
    MetarangeId,
)
from lakecli.base.os_errors import MACHINE_HINTS
from lakecli.committed.diff import diff
from lakecli.committed.point_reads import find
from lakecli.committed.scan import scan
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError, NotFound, Refused
from lakecli.refs.graph import is_ancestor
from lakecli.repository.contract import Repository
from lakecli.repository.reading.contents import content_digest, digest_of
from lakecli.repository.reading.view import commit_at
from lakecli.repository.transfer.destination import has_digest, is_marker
from lakecli.repository.transfer.ignore_patterns import Ignore, Selection, is_own
from lakecli.repository.transfer.walk import FileChanged, FileOpener, LinkPolicy, SpecialFile
from lakecli.stores.local.files import closing
from lakecli.worktree import index as indexes
from lakecli.worktree.link import Link, read_link, write_link
from lakecli.worktree.obstacles import obstacle_at, parents_of
from lakecli.worktree.scan import LocalChange, Scan, Scanner, hash_file, is_possible

_SETTLED_AT_ONCE: Final = 1 << 16
"""The number of records of a tree after which a new index applies its pending changes."""

_NO_LOCKS: Final = frozenset({errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})
"""Error codes of a file system without locks, on which commands work without a lock."""


class Busy(Refused):
    """Another command is writing to the working directory."""


class LinkMode(StrEnum):
    """How to create files of a working directory if the namespace is a local directory."""

    AUTO = "auto"
    """A reflink if the file system supports reflinks, otherwise a copy."""
    REFLINK = "reflink"
    HARDLINK = "hardlink"
    COPY = "copy"


@dataclass(eq=False)
class Worktree:
    """A working directory. Only one thread may use it.

    Attributes:
        root: the absolute path of the directory.
        linking: how files are created if the namespace is a local directory.
        scanned_ns: when the files were compared last, in unix nanoseconds.
        own: paths of the compared trees whose names are reserved for Git, lakecli or the system.
        nameless: paths that no file can have, such as a path that ends in a slash.
        free: paths of `Link.left_out` at which a file can be now, as the last scan found.
        blocked: paths of `Link.left_out` at which files of the user are in the way.
        impossible: for each other path of `Link.left_out`, the reason why no file can be there.
    """

    repository: Repository
    root: Path
    link: Link
    links: LinkPolicy = LinkPolicy.FAIL
    linking: LinkMode = LinkMode.AUTO
    scanned_ns: int = 0
    own: set[bytes] = field(default_factory=set)
    nameless: set[bytes] = field(default_factory=set)
    free: set[bytes] = field(default_factory=set)
    blocked: set[bytes] = field(default_factory=set)
    impossible: dict[bytes, str] = field(default_factory=dict)
    _index: indexes.Index | None = None

    # -- the link ----------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from writing to the directory, and read its link again.

        Raises:
            Busy: another command is writing to the directory.
            NotFound: the directory is not linked any more.
        """
        with lock(self.root):
            link = read_link(self.root, trust="*")  # opening the directory checked its owner
            if link is None:
                raise not_linked(self.root)
            if link.src.repository != self.link.src.repository:
                raise Busy(f"linked with another repository meanwhile: {self.root}")
            if link != self.link:
                self.link = link
                self.__dict__.pop("selection", None)
                self._index = None
            yield

    def relink(self, **changes: object) -> None:
        """Change fields of the link, and write the link durably."""
        self.link = self.link._replace(**changes)  # type: ignore[arg-type]
        write_link(self.root, self.link)

    @cached_property
    def selection(self) -> Selection:
        """The selection of paths, relative to the directory, that the directory includes."""
        return Selection(self.link.include, self.link.exclude)

    @cached_property
    def ignore(self) -> Ignore:
        """The rules that decide which files are ignored; files of the base are never ignored."""
        return Ignore(os.fsencode(self.root))

    def takes(self, relative: bytes) -> bool:
        """Return whether the directory includes an object, given its path below the prefix."""
        return (
            is_possible(relative)
            and self.selection.takes(relative)
            and relative not in self.link.left_out
        )

    def path_of(self, relative: bytes) -> bytes:
        """Return the path of a file on disk."""
        return os.path.join(os.fsencode(self.root), relative)

    def is_link(self, relative: bytes) -> bool:
        """Return whether a path is a symbolic link, which lakecli never overwrites."""
        return os.path.islink(self.path_of(relative))

    # -- commits -----------------------------------------------------------------------------

    def commit(self, commit_id: CommitId) -> Commit:
        """Return a commit by its ID."""
        with self.repository.lake.kv.read() as txn:
            commit = self.repository.refs(txn).find_commit(commit_id)
        if commit is None:
            hint = f"fetch it: `fetch {self.repository.uri}`"
            raise NotFound(f"commit {commit_id} of {self.root} is not on this machine", hint=hint)
        return commit

    @property
    def base_tree(self) -> MetarangeId:
        """The tree of the base: empty before the first checkout is complete."""
        at_head = self.link.at_head
        return EMPTY_TREE if at_head is None else self.commit(at_head).metarange_id

    def head(self) -> Commit:
        """Return the present commit of the ref of the link."""
        with self.repository.lake.kv.read() as txn:
            return commit_at(self.repository, txn, self.link.ref)

    @property
    def branch(self) -> str | None:
        """The branch of the link; ``None`` if its ref is a tag or a commit."""
        with self.repository.lake.kv.read() as txn:
            found = self.repository.refs(txn).find_branch(self.link.ref)
        return None if found is None else found.name

    def follow_back(self) -> None:
        """If the branch was moved back to an ancestor of the base, make the branch's head the base.

        This happens when a commit is undone. The changes of the commit are then changes of the
        directory again; no file changes.
        """
        head = self.head()
        at_head = self.link.at_head
        if at_head in {None, head.id} or self.branch is None or self.link.active:
            return
        assert at_head is not None
        with self.repository.lake.kv.read() as txn:
            refs = self.repository.refs(txn)
            if refs.find_commit(at_head) is None or not is_ancestor(refs, head.id, at_head):
                return
        index = self.index
        for change in self.differences(self.base_tree, head.metarange_id):
            if change.right is None:
                index.drop(change.path)
            else:
                index.put(change.path, *self.unseen(change.right))
        self.link = self.link._replace(at_head=head.id)
        index.key = self._key(head.metarange_id)

    # -- trees -------------------------------------------------------------------------------

    def differences(self, left: MetarangeId, right: MetarangeId) -> Iterator[Difference]:
        """Yield the differences of two trees at paths of the directory, in path order.

        Their paths are relative to the directory.

        New and changed paths of the right tree are added to `own` if their names are reserved, and
        to `nameless` if no file can have the name; they are not yielded.
        """
        prefix = self.link.prefix
        for change in diff(self.repository.trees, left, right, prefix=prefix):
            relative = change.path[len(prefix) :]
            if self.takes(relative):
                yield change._replace(path=relative) if prefix else change
            elif change.right is not None and is_own(relative):
                self.own.add(relative)
            elif change.right is not None and not is_possible(relative):
                size = self.unseen(change.right).state.size
                if self.selection.takes(relative) and not is_marker(relative, size):
                    self.nameless.add(relative)

    def find(self, tree: MetarangeId, relative: bytes) -> bytes | None:
        """Return a tree's encoded entry at a path below the prefix, or ``None``."""
        return find(self.repository.trees, tree, self.link.prefix + relative)

    def excludes(self, tree: MetarangeId, relative: bytes) -> bool:
        """Return whether a tree cannot have a file at a path.

        It cannot if a parent of the path is an object, or if objects are below the path.
        """
        above = filter(self.takes, parents_of(relative))
        if any(self.find(tree, each) is not None for each in above):
            return True
        below = self.link.prefix + relative + b"/"
        return any(
            self.takes(path[len(self.link.prefix) :])
            for path, _ in scan(self.repository.trees, tree, prefix=below)
        )

    def unseen(self, value: bytes) -> indexes.TrackedFile:
        """Return the index record for an encoded entry that no file was compared with yet."""
        try:
            return unseen_file(decode_entry(value))
        except IntegrityError:
            # Functions that need the entry report the error.
            return indexes.TrackedFile(indexes.FileState(0, 0), indexes.NO_DIGEST)

    # -- files -------------------------------------------------------------------------------

    @property
    def index_file(self) -> Path:
        """The path of the index file in the home; its name has the directory's device and inode."""
        return index_file_of(self.repository, identity_of(self.root))

    def _key(self, tree: MetarangeId) -> str:
        link = self.link
        left_out = blake3_of(b"\0".join(sorted(link.left_out))).hex() if link.left_out else ""
        fields = [self.repository.record.uuid, tree, os.fsdecode(link.prefix), left_out]
        return json.dumps([*fields, link.include, link.exclude])

    @property
    def index(self) -> indexes.Index:
        """The index of the base, loaded from its file or else made from the base's tree."""
        if self._index is None:
            key = self._key(self.base_tree)
            file = self.index_file
            self._index = indexes.Index.load(file, key) or self._make_index(key)
            indexes.note_use(file, now_ns=self.clock_ns())
            root = os.fsencode(self.root)
            if self._index.root != root:  # it was moved, or is known by another name
                self._index.root = root
                self._index.has_changed = True
        return self._index

    def _make_index(self, key: str) -> indexes.Index:
        index = indexes.Index(key, os.fsencode(self.root))
        prefix = self.link.prefix
        records = scan(self.repository.trees, self.base_tree, prefix=prefix)
        for number, (path, value) in enumerate(records, 1):
            relative = path[len(prefix) :]
            if self.takes(relative):
                index.put(relative, *self.unseen(value))
            if not number % _SETTLED_AT_ONCE:
                index.settle()  # pending records take more memory than applied ones
        return index

    def retarget(self, tree: MetarangeId) -> None:
        """Mark the index as the index of another tree, and save it."""
        self.index.key = self._key(tree)
        self.save_index()
        indexes.clear_unused(self.index_file.parent, now_ns=self.clock_ns())

    def save_index(self) -> None:
        """Save the index; if that fails, only add a notice, because the index is a cache."""
        file = self.index_file
        try:
            self.index.save(file)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            hint = f"remove {file}, or make its directory writable"
            self.repository.notify(
                f"cannot save {file}: {reason}; without this index, each command reads all files "
                f"of {self.root}",
                hint=MACHINE_HINTS.get(error.errno or 0, hint),
            )

    def scan(self) -> Scan:
        """Return the files that the user has changed since the base.

        If a command was interrupted, a file with the bytes of the command's target is not a change:
        the command may have written it.
        """
        found = self.scan_all()
        if self.link.target is not None:
            target = self.commit(self.link.target).metarange_id
            found.changes = {
                path: change
                for path, change in found.changes.items()
                if not self.equals(path, change, self.find(target, path))
            }
        return found

    def scan_all(self) -> Scan:
        """Return the differences from the base, and save the file states that were newly recorded.

        A path that is blocked by files of the user counts as a removed file.
        """
        self.scanned_ns = self.clock_ns()
        self._look_at_left_out()
        found = Scanner(
            os.fsencode(self.root),
            self.index,
            ignore=self.ignore,
            selection=self.selection,
            left_out=self.blocked | self.impossible.keys(),
            links=self.links,
            clock_ns=self.clock_ns,
            is_same=self._equals_base,
        ).run()
        if self.index.has_changed and not self.link.active:
            self.save_index()
        if self.blocked:
            removed = dict.fromkeys(self.blocked, LocalChange(ChangeType.REMOVED, None))
            found.changes = dict(sorted({**found.changes, **removed}.items()))
        return found

    def _look_at_left_out(self) -> None:
        """Find which left-out paths are free, blocked or impossible now."""
        self.free, self.blocked, self.impossible = set(), set(), {}
        root, tree = os.fsencode(self.root), self.base_tree if self.link.left_out else EMPTY_TREE
        for path in self.link.left_out:
            obstacle = obstacle_at(root, path)
            if obstacle is None:
                self.free.add(path)
            elif obstacle.can_go and not self.excludes(tree, path):
                self.blocked.add(path)
            else:
                self.impossible[path] = obstacle.reason

    def clock_ns(self) -> int:
        """Return the present time in unix nanoseconds."""
        return int(self.repository.lake.runtime.clock().timestamp() * 10**9)

    def digest(self, relative: bytes, change: LocalChange) -> str:
        """Return the BLAKE3 of a changed file, reading it if needed; ``""`` if reading fails."""
        if change.digest or change.state is None:
            return change.digest
        root, follow = os.fsencode(self.root), self.links is LinkPolicy.FOLLOW
        try:
            return hash_file(root, relative, follow=follow)[0]
        except OSError:
            return ""

    def equals(self, relative: bytes, change: LocalChange, value: bytes | None) -> bool:
        """Return whether a changed file has the bytes of an entry.

        With ``None`` for the entry, return whether the file is absent.
        """
        if change.state is None or value is None:
            return change.state is None and value is None
        entry = decode_entry(value)
        if change.state.size != entry.size:
            return False
        digest = digest_of(entry)
        if digest is not None:
            return self.digest(relative, change) == digest
        return self._has_bytes(relative, entry, change.state.mtime_ns)

    def _equals_base(self, relative: bytes, status: os.stat_result) -> bool:
        change = LocalChange(ChangeType.CHANGED, indexes.state_of(status))
        return self.equals(relative, change, self.find(self.base_tree, relative))

    def _has_bytes(self, relative: bytes, entry: Entry, mtime_ns: int) -> bool:
        """Return whether a file has the bytes of an entry of equal size and unknown BLAKE3.

        If the entry records another digest, the digest decides. Otherwise the modification time
        decides, since a download sets the time that the entry records.
        """
        digest = content_digest(entry)
        if digest is None:
            return mtime_ns // 1_000_000_000 == entry.file_mtime
        try:
            opener = FileOpener(os.fsencode(self.root), self.links)
            with opener.open(self.path_of(relative)) as file:
                return has_digest(file.descriptor, digest)
        except (OSError, SpecialFile, FileChanged):
            return False


def unseen_file(entry: Entry) -> indexes.TrackedFile:
    """Return the index record for an entry that no file was compared with yet."""
    digest = digest_of(entry)
    known = indexes.NO_DIGEST if digest is None else bytes.fromhex(digest)
    return indexes.TrackedFile(indexes.FileState(0, entry.size), known)


def identity_of(root: Path) -> str:
    """Return device and inode of a directory, which identify it even after it was renamed."""
    status = root.stat()
    return f"{status.st_dev:x}-{status.st_ino:x}"


def index_file_of(repository: Repository, identity: str) -> Path:
    """Return the path of the index file of the directory with this device and inode."""
    return Path(repository.lake.home.store).with_name(indexes.DIRECTORIES) / f"{identity}.index"


@contextmanager
def lock(root: Path) -> Iterator[None]:
    """Hold the lock of a working directory.

    Raises:
        Busy: another process holds the lock.
    """
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no such directory: {root}") from None
    with closing(descriptor):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait until it has ended, and repeat"
            raise Busy(f"another command is working in {root}", hint=hint) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield


def not_linked(directory: Path, otherwise: str = "") -> NotFound:
    """Return the error for a directory that is not linked, and not below a linked directory.

    Args:
        otherwise: a command that works without a linked directory, for the hint.
    """
    hint = "; ".join(filter(None, (otherwise, "link one: `local clone PATH DIRECTORY`")))
    return NotFound(f"neither {directory} nor a directory above it is linked with a ref", hint=hint)
