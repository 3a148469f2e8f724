"""Deleting what was condemned: all that is still old, still unreached, and not kept."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.layout import SSTABLES, data_digest, data_key
from lakecli.pipeline.gc.live import DIGEST, RECORD, DigestSet, split
from lakecli.pipeline.gc.mark import (
    KINDS,
    Tally,
    abandoned,
    kinds_of,
    list_tables,
    new_reach,
    part_name,
    part_of,
)
from lakecli.pipeline.gc.marks import Marks, add_expired
from lakecli.pipeline.gc.reach import batches
from lakecli.pipeline.gc.roots import gather
from lakecli.pipeline.gc.tasks import list_data
from lakecli.pipeline.site import Site
from lakecli.remote.collection import StateMoved, iter_expired, iter_keeps, read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakecli.pipeline.gc.mark import Work
    from lakecli.pipeline.gc.reach import Reach
    from lakecli.remote.collection import GcState

BATCH: Final = 1_000
"""Keys of one delete, as many as stores take; the state is read before each."""

_PARALLELISM: Final = 8


class Swept(NamedTuple):
    """What a sweep deletes, and how many condemned objects it spares."""

    tallies: list[Tally]
    spared: int


class Sweep:
    """One sweep, or what one would do.

    Args:
        work: with what.
        marks: what was condemned.
        epoch: when.
    """

    def __init__(self, work: Work, marks: Marks, epoch: int) -> None:
        self._work = work
        self._store = work.repository.store
        self._marks = marks
        self._epoch = epoch
        self._counts: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()
        self._spared = 0

    def run(self, delete: Callable[[Iterable[str]], None] | None) -> Swept:
        """Find out what may go, and have it deleted.

        Args:
            delete: deletes keys; ``None``: only count.

        Raises:
            LostMarks: it is not known what was condemned.
            LostHistory, MissingTable, DamagedPack, …: something that counts is missing or damaged.
        """
        with DigestSet() as live:
            reach, kept = self._remark(live)
            others = list(self._others(reach, kept))
            if delete is not None:
                trees = [each for each in others if each[1] == "metarange"]
                add_expired(
                    self._store, self._epoch, (key.removeprefix(SSTABLES) for key, _ in trees)
                )
                # A tree goes before what it refers to.
                delete(key for key, _ in trees)
                delete(key for key, kind in others if kind != "metarange")
            for keys in self._data(live):
                if delete is not None:
                    delete(keys)
        self._uploads(really=delete is not None)
        tallies = [
            Tally(kind, self._counts[kind], self._sizes[kind])
            for kind in KINDS
            if self._counts[kind]
        ]
        return Swept(tallies, self._spared)

    def _remark(self, live: DigestSet) -> tuple[Reach, frozenset[str]]:
        """Follow what has come into use since: refs, recent tables, keeps; in this order."""
        work, store = self._work, self._store
        reach = new_reach(work, live)
        # They refer to nothing that is condemned.
        reach.trees, reach.ranges = self._marks.read_trees(), self._marks.read_ranges()
        roots = gather(
            work.repository, live, now=work.times.now, grace=work.times.grace, rules=work.rules
        )
        reach.follow(roots.trees, must_exist=True, collected=frozenset(iter_expired(store)))
        reach.follow(roots.own_trees, must_exist=False)
        tables = list_tables(work, Counter())
        kept = frozenset(iter_keeps(store, self._epoch))
        kept_tables = {key.removeprefix(SSTABLES) for key in kept if key.startswith(SSTABLES)}
        wanted = {each for each, info in tables.items() if not info.is_old} | kept_tables
        kinds = kinds_of(work, tables, (wanted & tables.keys()) - reach.trees - reach.ranges)
        reach.follow(
            [each for each, kind in kinds.items() if kind == "metaranges"],
            [each for each, kind in kinds.items() if kind == "ranges"],
            must_exist=False,
        )
        digests = sorted(filter(None, map(data_digest, kept)))
        live.add(b"".join(map(bytes.fromhex, digests)))
        return reach, kept

    def _others(self, reach: Reach, kept: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Yield key and kind of what may go, other than data."""
        doomed = {each.key: each for each in self._marks.others()}
        prefixes = sorted({KINDS[each.kind][0] for each in doomed.values()})
        cutoff = self._work.times.cutoff
        reached = reach.trees | reach.ranges
        for prefix in prefixes:
            for info in self._store.list(prefix):
                each = doomed.get(info.key)
                if each is None:
                    continue
                if (
                    info.modified_at >= cutoff
                    or info.key in kept
                    or info.key.removeprefix(SSTABLES) in reached
                ):
                    self._spared += 1
                    continue
                self._counts[each.kind] += 1
                self._sizes[each.kind] += info.size
                yield info.key, each.kind

    def _data(self, live: DigestSet) -> Iterator[list[str]]:
        """Yield the keys of data objects that may go, part by part."""
        before = self._work.times.cutoff.timestamp()
        task = partial(list_data, site=Site.of(self._work.repository), store=self._work.here)
        parts = [part_of(name, before) for name in self._marks.data_parts()]
        for part, listed in self._work.runner.run(task, parts):
            present = {record[:DIGEST] for record in split(listed.records)}
            condemned = self._marks.data(part_name(part))
            unreached = live.without(condemned)
            self._spared += (len(condemned) - len(unreached)) // RECORD
            keys = []
            for record in split(unreached):
                if record[:DIGEST] in present:
                    self._counts["data"] += 1
                    self._sizes["data"] += int.from_bytes(record[DIGEST:])
                    keys.append(data_key(record[:DIGEST].hex()))
            yield keys

    def _uploads(self, *, really: bool) -> None:
        from lakecli.objectstore.uploads import UploadId, uploads_of

        uploads = uploads_of(self._store)
        if uploads is None:
            return
        for key, upload in list(abandoned(self._store, self._work.times.cutoff)):
            self._counts["upload"] += 1
            if really:
                uploads.abort(key, UploadId(upload))


def deleter(work: Work, state: GcState) -> Callable[[Iterable[str]], None]:
    """Return what deletes keys, as long as the sweep is ours."""
    store = work.repository.store
    on_step = work.repository.lake.surroundings.on_step

    def delete(keys: Sequence[str]) -> None:
        # Another machine may have taken the sweep over, and ended it.
        if read_state(store).write_id != state.write_id:
            raise StateMoved(
                f"another machine has taken over the garbage collection of {store.uri}",
                hint="look at it: lakecli gc status lakefs://REPOSITORY",
            )
        store.delete(keys)

    def delete_all(keys: Iterable[str]) -> None:
        with ThreadPoolExecutor(_PARALLELISM) as pool:
            for batch in batches(keys, BATCH * _PARALLELISM):
                on_step("gc:delete")
                list(pool.map(delete, batches(batch, BATCH)))

    return delete_all
