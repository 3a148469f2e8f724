"""Reading refs: one, the listing, many in parallel."""

from __future__ import annotations

import threading

import pytest

from lakecli.base.layout import MAX_REF_SIZE, REFS, ref_key
from lakecli.base.model import RefKind
from lakecli.remote.ref_records import InvalidRecord, NotOurs, RemoteRef
from lakecli.remote.refs import ListedRef, find_ref, iter_refs, read_refs
from lakecli.stores.contract import ANY, Version
from tests.remote.chains import PATIENT, commit, intent, move_ref
from tests.support.counting import CountingStore


def with_refs(count: int) -> CountingStore:
    store = CountingStore()
    for number in range(count):
        kind = RefKind.BRANCH if number % 2 else RefKind.TAG
        wanted = intent(f"w{number}", None, commit(number))
        move_ref(store, wanted._replace(kind=kind, name=f"Ref-{number}"), retries=PATIENT)
    store.reset()
    return store


def test_refs_are_listed_and_read() -> None:
    store = with_refs(70)
    listed = list(iter_refs(store))
    assert {(ref.kind, ref.name) for ref in listed} == {
        ("branch" if number % 2 else "tag", f"Ref-{number}") for number in range(70)
    }
    read = [ref for ref in read_refs(store, iter(listed)) if isinstance(ref, RemoteRef)]
    assert [(ref.kind, ref.name, ref.version) for ref in read] == listed
    assert [ref.commit_id for ref in read] == [
        commit(int(ref.name.removeprefix("Ref-"))) for ref in listed
    ]
    assert store.counts == {"list": 1, "get": 70}


def test_unknown_keys_are_passed_over() -> None:
    store = with_refs(2)
    for key in (
        "notes/x",
        "branches/",
        "branches/A",
        "branches/a/b",
        "tags/%4",
        "tags/" + 256 * "x",
    ):
        store.put(REFS + key, b"unknown", ANY)
    assert {ref.name for ref in iter_refs(store)} == {"Ref-0", "Ref-1"}


def test_refs_that_are_not_there() -> None:
    store = with_refs(2)
    assert find_ref(store, RefKind.BRANCH, "none") is None
    listed = [ListedRef(RefKind.BRANCH, "none", Version("v")), *iter_refs(store)]
    assert [ref.name for ref in read_refs(store, listed)] == [ref.name for ref in listed[1:]]


def test_an_object_that_is_not_a_ref_is_yielded_with_its_defect() -> None:
    store = with_refs(40)
    key = ref_key(RefKind.BRANCH, "Ref-9")
    store.put(key, b"garbage", ANY)
    read = list(read_refs(store, iter_refs(store)))
    (bad,) = [each for each in read if isinstance(each, InvalidRecord)]
    assert (len(read), bad.kind, bad.name, bad.key) == (40, "branch", "Ref-9", key)
    assert key in bad.what


def test_a_ref_of_the_largest_size_is_read_and_no_larger_one() -> None:
    store = with_refs(1)
    key = ref_key(RefKind.TAG, "Ref-0")
    data = store.get(key)
    store.put(key, data.ljust(MAX_REF_SIZE), ANY)
    assert find_ref(store, RefKind.TAG, "Ref-0") is not None
    store.put(key, data.ljust(MAX_REF_SIZE + 1), ANY)
    with pytest.raises(NotOurs, match="tags/%52ef-0"):
        find_ref(store, RefKind.TAG, "Ref-0")


def test_reading_may_be_left_early() -> None:
    store = with_refs(200)
    before = set(threading.enumerate())
    reading = read_refs(store, iter_refs(store))
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert store.counts["get"] <= 128
    assert set(threading.enumerate()) <= before
