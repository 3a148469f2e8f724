"""Count the places outside the storage namespace that a repository's entries name."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from lakecli.committed.check import Problem, check_metarange, check_range
from lakecli.errors import LakeError, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading import addresses

SAMPLED_RANGES: Final = 16
"""The number of ranges of the newest tree that are read as a sample."""

MAX_PLACES: Final = 1_000
"""The largest number of places counted separately; forged entries may name any number."""

OTHERS: Final = "(other places)"
NO_STORE: Final = "(addresses of no store)"


class CountedPlace(NamedTuple):
    """A place outside the namespace: a bucket, a directory, or a prefix in the namespace's bucket.

    Attributes:
        uri: URI of the bucket, directory or prefix, or `OTHERS`, or `NO_STORE`.
        objects: number of counted objects in the place.
        allowed: whether this machine may read the objects.
    """

    uri: str
    objects: int
    allowed: bool


class Outside(NamedTuple):
    """The places outside the namespace that a sample of the newest tree names.

    Attributes:
        places: the counted places, ordered by number of objects, the largest first.
        ranges: the number of ranges of the tree.
    """

    places: tuple[CountedPlace, ...]
    ranges_read: int
    ranges: int


def place_of_address(trust: addresses.Trust, address: str) -> str:
    """Return the place of an address that is a full URI; see `Trust.place_to_allow`."""
    try:
        return trust.place_to_allow(*addresses.split_address(addresses.split_pin(address).uri))
    except UsageError:
        return NO_STORE


def count_place(counts: dict[str, int], place: str, objects: int = 1) -> None:
    """Count objects in a place; beyond `MAX_PLACES` places, new places count as `OTHERS`."""
    if place not in counts and len(counts) >= MAX_PLACES:
        place = OTHERS
    counts[place] = counts.get(place, 0) + objects


def places_in(repository: Repository, counts: Mapping[str, int]) -> tuple[CountedPlace, ...]:
    """Return the counted places except the namespace, the place with the most objects first."""
    trust = addresses.trust_of(repository)
    outside = ((uri, objects) for uri, objects in counts.items() if uri != trust.namespace)
    ordered = sorted(outside, key=lambda item: (-item[1], item[0]))
    return tuple(CountedPlace(uri, count, _is_allowed(trust, uri)) for uri, count in ordered)


def allowable(places: Iterable[CountedPlace], trust: addresses.Trust) -> list[str]:
    """Return the URIs of the places that are not allowed yet, and that a user can allow."""
    refused = (place.uri for place in places if not place.allowed)
    return [uri for uri in refused if _is_allowed(trust._replace(allowed=(uri,)), uri)]


def look(repository: Repository, *, ranges: int = SAMPLED_RANGES) -> Outside:
    """Count objects outside the namespace, by place, in a sample of the default branch's tree.

    At most `ranges` ranges are read, spread evenly over the tree. Unreadable ranges are skipped:
    `fsck` reports them.
    """
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        branch = refs.find_branch(repository.record.default_branch)
        commit = None if branch is None else refs.find_commit(branch.commit_id)
    if commit is None:
        return Outside((), 0, 0)
    records, _ = check_metarange(repository.trees, commit.metarange_id)
    step = max(1, -(-len(records) // ranges))
    counts: dict[str, int] = {}
    trust = addresses.trust_of(repository)
    chosen = records[::step]
    for record in chosen:
        for item in check_range(repository.trees, record):
            if not isinstance(item, Problem) and addresses.is_outside(item.physical_address):
                count_place(counts, place_of_address(trust, item.physical_address))
    return Outside(places_in(repository, counts), len(chosen), len(records))


def _is_allowed(trust: addresses.Trust, uri: str) -> bool:
    if uri in (OTHERS, NO_STORE):
        return False
    try:
        trust.check(uri, "x")
    except LakeError:  # the place is not allowed, or only a prefix in it is
        return False
    return True
