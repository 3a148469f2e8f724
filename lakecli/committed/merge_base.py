"""The base of a merge: one tree, or the result of merging several trees.

Two branches that were merged into each other at the same time have two best common ancestors,
neither of which descends from the other (a criss-cross). With only one of them as the base, content
that the other ancestor deleted or reverted would look like a change on the side that still has it.
So the trees of all best common ancestors are merged, path by path, as Git's recursive strategy
does.

If two trees differ at a path, the tree that changed the path since the best common ancestors of the
two trees' commits wins. The content of these ancestors is found in the same way. With several
trees, a tree that has not changed the path relative to some other tree is ignored, and the content
of the remaining trees wins. So the order of the commits does not matter. If the remaining trees
have different contents, the path is undecided: it was changed, or a conflict was resolved, in
different ways.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

from lakecli.base.model import MetarangeId
from lakecli.committed.tree_store import MissingTable

T = TypeVar("T")


class Ancestors(NamedTuple):
    """The best common ancestors of two commits.

    Attributes:
        trees: the trees of the ancestors; none if they are unknown, or too many to be merged.
        below: the best common ancestors of pairs of these trees. A key is a pair of positions in
            `trees`, the smaller first; the value is a position in `MergeBase.ancestors`. A pair is
            missing if its ancestors were not looked up.
    """

    trees: tuple[MetarangeId, ...]
    below: Mapping[tuple[int, int], int]


class MergeBase(NamedTuple):
    """The base of a merge of two commits: only IDs of trees, which other processes can receive.

    Attributes:
        ancestors: first the best common ancestors of the two commits; then those of each pair of
            ancestors that `Ancestors.below` names. The ancestors of a pair are older than the pair,
            so these references have no cycles.
    """

    ancestors: tuple[Ancestors, ...]

    @classmethod
    def of(cls, tree: MetarangeId) -> "MergeBase":
        """Return a base that is a single tree."""
        return cls((Ancestors((tree,), {}),))

    @property
    def trees(self) -> tuple[MetarangeId, ...]:
        """The trees of the best common ancestors of the two commits."""
        return self.ancestors[0].trees

    @property
    def only_tree(self) -> MetarangeId | None:
        """The tree of the base if the base is a single tree, else ``None``."""
        return self.trees[0] if len(self.trees) == 1 else None

    def resolve(
        self, content_of: Callable[[MetarangeId], T], is_same: Callable[[T, T], bool]
    ) -> Sequence[T]:
        """Return the content of the base for one path or segment: one element if it is decided.

        If it is undecided, the result is empty or has several elements. It is also undecided if
        older trees (of the ancestors' own ancestors) are missing, because garbage collection
        deletes expired trees.

        Args:
            content_of: a function that returns the content of a tree.

        Raises:
            IntegrityError: a table that had to be read is damaged, or a table of a best common
                ancestor of the two commits is missing.
        """

        @cache
        def resolved(number: int) -> Sequence[T]:
            """Return the content of ``ancestors[number]``; number 0 is the result of `resolve`."""
            trees, below = self.ancestors[number]
            try:
                contents: Sequence[T] = [content_of(tree) for tree in trees]
            except MissingTable:
                if not number:
                    raise
                contents = ()

            def is_changed(one: int) -> bool:
                """Return whether a tree changed the content since its ancestors with another tree.

                If the content of these ancestors is not decided, it counts as changed.
                """
                for other in range(len(contents)):
                    pair = below.get((min(one, other), max(one, other)))
                    before = () if pair is None else resolved(pair)
                    if one != other and (len(before) != 1 or not is_same(before[0], contents[one])):
                        return True
                return False

            if contents and all(is_same(contents[0], each) for each in contents):
                return contents[:1]
            found = [each for at, each in enumerate(contents) if is_changed(at)]
            return found[:1] if found and all(is_same(found[0], x) for x in found) else contents

        return resolved(0)
