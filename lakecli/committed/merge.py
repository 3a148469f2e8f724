"""Three-way merge of base, source and destination.

The result for one path, where A, B and C are different contents:

    ======  ======  ===========  ============================================
    base    source  destination  result
    ======  ======  ===========  ============================================
    A       A       any          the destination: the source did not change it
    A       any     A            the source: only the source changed it
    any     B       B            B: both made the same change; the destination's record is kept
    any     B       C            conflict: both changed it differently
    ======  ======  ===========  ============================================

An absent path counts as a content. `Decisions` choose a side for conflicts only. `merge` reads all
conflicts first, and writes nothing if one is left open. If the base is merged from several trees
and undecided at a path, the path is a conflict unless both sides agree; see `merge_base`.

Contents differ if their identities differ. For the same bytes, an entry written by lakeFS has an
MD5 and an entry written by lakecli a BLAKE3. The identities of such entries differ, so a merge
reports a conflict, although there may be none.

The three trees are cut into segments at keys that no range of any tree spans, so that the ranges of
a segment can be compared by ID. If two of the three sides of a segment are equal, the result of the
segment is known without reading it. Otherwise its records are compared, except where base and
source are equal. A base of several trees is first compared by ranges, too. If this does not decide
a segment, each path that differs between source and destination is looked up in each base tree.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import combinations
from typing import Final, NamedTuple

from lakecli.base.identity import Evidence, evidence_of
from lakecli.base.model import EMPTY_TREE, ChangeType, Difference, MetarangeId
from lakecli.committed.decisions import Decide, Decisions, MergeSide, is_table_log
from lakecli.committed.diff import differences, interval
from lakecli.committed.merge_base import MergeBase
from lakecli.committed.metaranges import Metarange
from lakecli.committed.scan import Cursor, Pair, end_position, iter_pairs, type_of
from lakecli.committed.segments import Segment, Slice, segments
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import decode_entry, is_same
from lakecli.committed.writer import Application, Change, canonical, find_canonical
from lakecli.errors import ConflictError, IntegrityError

ONE_SIDE: Final = (
    "change them on one side, or choose one for all: `strategy=source-wins` or "
    "`strategy=dest-wins`; or for some: `take=source:PATTERN` or `take=dest:PATTERN`"
)


def merge(
    trees: TreeStore,
    *,
    base: MergeBase,
    source: MetarangeId,
    destination: MetarangeId,
    decisions: Decisions,
    hint: str = ONE_SIDE,
) -> MetarangeId:
    """Merge `source` into `destination`, make the result durable and return it.

    The result is `destination` itself if no path differs from it.

    Args:
        decisions: the rules that choose a side for conflicts.
        hint: the hint of the error about conflicts that are left open.

    Raises:
        MergeConflict: the decisions leave conflicts open; nothing is written.
        OutdatedPlan: the plan of the decisions does not match the conflicts; nothing is written.
    """
    load = partial(find_canonical, trees)
    conflicts = Conflicts()
    with decisions.begin() as decide:
        for each in iter_conflicts(
            trees, base=base, source=source, destination=destination, load=load
        ):
            if decide(each.path, each.source, each.destination) is None:
                conflicts.add(each.path, unlike_checksums=may_be_none(each))
    conflicts.check(hint=hint)
    if source in {base.only_tree, destination}:
        return destination
    theirs = find_canonical(trees, source)
    if destination == base.only_tree:
        return source
    ours = canonical(trees, destination)  # only this tree must have lakecli's ranges
    application = Application(trees, bases=(ours, theirs))
    sides = Sides(trees, base, theirs, ours, load=load)
    with decisions.begin() as decide:
        for segment in sides.segments():
            more = not segment.is_last
            if segment.keeps_destination:
                application.run(segment.destination, (), more=more)
            elif segment.takes_source:
                application.take(segment.source, more=more)
            else:
                changes = _changes(sides.candidates(segment), decide, hint)
                application.run(segment.destination, changes, more=more)
    merged = application.finish(destination)
    return destination if merged == ours.id else merged


def _changes(candidates: "Iterator[Candidate]", decide: Decide, hint: str) -> Iterator[Change]:
    """Yield the paths at which the source wins, with the source's values, in path order."""
    for each in candidates:
        side: MergeSide | None = MergeSide.SOURCE
        if each.is_conflict:
            side = decide(each.path, each.source, each.destination)
        if side is None:  # the plan was edited since it was checked
            conflicts = Conflicts()
            conflicts.add(each.path, unlike_checksums=may_be_none(each))
            raise MergeConflict(conflicts, hint=hint)
        if side is MergeSide.SOURCE:
            yield each.path, each.source


def iter_conflicts(
    trees: TreeStore,
    *,
    base: MergeBase,
    source: MetarangeId,
    destination: MetarangeId,
    load: Callable[[MetarangeId], Metarange] | None = None,
) -> "Iterator[Candidate]":
    """Yield the conflicts of a merge, in path order.

    Args:
        load: as for `Sides`, for all trees.
    """
    if source in {base.only_tree, destination} or destination == base.only_tree:
        return
    load = load or trees.metarange
    sides = Sides(trees, base, load(source), load(destination), load=load)
    for segment in sides.segments():
        if segment.is_contested:
            yield from (each for each in sides.candidates(segment) if each.is_conflict)


def compare(
    trees: TreeStore,
    *,
    base: MergeBase,
    left: MetarangeId,
    right: MetarangeId,
    prefix: bytes = b"",
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Difference]:
    """Yield the changes that merging `right` into `left` would make, and the conflicts, by path.

    Paths that changed only on the left, or in the same way on both sides, are not yielded.

    Args:
        start: the first path to compare.
        stop: the path before which the comparison ends; ``None``: the end of the prefix.
    """
    start, stop = interval(prefix, start, stop)
    sides = Sides(trees, base, trees.metarange(right), trees.metarange(left))
    for segment in sides.segments(start=start, stop=stop):
        if segment.keeps_destination:
            continue
        if segment.takes_source:  # no need to read the destination
            yield from differences(sides.pairs(segment.base, segment.source, start, stop))
            continue
        for candidate in sides.candidates(segment, start=start, stop=stop):
            path, _, source, destination = candidate
            is_conflict = candidate.is_conflict
            kind = ChangeType.CONFLICT if is_conflict else type_of(destination, source)
            unlike = is_conflict and may_be_none(candidate)
            yield Difference(kind, path, destination, source, unlike)


class Candidate(NamedTuple):
    """A path where the source differs from the base and from the destination.

    Values are encoded entries, or ``None`` if the path is absent.

    Attributes:
        bases: a sequence with the value of the base. If the base is undecided, the sequence is
            empty or has several values.
    """

    path: bytes
    bases: Sequence[bytes | None]
    source: bytes | None
    destination: bytes | None

    @property
    def is_conflict(self) -> bool:
        """Whether the destination changed the path too, or the base is undecided."""
        return len(self.bases) != 1 or not is_same(self.destination, self.bases[0])


class Sides:
    """The three sides of a merge; segments that are equal on two sides are not read.

    Args:
        load: a function that returns a tree of the base; ``None``: the trees are read from `trees`.
    """

    def __init__(
        self,
        trees: TreeStore,
        base: MergeBase,
        source: Metarange,
        destination: Metarange,
        *,
        load: Callable[[MetarangeId], Metarange] | None = None,
    ) -> None:
        self._trees = trees
        self._base = base
        self._source = source
        self._destination = destination
        self._load = cache(load or trees.metarange)
        self._finders: dict[MetarangeId, _Finder] = {}

    def segments(self, *, start: bytes = b"", stop: bytes | None = None) -> Iterator[Segment]:
        """Cut the three sides into segments, in key order, as `segments.segments` does."""
        first = self._load(next(iter(self._base.trees), EMPTY_TREE))
        found = segments(first, self._source, self._destination, start=start, stop=stop)
        if self._base.only_tree is not None:
            yield from found
            return
        for segment in found:
            after = segment.end + b"\0"
            yield self._with_base(segment, start, after)
            start = after

    def _with_base(self, segment: Segment, start: bytes, stop: bytes) -> Segment:
        """Return a segment with the base's ranges, if comparing range IDs is enough to find them.

        The base's ranges may reach beyond the segment, but source and destination have no ranges
        there.
        """
        if segment.source.is_same(segment.destination):
            return segment
        found = self._base.resolve(partial(self._slice, start, stop), Slice.is_same)
        if len(found) != 1:
            return segment._replace(is_decided=False)
        return segment._replace(base=found[0])

    def _slice(self, start: bytes, stop: bytes, tree: MetarangeId) -> Slice:
        """Return the ranges of a tree that may have keys from `start` to before `stop`."""
        found = self._load(tree)
        return Slice(found, found.find(start), end_position(found, stop))

    def candidates(
        self, segment: Segment, *, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[Candidate]:
        """Yield the paths of a segment where the source differs from base and destination."""
        if segment.is_decided:
            finder = _Finder(self._trees, segment.destination)
            for path, before, after in self.pairs(segment.base, segment.source, start, stop):
                ours = finder.find(path)
                if not is_same(after, ours):
                    yield Candidate(path, (before,), after, ours)
            return
        for path, ours, after in self.pairs(segment.destination, segment.source, start, stop):
            bases = self._base.resolve(partial(self._value, path), is_same)
            if len(bases) != 1 or not is_same(after, bases[0]):
                yield Candidate(path, bases, after, ours)

    def pairs(self, left: Slice, right: Slice, start: bytes, stop: bytes | None) -> Iterator[Pair]:
        """Yield the records that differ between two slices, from `start` to before `stop`."""
        cursor = partial(Cursor, self._trees, start=start, stop=stop)
        old, new = (cursor(side.tree, first=side.first, last=side.last) for side in (left, right))
        return iter_pairs(old, new)

    def _value(self, path: bytes, tree: MetarangeId) -> bytes | None:
        """Return the value of a path in a tree of the base; calls must be in path order."""
        finder = self._finders.get(tree)
        if finder is None:
            found = self._load(tree)
            finder = self._finders[tree] = _Finder(self._trees, Slice(found, 0, len(found)))
        return finder.find(path)


class _Finder:
    """Looks up paths in some ranges of a tree; the caller asks for paths in ascending order.

    Only the block of the last path is kept decoded.
    """

    def __init__(self, trees: TreeStore, ranges: Slice) -> None:
        self._trees = trees
        self._ranges = ranges
        self._position = ranges.first
        self._decoded: tuple[int, int] | None = None
        """The position of the range and the number of the block whose records are kept."""
        self._records: dict[bytes, bytes] = {}

    def find(self, key: bytes) -> bytes | None:
        tree, _, last = self._ranges
        self._position = position = tree.find(key, self._position)
        if position >= last:
            return None
        record = tree.record(position)
        if key < record.min_key:
            return None
        table = self._trees.table(record)
        number = table.find_block(key)
        if number == table.block_count:
            return None
        if self._decoded != (position, number):
            self._decoded = position, number
            self._records = dict(zip(*table.block(number), strict=True))
        return self._records.get(key)


MAX_CONFLICTS_LISTED: Final = 1_000

TABLE_LOGS: Final = (
    "append the rows of one side to the table again, on the other side; or lose them: "
    "`table_logs=True` with `strategy=source-wins` or `take=source:PATTERN`"
)


class Conflicts:
    """Counts conflicts, and lists the first of them.

    Attributes:
        count: number of conflicts.
        paths: the paths of the listed conflicts.
        unlike: the listed paths for which `may_be_none` is true.
        unlikes: number of all conflicts for which `may_be_none` is true, listed or not.
        logs: number of conflicts in the logs of tables.
    """

    def __init__(self) -> None:
        self.paths: list[bytes] = []
        self.unlike: list[bytes] = []
        self.count = self.unlikes = self.logs = 0

    def add(self, path: bytes, *, unlike_checksums: bool) -> None:
        """Count a conflict, and list it if it is among the first `MAX_CONFLICTS_LISTED`."""
        self.count += 1
        self.unlikes += unlike_checksums
        self.logs += is_table_log(path)
        if self.count <= MAX_CONFLICTS_LISTED:
            self.paths.append(path)
            if unlike_checksums:
                self.unlike.append(path)

    def check(self, *, hint: str = ONE_SIDE) -> None:
        """Raise `MergeConflict` if there are conflicts; `hint` says what the user can do."""
        if self.count:
            raise MergeConflict(self, hint=hint)


class MergeConflict(ConflictError):
    """Both sides changed the same paths differently.

    Attributes:
        count: number of paths; ``paths`` lists the first `MAX_CONFLICTS_LISTED` of them.
        unlike_checksums: the listed paths for which `may_be_none` is true.
    """

    def __init__(self, found: Conflicts, *, hint: str = ONE_SIDE) -> None:
        count, unlikes, logs = found.count, found.unlikes, found.logs
        what = "1 path was" if count == 1 else f"{count:,} paths were"
        message = f"merge conflict: {what} changed differently on both sides"
        if unlikes:
            those = "it" if count == 1 else f"{unlikes:,} of them"
            message += (
                f"; {those} may be no conflict: entries have one size, but one has an MD5 (from "
                "lakeFS) and the other a BLAKE3"
            )
        if logs:
            those = "it" if count == 1 else f"{logs:,} of them"
            are = "is" if logs == 1 else "are"
            message += (
                f"; {those} {are} in the log of a table: to take the file of one side drops the "
                "rows that the other side appended"
            )
        super().__init__(message, hint=TABLE_LOGS if logs == count else hint, paths=found.paths)
        self.count = count
        self.unlike_checksums = tuple(found.unlike)


def may_be_none(conflict: Candidate) -> bool:
    """Return whether a conflict may be false: two of its objects may have the same bytes."""
    values = (conflict.source, conflict.destination, *conflict.bases)
    return any(have_unlike_checksums(*pair) for pair in combinations(values, 2))


def have_unlike_checksums(left: bytes | None, right: bytes | None) -> bool:
    """Return whether two encoded entries have equal sizes, but checksums that cannot be compared.

    One checksum is an MD5 and the other a BLAKE3, so only the objects' bytes can show whether they
    are the same.
    """
    if not left or not right:
        return False
    try:
        one, other = decode_entry(left), decode_entry(right)
    except IntegrityError:
        return False
    kinds = {evidence_of(one.checksum), evidence_of(other.checksum)}
    return one.size == other.size and kinds == {Evidence.MD5, Evidence.BLAKE3}
