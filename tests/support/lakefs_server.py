"""A lakeFS server as far as a refs dump shows it: it restores dumps, commits, and dumps again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakecli.base.identity import commit_id
from lakecli.base.model import Commit, CommitId
from lakecli.repository.lakefs.dump import read_dump
from lakecli.repository.refs_dump import write_dump

if TYPE_CHECKING:
    from lakecli.base.model import MetarangeId
    from lakecli.committed.tree_store import TreeStore
    from lakecli.repository.lakefs.dump import RefsManifest

START = 1_800_000_000
"""Unix seconds of the first commit; each further one is a second later."""


class LakeFs:
    """The server of one repository.

    Args:
        trees: of its storage namespace.
        manifest: of the dump that it begins with.

    Attributes:
        branches: heads by name.
        tags: commits by name.
        commits: all commits by ID.
    """

    def __init__(self, trees: TreeStore, manifest: RefsManifest) -> None:
        self._trees = trees
        self._made = 0
        self.restore(manifest)

    def restore(self, manifest: RefsManifest) -> None:
        """Forget everything, and begin anew with a dump, as ``lakectl refs-restore`` does."""
        dump = read_dump(self._trees, manifest)
        self.commits = dict(dump.commits)
        self.branches, self.tags = dict(dump.branches), dict(dump.tags)

    def commit(self, branch: str, tree: MetarangeId) -> CommitId:
        """Commit a tree that lies in the namespace."""
        self._made += 1
        parent = self.commits[self.branches[branch]]
        message, seconds = f"lakeFS {self._made}", START + self._made
        id_ = CommitId(
            commit_id(
                committer="admin",
                message=message,
                metarange_id=tree,
                created_at=seconds,
                metadata={},
                parents=(parent.id,),
            )
        )
        at, generation = datetime.fromtimestamp(seconds, UTC), parent.generation + 1
        self.commits[id_] = Commit(id_, (parent.id,), tree, message, "admin", at, {}, generation)
        self.branches[branch] = id_
        return id_

    def dump(self) -> RefsManifest:
        """Write a dump, as ``lakectl refs-dump`` does."""
        return write_dump(
            self._trees,
            commits=sorted(self.commits.values(), key=lambda commit: commit.id),
            branches=self.branches,
            tags=self.tags,
            default_branch="main",
        )
