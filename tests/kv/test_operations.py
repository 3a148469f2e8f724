from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import RefKind
from lakecli.errors import IntegrityError, NotFound
from lakecli.kv import operations
from lakecli.kv.local_store import LocalStore, Table, WriteTransaction
from lakecli.kv.operations import Operation, RefChange, StagingChange
from tests.support.stores import scratch

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = b"r" * 16
TOKEN = b"t" * 16
NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)

branch_fields = {"commit_id": "ab" * 32, "staging_token": "cd" * 16, "sealed_tokens": []}


def make(number: int, **changes: object) -> Operation:
    operation = Operation(
        id=number.to_bytes(16), repository=REPOSITORY, at=NOW, command="lakecli …", kind="commit"
    )
    return operation._replace(**changes)  # type: ignore[arg-type]


def staged(txn: WriteTransaction) -> dict[bytes, bytes]:
    return dict(txn.scan_paths(Table.STAGING, TOKEN))


def test_an_operation_comes_back_as_it_was(store: LocalStore) -> None:
    operation = make(
        1,
        command="lakecli commit -m 'caf\u00e9 \udcff'",
        refs=(
            RefChange(RefKind.BRANCH, "main", before=branch_fields, after=None),
            RefChange(RefKind.TAG, "v1", before=None, after={"commit_id": "ef" * 32}),
        ),
        staging=(StagingChange("main", TOKEN),),
        sealed=(b"s" * 16, b"u" * 16),
        metadata={"merged": "dev"},
    )
    with scratch(store) as txn:
        appended = operations.append(txn, operation)
        assert appended == operation._replace(sequence=1)
        assert operations.get(txn, REPOSITORY, operation.id) == appended
        assert list(operations.iter_operations(txn, REPOSITORY)) == [appended]


def test_newest_first_and_each_repository_counts_for_itself(store: LocalStore) -> None:
    other = b"r" * 15 + b"s"
    with scratch(store) as txn:
        for number in range(1, 301):
            assert operations.append(txn, make(number)).sequence == number
        operations.append(txn, make(1, repository=other))
        found = [operation.sequence for operation in operations.iter_operations(txn, REPOSITORY)]
        assert found == list(range(300, 0, -1))
        assert [each.sequence for each in operations.iter_operations(txn, other)] == [1]


def test_a_missing_operation_is_not_found(store: LocalStore) -> None:
    with scratch(store) as txn:
        assert operations.find(txn, REPOSITORY, b"x" * 16) is None
        assert operations.find_oldest(txn, REPOSITORY) is None
        with pytest.raises(NotFound, match="no operation 7878"):
            operations.get(txn, REPOSITORY, b"x" * 16)


def with_a_late_time(row: bytes) -> bytes:
    return re.sub(rb'("at": ?)\d+', rb"\g<1>1" + b"0" * 20, row)


@pytest.mark.parametrize("change", [lambda _: b"{}", with_a_late_time])
def test_a_damaged_operation(store: LocalStore, change: Callable[[bytes], bytes]) -> None:
    with scratch(store) as txn:
        operations.append(txn, make(1))
        (key, row), *_ = txn.scan(Table.OPERATIONS, prefix=b"s")
        damaged = change(row)
        assert damaged != row
        txn.put(Table.OPERATIONS, key, damaged)
        with pytest.raises(IntegrityError, match="malformed"):
            operations.get(txn, REPOSITORY, make(1).id)


def test_a_removed_operation_leaves_its_number_taken(store: LocalStore) -> None:
    change = StagingChange("main", TOKEN)
    with scratch(store) as txn:
        first = operations.append(txn, make(1, staging=(change,)))
        operations.save_images(txn, first.id, TOKEN, [b"a", b"b" * 1024, b"c"])
        assert operations.find_oldest(txn, REPOSITORY) == first
        steps = [operations.remove(txn, first, limit=3) for _ in range(3)]
        assert [step == 3 for step in steps] == [True, True, False]
        assert operations.find(txn, REPOSITORY, first.id) is None
        assert list(txn.scan(Table.IMAGES)) == []
        assert operations.append(txn, make(2)).sequence == 2


def test_an_operation_may_be_written_in_parts(store: LocalStore) -> None:
    with scratch(store) as txn:
        first = operations.append(txn, make(1))
        second = operations.append(txn, make(2))
        changed = first._replace(staging=(StagingChange("main", TOKEN),))
        operations.rewrite(txn, changed)
        assert list(operations.iter_operations(txn, REPOSITORY)) == [second, changed]


records = st.dictionaries(
    st.lists(st.sampled_from(b"ab/\0"), min_size=1, max_size=3).map(bytes)
    | st.sampled_from([b"l" * 493, b"l" * 494, b"l" * 1024]),
    st.binary(max_size=3),
    max_size=12,
)


@given(before=records, parts=st.lists(records, min_size=1, max_size=3))
def test_images_take_staging_back(
    store: LocalStore, before: dict[bytes, bytes], parts: list[dict[bytes, bytes]]
) -> None:
    with scratch(store) as txn:
        txn.put_paths(Table.STAGING, TOKEN, sorted(before.items()))
        operation = operations.append(txn, make(1, staging=(StagingChange("main", TOKEN),)))
        after = dict(before)
        for part in parts:  # one command, several transactions
            operations.save_images(txn, operation.id, TOKEN, sorted(part))
            txn.put_paths(Table.STAGING, TOKEN, sorted(part.items()))
            after |= part
        assert staged(txn) == after

        (change,) = operations.get(txn, REPOSITORY, operation.id).staging
        for path, value in operations.iter_images(txn, operation.id, change.token):
            if value is None:
                txn.delete_path(Table.STAGING, change.token, path)
            else:
                txn.put_paths(Table.STAGING, change.token, [(path, value)])
        assert staged(txn) == before


def test_images_of_two_areas_stay_apart(store: LocalStore) -> None:
    other = b"u" * 16
    with scratch(store) as txn:
        operation = operations.append(txn, make(1))
        txn.put_paths(Table.STAGING, other, [(b"a", b"old")])
        operations.save_images(txn, operation.id, TOKEN, [b"a"])
        operations.save_images(txn, operation.id, other, [b"a"])
        assert list(operations.iter_images(txn, operation.id, TOKEN)) == [(b"a", None)]
        assert list(operations.iter_images(txn, operation.id, other)) == [(b"a", b"old")]
