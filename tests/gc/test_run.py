"""What a collection checks and tidies before it looks for garbage."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.gc.run import Action
from lakecli.repository.handle.namespace import OtherRepository
from lakecli.stores.contract import ANY
from tests.gc.shared import LONG, Shared, make_commit, push, upload
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.stores.contract import ObjectInfo

DAY = timedelta(days=1)


class WithTemporaries(MemoryStore):
    """A store that killed processes leave temporary files in, as a directory."""

    def __init__(self) -> None:
        super().__init__(prefix="ns/")
        self.cleared = 0

    def clear_temporaries(self) -> None:
        self.cleared += 1


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, "ada") as made:
        yield made


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_namespace_of_another_repository_is_left_alone(
    shared: Shared, *, dry_run: bool
) -> None:
    key = "_lakecli/repository.json"
    fields = json.loads(shared.store.get(key))
    fields["uuid"] = "0f" * 16
    shared.store.put(key, json.dumps(fields).encode(), ANY)
    before = [*shared.store.list()]
    with pytest.raises(OtherRepository):
        shared.collect(dry_run=dry_run)
    assert [*shared.store.list()] == before


def test_temporary_files_of_a_directory_are_cleared_except_by_a_dry_run(tmp_path: Path) -> None:
    store = WithTemporaries()
    with Shared(tmp_path, "ada", store=store) as shared:
        shared.collect(dry_run=True)
        assert store.cleared == 0
        shared.collect()
        assert store.cleared == 1


def test_what_earlier_collections_left_is_tidied_after_a_day(shared: Shared) -> None:
    mark = "1-" + "5f" * 16
    left = {f"_lakecli/gc/marks/{mark}/others", "_lakecli/gc/refresh/" + "5f" * 16}
    kept_for_ever = "_lakecli/gc/keep/9/" + "5f" * 16  # of an epoch to come
    obsolete = "_lakecli/gc/keep/0/" + "5f" * 16
    for key in (*left, kept_for_ever, obsolete):
        shared.store.put(key, b"", ANY)

    def there() -> set[str]:
        return {info.key for info in shared.store.list("_lakecli/gc/")}

    before = there()
    shared.collect(dry_run=True)
    assert there() == before
    shared.collect()
    assert obsolete not in there()
    assert there() >= {*left, kept_for_ever}  # they may belong to a process that runs now
    shared.time.pass_by(DAY + timedelta(hours=1))
    shared.collect()
    assert not left & there()
    assert kept_for_ever in there()


def test_each_condemnation_begins_the_next_epoch(shared: Shared) -> None:
    (ada,) = shared.clones
    make_commit(ada, {b"a": b"a"})
    push(ada)
    for epoch in (1, 2):
        upload(ada, b"left", b"%d" % epoch)
        upload(ada, b"left", b"used")
        shared.time.pass_by(timedelta(days=70))
        report = shared.collect()
        assert (report.action, report.status.epoch) == (Action.CONDEMNED, epoch)
        marks = {info.key.split("/")[3].partition("-")[0] for info in _marks(shared)}
        assert marks == {str(epoch)}
        shared.time.pass_by(LONG)
        report = shared.collect()
        assert (report.action, report.status.epoch) == (Action.SWEPT, epoch)
        assert not [*_marks(shared)]


def _marks(shared: Shared) -> Iterator[ObjectInfo]:
    return shared.store.list("_lakecli/gc/marks/")
