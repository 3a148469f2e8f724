"""The repositories of an endpoint: opened once, kept up to date, closed to writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakecli.errors import LakeError, NotFound, Refused, Unreachable
from lakecli.kv.local_store import Table
from lakecli.repository import branch, commit, push, repo, tag
from lakecli.repository.contract import Notice, Repository
from lakecli.repository.handle.lake import Lake, LocalRepository
from lakecli.repository.open_remote import open_remote
from lakecli.repository.push import PushOptions
from lakecli.repository.reading.view import open_view
from lakecli.repository.undo.log import iter_log
from lakecli.serving import served
from lakecli.serving.served import Opening, Served
from lakecli.serving.writes import Client
from tests.support import lakes

CLIENT = Client("api", "lakectl")


class Elapsed:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Mover:
    """Counts what is asked of it."""

    finished = 0
    command_id = bytes(16)

    def finish(self, _repository: Repository) -> None:
        self.finished += 1


class Bench:
    """A lake that is served, and what the endpoint did."""

    def __init__(self, directory: Path, **how: Any) -> None:
        self.directory = directory
        self.elapsed = Elapsed()
        plain = lakes.open_lake(directory)
        self.lake = Lake(plain.home, plain.kv, plain.runtime._replace(elapsed=self.elapsed))
        self.opened: list[str] = []
        self.caught_up: list[str] = []
        self.told: list[Notice] = []
        self.mover: Any = None
        self.error: Exception | None = None
        opening = Opening(
            repository=self._open,
            namespace=self._open_remote,
            mover=lambda _: self.mover,
            catch_up=self._catch_up,
            notify=self.told.append,
        )
        self.served = Served(self.lake, opening, **how)

    def make(self, name: str) -> Repository:
        return repo.create(self.lake, name, str(self.directory / name), range_entries=16)

    def _open(self, name: str) -> LocalRepository:
        self.opened.append(name)
        return self.lake.repository(name)

    def _open_remote(self, namespace: str) -> LocalRepository:
        self.opened.append(namespace)
        return open_remote(self.lake.home, self.lake.runtime, namespace)

    def _catch_up(self, repository: Repository) -> None:
        self.caught_up.append(repository.name)
        if self.error is not None:
            raise self.error


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    with made.lake:
        made.make("sales")
        yield made


def stage(to: Served, name: str, path: bytes, data: bytes = b"x") -> None:
    from lakecli.base.model import Entry
    from lakecli.committed.values import encode_entry
    from lakecli.serving.writes import PathChange

    writer = to.writer(name, "main")
    found = writer.deposit([data])
    value = encode_entry(Entry(found.address, found.size, found.digest, to.lake.runtime.now()))
    (outcome,) = writer.apply(
        [PathChange(path, lambda _: value, found)], client=CLIENT, action="UploadObject"
    )
    assert outcome == value


def paths(to: Served, name: str, ref: str) -> list[bytes]:
    with to.view(name, ref) as view:
        return [path for path, _ in view.scan()]


def test_all_repositories_of_the_lake_are_served(bench: Bench) -> None:
    assert bench.served.names() == ["sales"]
    bench.make("demo")
    assert bench.served.names() == ["demo", "sales"]
    assert bench.served.repository("demo").name == "demo"
    assert bench.served.takes_new


def test_only_the_named_ones_are_served(tmp_path: Path) -> None:
    bench = Bench(tmp_path, names=["sales"])
    with bench.lake:
        bench.make("sales")
        bench.make("secret")
        assert bench.served.names() == ["sales"]
        assert not bench.served.takes_new
        with pytest.raises(NotFound, match="served here"):
            bench.served.repository("secret")


def test_a_repository_is_opened_once(bench: Bench) -> None:
    first = bench.served.repository("sales")
    assert bench.served.repository("sales") is first
    assert bench.opened == ["sales"]


def test_another_repository_of_the_same_name_is_opened_anew(bench: Bench) -> None:
    stage(bench.served, "sales", b"old")
    repo.delete(bench.lake, "sales")
    with pytest.raises(NotFound):
        bench.served.repository("sales")
    repo.create(bench.lake, "sales", str(bench.directory / "other"), range_entries=16)
    stage(bench.served, "sales", b"new")
    assert paths(bench.served, "sales", "main") == [b"new"]


def test_a_view_has_what_is_staged_unless_only_commits_are_served(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with bench.lake:
        sales = bench.make("sales")
        stage(bench.served, "sales", b"a")
        commit.commit(sales, "main", message="a", committer="ada")
        stage(bench.served, "sales", b"b")
        assert paths(bench.served, "sales", "main") == [b"a", b"b"]
        bench.served.committed = True
        assert paths(bench.served, "sales", "main") == [b"a"]
        assert paths(bench.served, "sales", "main~1") == []
        with pytest.raises(NotFound), bench.served.view("sales", "none"):
            pass


def test_a_view_is_of_this_moment(bench: Bench) -> None:
    assert paths(bench.served, "sales", "main") == []
    stage(bench.served, "sales", b"a")
    assert paths(bench.served, "sales", "main") == [b"a"]
    commit.commit(bench.lake.repository("sales"), "main", message="a", committer="ada")
    with bench.served.view("sales", "main") as view:
        assert view.commit.message == "a"
    branch.create(bench.lake.repository("sales"), "dev", source="main~1")
    assert paths(bench.served, "sales", "dev") == []


def test_only_branches_have_writers(bench: Bench) -> None:
    tag.create(bench.lake.repository("sales"), "v1", "main")
    assert bench.served.writer("sales", "main") is bench.served.writer("sales", "main")
    for name in ("v1", "none", "main~1"):
        with pytest.raises(NotFound):
            bench.served.writer("sales", name)


def test_few_writers_are_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "MOST_WRITERS", 2)
    for name in ("b1", "b2", "b3"):
        branch.create(bench.lake.repository("sales"), name, source="main")
        bench.served.writer("sales", name)
    assert [*bench.served._find("sales").writers._items] == ["b2", "b3"]


def test_nothing_is_written_through_a_read_only_endpoint(tmp_path: Path) -> None:
    bench = Bench(tmp_path, read_only=True)
    with bench.lake:
        bench.make("sales")
        assert not bench.served.takes_new
        with pytest.raises(Refused, match="read-only"):
            bench.served.writer("sales", "main")
        with (
            pytest.raises(Refused, match="read-only"),
            bench.served.acting("sales", client=CLIENT, action="x"),
        ):
            pass


def test_a_verb_is_logged_with_its_client_and_its_moves_are_sent(bench: Bench) -> None:
    bench.mover = Mover()
    with bench.served.acting("sales", client=CLIENT, action="create branch") as acting:
        branch.create(acting, "dev", source="main")
        acting.notify("look")
    newest = next(iter_log(bench.served.repository("sales"))).operation
    assert newest.command == "api: create branch by lakectl"
    assert bench.mover.finished == 1
    assert bench.told == [Notice("look")]
    assert bench.served.repository("sales").mover is None


def test_after_an_error_nothing_is_sent(bench: Bench) -> None:
    bench.mover = Mover()
    with pytest.raises(ZeroDivisionError), bench.served.acting("sales", client=CLIENT, action="x"):
        raise ZeroDivisionError
    assert bench.mover.finished == 0


def test_a_shared_repository_is_brought_up_to_date_at_most_every_few_seconds(bench: Bench) -> None:
    bench.served.repository("sales")
    assert bench.caught_up == []  # not shared automatically
    bench.mover = Mover()
    for _ in range(5):
        bench.served.repository("sales")
    assert bench.caught_up == []
    bench.elapsed.now += served.CATCH_UP
    for _ in range(5):
        bench.served.repository("sales")
    assert bench.caught_up == ["sales"]


def test_an_unreachable_bucket_is_told_and_the_last_state_is_served(bench: Bench) -> None:
    bench.served.repository("sales")
    bench.mover, bench.error = Mover(), Unreachable("no network", hint="wait")
    bench.elapsed.now += served.CATCH_UP
    assert paths(bench.served, "sales", "main") == []
    assert bench.told == [Notice("not fetched: no network", "wait")]


def test_a_namespace_is_served_without_a_clone_and_opened_again_after_a_while(
    tmp_path: Path,
) -> None:
    namespace = str(tmp_path / "sales")
    bench = Bench(tmp_path, names=[], namespaces={"lake": namespace})
    with bench.lake:
        sales = bench.make("sales")
        push.push(sales, "main", options=PushOptions(who="ada"))
        assert bench.served.names() == ["lake"]
        assert paths(bench.served, "lake", "main") == []
        writing = Served(bench.lake, bench.served._opening)
        stage(writing, "sales", b"a")
        commit.commit(sales, "main", message="a", committer="ada")
        push.push(sales, "main", options=PushOptions(who="ada"))
        assert paths(bench.served, "lake", "main") == []
        bench.elapsed.now += served.CATCH_UP
        assert paths(bench.served, "lake", "main") == [b"a"]
        with pytest.raises(Refused, match="without a clone"):
            bench.served.writer("lake", "main")


def test_serving_leaves_no_transaction_open(bench: Bench) -> None:
    with bench.served.view("sales", "main") as view:
        assert view.txn.get(Table.META, b"none") is None
    with bench.lake.kv.write():
        pass


def test_the_store_of_a_bucket_is_opened_again_after_a_while(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may have written new credentials into a file."""
    first = bench.served.repository("sales")
    bench.elapsed.now += 2 * served.RENEWED
    assert bench.served.repository("sales") is first  # a directory has no credentials
    monkeypatch.setattr(served, "is_local", lambda _: False)
    bench.served._held.clear()
    second = bench.served.repository("sales")
    bench.elapsed.now += served.RENEWED / 2
    assert bench.served.repository("sales") is second
    writer = bench.served.writer("sales", "main")
    bench.elapsed.now += served.RENEWED
    third = bench.served.repository("sales")
    assert third is not second
    assert third.store is not second.store
    assert bench.served.writer("sales", "main") is not writer
    stage(bench.served, "sales", b"a")
    assert paths(bench.served, "sales", "main") == [b"a"]


def test_stores_of_namespaces_that_were_opened_again_are_closed(tmp_path: Path) -> None:
    namespace = str(tmp_path / "sales")
    bench = Bench(tmp_path, names=[], namespaces={"lake": namespace})
    with bench.lake:
        push.push(bench.make("sales"), "main", options=PushOptions(who="ada"))
        opened = []
        for _ in range(4):
            opened.append(bench.served.repository("lake"))
            bench.elapsed.now += served.LONGEST_VIEW / 2 + 1
        bench.served.repository("lake")
        for each in opened[:2]:
            with pytest.raises(LakeError, match="closed"), open_view(each, "main"):
                pass
        for each in opened[2:]:
            with open_view(each, "main") as view:
                assert view.commit.id
