from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.kv import file_digests
from lakecli.kv.file_digests import MINIMUM_AGE_NS, FileKey
from tests.support.stores import scratch

if TYPE_CHECKING:
    from lakecli.kv.local_store import LocalStore

NOW = 1_780_000_000_123_456_789
DIGEST = "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f"
OLD = FileKey(
    device=2**64 - 1,
    inode=2**64 - 1,
    path=b"/home/ann/a \xff.csv",
    size=5,
    mtime_ns=NOW - MINIMUM_AGE_NS,
    ctime_ns=NOW - MINIMUM_AGE_NS,
)


def test_an_unchanged_file_is_known(store: LocalStore) -> None:
    with scratch(store) as txn:
        assert file_digests.find_digest(txn, OLD) is None
        assert file_digests.remember_digests(txn, [(OLD, DIGEST, NOW)]) == 1
        assert file_digests.find_digest(txn, OLD) == DIGEST


@pytest.mark.parametrize(
    "changed",
    [
        OLD._replace(device=OLD.device - 1),
        OLD._replace(inode=OLD.inode - 1),
        OLD._replace(path=OLD.path + b"x"),
        OLD._replace(size=OLD.size + 1),
        OLD._replace(mtime_ns=OLD.mtime_ns - 1),
        OLD._replace(ctime_ns=OLD.ctime_ns - 1),
    ],
)
def test_any_difference_makes_it_unknown(store: LocalStore, changed: FileKey) -> None:
    with scratch(store) as txn:
        file_digests.remember_digests(txn, [(OLD, DIGEST, NOW)])
        assert file_digests.find_digest(txn, changed) is None


@pytest.mark.parametrize("age", [MINIMUM_AGE_NS - 1, 0, -1, -MINIMUM_AGE_NS])
def test_a_young_file_is_not_remembered(store: LocalStore, age: int) -> None:
    for young in (OLD._replace(mtime_ns=NOW - age), OLD._replace(ctime_ns=NOW - age)):
        with scratch(store) as txn:
            assert file_digests.remember_digests(txn, [(young, DIGEST, NOW)]) == 0
            assert file_digests.find_digest(txn, young) is None


def test_the_age_counts_when_hashing_begins(store: LocalStore) -> None:
    """However long the upload takes that remembers the digest: pages may be written until then."""
    times = [(MINIMUM_AGE_NS - 1, 0), (MINIMUM_AGE_NS, 1), (30 * 10**9 - 1, 0), (30 * 10**9, 1)]
    for age, remembered in times:
        with scratch(store) as txn:
            hashed_at = OLD.mtime_ns + age
            assert file_digests.remember_digests(txn, [(OLD, DIGEST, hashed_at)]) == remembered


def test_times_that_have_no_record_are_not_remembered(store: LocalStore) -> None:
    for time in (2**63, 2**64, -(2**63) - 1):
        far = OLD._replace(mtime_ns=time)
        with scratch(store) as txn:
            assert file_digests.find_digest(txn, far) is None
            assert file_digests.remember_digests(txn, [(far, DIGEST, 2**70)]) == 0
            assert file_digests.find_digest(txn, far) is None


def test_the_hash_of_a_changed_file_replaces_the_old_one(store: LocalStore) -> None:
    changed = OLD._replace(inode=7, size=6)
    with scratch(store) as txn:
        file_digests.remember_digests(txn, [(OLD, DIGEST, NOW)])
        file_digests.remember_digests(txn, [(changed, DIGEST[::-1], NOW)])
        assert file_digests.find_digest(txn, OLD) is None
        assert file_digests.find_digest(txn, changed) == DIGEST[::-1]


def test_many_files_in_any_order_and_times_before_1970(store: LocalStore) -> None:
    keys = [
        OLD._replace(device=number % 3, path=b"/%d" % number * 300, mtime_ns=-number)
        for number in (5, 3, 9, 1, 700)
    ]
    items = [(key, DIGEST, NOW) for key in keys]
    with scratch(store) as txn:
        assert file_digests.remember_digests(txn, items) == len(items)
        assert all(file_digests.find_digest(txn, key) == DIGEST for key in keys)
