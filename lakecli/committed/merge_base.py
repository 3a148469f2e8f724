"""The base of a merge: one tree, or what several trees merge to.

Two branches that were merged into each other at the same time have two best common ancestors, of
which none descends from the other (a criss-cross). With only one of them as the base, what the
other one deleted or took back would look like a change of the side that still has it. So the trees
of all of them are merged, path by path, as Git's recursive strategy does.

If two trees differ at a path, the one wins that changed it since the best common ancestors of their
two commits, whose content is found in the same way. With several trees, one that changed nothing at
the path relative to any other is left out, and the content of the rest wins. So the order of the
commits does not matter. If it is not one content, the path is undecided: it was
changed, or a conflict was resolved, in different ways.
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
        below: where in `MergeBase.ancestors` those of a pair of them are, by the positions of their
            trees, the smaller first. A pair is missing if it was not followed.
    """

    trees: tuple[MetarangeId, ...]
    below: Mapping[tuple[int, int], int]


class MergeBase(NamedTuple):
    """What two commits have in common; it holds IDs only, so it can be sent to other processes.

    Attributes:
        ancestors: first those of the two commits, then those of pairs of ancestors. What one refers
            to are ancestors of earlier generations, so nothing leads back to it.
    """

    ancestors: tuple[Ancestors, ...]

    @classmethod
    def of(cls, tree: MetarangeId) -> MergeBase:
        """Return the base that is one tree."""
        return cls((Ancestors((tree,), {}),))

    @property
    def trees(self) -> tuple[MetarangeId, ...]:
        """The trees of the best common ancestors of the two commits."""
        return self.ancestors[0].trees

    @property
    def only_tree(self) -> MetarangeId | None:
        """The tree if it is one; ``None`` if several are merged."""
        return self.trees[0] if len(self.trees) == 1 else None

    def resolve(
        self, content_of: Callable[[MetarangeId], T], is_same: Callable[[T, T], bool]
    ) -> Sequence[T]:
        """Return the content of the base at one place; any other number than one is undecided.

        Raises:
            IntegrityError: a table that had to be read is damaged, or missing of the best common
                ancestors of the two commits. Where trees of their ancestors are missing, as
                garbage collection deletes expired ones, the content is undecided.
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
            """Return whether a tree has other content than it had in common with some other one."""
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
