"""The base of a merge: one tree, or what several trees merge to.

Two branches that were merged into each other at the same time have two best common ancestors, of
which neither descends from the other (a criss-cross). With only one of them as the base, content
that the other ancestor deleted or reverted would look like a change of the side that still has it.
So the trees of all best common ancestors are merged, path by path, as Git's recursive
strategy does.

If two trees differ at a path, the tree wins that changed the path since the best common ancestors
of the two trees' commits. The content of these ancestors is found in the same way. With several
trees, a tree that changed nothing at the path relative to any other tree is left out, and the
content of the remaining trees wins. So the order of the commits does not matter. If the remaining
trees have different contents, the path is undecided: it was changed, or a conflict was resolved,
in different ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from lakecli.base.model import MetarangeId
from lakecli.committed.tree_store import MissingTable

T = TypeVar("T")


class Ancestors(NamedTuple):
    """The best common ancestors of two commits.

    Attributes:
        trees: the trees of the ancestors; none if they are unknown, or too many to be merged.
        below: for pairs of these trees, the position in `MergeBase.ancestors` of the pair's own
            best common ancestors. A key is the positions of the two trees in `trees`, the smaller
            first. A pair is missing if its ancestors were not looked up.
    """

    trees: tuple[MetarangeId, ...]
    below: Mapping[tuple[int, int], int]


class MergeBase(NamedTuple):
    """The common ancestors of two commits, by ID only, so it can be sent to other processes.

    Attributes:
        ancestors: first the ancestors of the two commits, then those of pairs of ancestors.
            `Ancestors.below` refers only to earlier generations of commits, so there are no cycles.
    """

    ancestors: tuple[Ancestors, ...]

    @classmethod
    def of(cls, tree: MetarangeId) -> MergeBase:
        """Return a base that is a single tree."""
        return cls((Ancestors((tree,), {}),))

    @property
    def trees(self) -> tuple[MetarangeId, ...]:
        """The trees of the best common ancestors of the two commits."""
        return self.ancestors[0].trees

    @property
    def only_tree(self) -> MetarangeId | None:
        """The tree if the base is a single tree, else ``None``."""
        return self.trees[0] if len(self.trees) == 1 else None

    def resolve(
        self, content_of: Callable[[MetarangeId], T], is_same: Callable[[T, T], bool]
    ) -> Sequence[T]:
        """Return the content of the base at one place: one element, or another number if undecided.

        If older trees (of the ancestors' own ancestors) are missing, since garbage collection
        deletes expired ones, the content is undecided.

        Raises:
            IntegrityError: a table that had to be read is damaged, or a table of a best common
                ancestor of the two commits is missing.
        """
        return self._resolve(0, content_of, is_same, {})

    def _resolve(
        self,
        number: int,
        content_of: Callable[[MetarangeId], T],
        is_same: Callable[[T, T], bool],
        known: dict[int, Sequence[T]],
    ) -> Sequence[T]:
        if number in known:
            return known[number]
        trees, below = self.ancestors[number]
        try:
            contents: Sequence[T] = [content_of(tree) for tree in trees]
        except MissingTable:
            if not number:
                raise
            contents = ()

        def is_changed(one: int) -> bool:
            """Return whether a tree's content changed since its ancestors with another tree."""
            for other in range(len(contents)):
                pair = below.get((min(one, other), max(one, other)))
                before = () if pair is None else self._resolve(pair, content_of, is_same, known)
                if one != other and (len(before) != 1 or not is_same(before[0], contents[one])):
                    return True
            return False

        if contents and all(is_same(contents[0], each) for each in contents):
            contents = contents[:1]
        else:
            found = [each for at, each in enumerate(contents) if is_changed(at)]
            if found and all(is_same(found[0], each) for each in found):
                contents = found[:1]
        known[number] = contents
        return known[number]
