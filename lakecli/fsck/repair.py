"""Check, repair, and check again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from lakecli.errors import LakeError
from lakecli.repository.contract import Repository
from lakecli.repository.records import namespace
from lakecli.fsck import history
from lakecli.repository import intact_copies as objects
from lakecli.fsck.findings import (
    Damage,
    Finding,
    FsckCounts,
    Lost,
    RepairCounts,
    Repaired,
    describe_losses,
)

ROUNDS: Final = 6
"""Checks at most: each repaired table may reveal problems of what it refers to."""


def repair(
    repository: Repository,
    check: Callable[[FsckCounts], Iterator[Finding]],
    *,
    places: Collection[str] = (),
    dry_run: bool = False,
    counts: RepairCounts | None = None,
) -> Iterator[Finding | Repaired | Lost]:
    """Repair what can be repaired; yield the findings, the repairs, and last what is lost.

    Args:
        repository: the repository to repair.
        check: runs `fsck` with the given counts.
        places: directories with files that may be lost objects, and URIs of copies of the
            namespace.
        dry_run: report what would be repaired, and change nothing; problems that repaired trees
            would reveal are not found.
        counts: updated while this runs.

    Raises:
        Unreachable: the store does not answer.
        PermissionDenied: writing to the namespace is not allowed.
    """
    counts = counts or RepairCounts()
    for repaired in objects.repair_cache(repository, dry_run=dry_run):
        counts.repaired += 1
        yield repaired
    reported: set[tuple[str, str, bytes | None]] = set()
    for number in range(ROUNDS):
        counts.checked = FsckCounts()
        damages: dict[tuple[str, str], Damage] = {}
        for finding in check(counts.checked):
            identity = (finding.kind, finding.name, finding.path)
            if identity not in reported:
                reported.add(identity)
                yield finding
            key = (finding.kind, finding.name)
            damages.setdefault(key, Damage(*key, finding.what)).add(finding)
        if not damages or number == ROUNDS - 1:
            break
        repaired_any = False
        for repaired in _repair(repository, list(damages.values()), places, dry_run=dry_run):
            repaired_any = True
            counts.repaired += 1
            if dry_run:
                damages.pop((repaired.kind, repaired.name), None)
            yield repaired
        if dry_run or not repaired_any:
            break
        repository.forget_trees()
    for lost in describe_losses(repository, damages.values()):
        counts.lost += 1
        yield lost


def _repair(
    repository: Repository, damages: list[Damage], places: Collection[str], *, dry_run: bool
) -> Iterator[Repaired]:
    """Repair the findings of one check, as far as possible."""

    def of(*kinds: str) -> list[Damage]:
        return [damage for damage in damages if damage.kind in kinds]

    for damage in of("repository"):
        if _repair_claim(repository, dry_run=dry_run):
            yield Repaired("repository", damage.name, "written again")
    if of("ref", "commit"):
        yield from history.repair_local(repository, dry_run=dry_run)
        yield from history.repair_refs(repository, of("ref"), dry_run=dry_run)
    if of("ref", "commit", "pack"):
        yield from history.repair_packs(repository, dry_run=dry_run)
    tables = of("metarange", "range")
    yield from objects.repair_tables(repository, tables, places, dry_run=dry_run)
    yield from objects.repair_data(repository, of("data"), places, dry_run=dry_run)


def _repair_claim(repository: Repository, *, dry_run: bool) -> bool:
    try:
        owner = namespace.owner_of(repository.store)
    except LakeError:
        owner = None
    if owner is not None:
        return False
    if not dry_run:
        namespace.restore(repository.store, repository.record)
    return True
