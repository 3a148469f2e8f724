"""Repairing: check, mend, and check again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.errors import LakeError
from lakecli.repository.core import namespace
from lakecli.repository.core.findings import FsckCounts
from lakecli.repository.repair import history, objects
from lakecli.repository.repair.losses import describe_losses
from lakecli.repository.repair.records import Damage, Lost, RepairCounts, Repaired

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from lakecli.repository.core.findings import Finding
    from lakecli.repository.core.lake import Repository

ROUNDS: Final = 6
"""Checks, at most: what a metarange hides shows when it is mended, and then what its ranges do."""


def repair(
    repository: Repository,
    check: Callable[[FsckCounts], Iterator[Finding]],
    *,
    places: Collection[str] = (),
    dry_run: bool = False,
    counts: RepairCounts | None = None,
) -> Iterator[Finding | Repaired | Lost]:
    """Heal what can be healed; yield what is found, what was mended, and last what is lost.

    Args:
        repository: to repair.
        check: runs `fsck` with these counts.
        places: directories whose files may be lost objects, and URIs of copies of the namespace.
        dry_run: tell what would be mended, and change nothing; what mended trees would bring to
            light is not known then.
        counts: updated while this runs.

    Raises:
        Unreachable: the store does not answer.
        PermissionDenied: the namespace may not be written.
    """
    counts = counts or RepairCounts()
    for mended in objects.mend_cache(repository, dry_run=dry_run):
        counts.repaired += 1
        yield mended
    told: set[tuple[str, str, bytes | None]] = set()
    for number in range(ROUNDS):
        counts.checked = FsckCounts()
        damages: dict[tuple[str, str], Damage] = {}
        for finding in check(counts.checked):
            identity = (finding.kind, finding.name, finding.path)
            if identity not in told:
                told.add(identity)
                yield finding
            key = (finding.kind, finding.name)
            damages.setdefault(key, Damage(*key, finding.what)).add(finding)
        if not damages or number == ROUNDS - 1:
            break
        mended_any = False
        for mended in _mend(repository, list(damages.values()), places, dry_run=dry_run):
            mended_any = True
            counts.repaired += 1
            if dry_run:
                damages.pop((mended.kind, mended.name), None)
            yield mended
        if dry_run or not mended_any:
            break
        repository.forget_trees()
    for lost in describe_losses(repository, damages.values()):
        counts.lost += 1
        yield lost


def _mend(
    repository: Repository, damages: list[Damage], places: Collection[str], *, dry_run: bool
) -> Iterator[Repaired]:
    """Mend what can be mended of one check's findings."""

    def of(*kinds: str) -> list[Damage]:
        return [damage for damage in damages if damage.kind in kinds]

    for damage in of("repository"):
        if _mend_claim(repository, dry_run=dry_run):
            yield Repaired("repository", damage.name, "written again")
    if of("ref", "commit"):
        yield from history.mend_local(repository, dry_run=dry_run)
        yield from history.mend_refs(repository, of("ref"), dry_run=dry_run)
    if of("ref", "commit", "pack"):
        yield from history.mend_packs(repository, dry_run=dry_run)
    tables = of("metarange", "range")
    yield from objects.mend_tables(repository, tables, places, dry_run=dry_run)
    yield from objects.mend_data(repository, of("data"), places, dry_run=dry_run)


def _mend_claim(repository: Repository, *, dry_run: bool) -> bool:
    try:
        owner = namespace.owner_of(repository.store)
    except LakeError:
        owner = None
    if owner is not None:
        return False
    if not dry_run:
        namespace.restore(repository.store, repository.record)
    return True
