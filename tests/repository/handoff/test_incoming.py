from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import INCOMING, data_key, incoming_key
from lakecli.errors import NotFound, Unsupported, UsageError
from lakecli.repository import repo
from lakecli.repository.commit import commit
from lakecli.repository.handoff.incoming import CLIENT_INCOMING, new_links, take_in
from lakecli.repository.staged.stager import UNCHANGED, NewAttributes
from lakecli.repository.stat import stat
from lakecli.stores.contract import ANY, Attributes, ObjectNotFound
from lakecli.stores.s3.store import S3Store
from tests.support.lakes import entry_of, make_repository, open_lake, read, stage
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.base.model import Entry
    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectStore
    from tests.support.signing import SigningStore

ID = "0123456789abcdef" * 2
HOUR = timedelta(hours=1)
SENT = b"sent by a partner"
STEPS = ("set-aside", "copy", "stage", "delete-copies", "delete")


class StopError(Exception):
    """The process is killed."""


def take(repository: Repository, path: bytes = b"in/a.csv", **options: Any) -> tuple[Entry, bool]:
    return take_in(repository, "main", path, ID, NewAttributes(**options))


def send(repository: Repository, data: bytes = SENT) -> None:
    repository.store.put(incoming_key(ID), data, ANY, Attributes("text/evil"))


def left(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list(INCOMING)]


def test_each_put_link_has_its_own_key(repository: Repository, store: SigningStore) -> None:
    links = list(new_links(repository, "main", count=3, expires_in=HOUR))
    assert len({link.id for link in links}) == 3
    for link, (key, request) in zip(links, store.requests, strict=True):
        assert key == f"_lakecli/incoming/{link.id}"
        assert link.physical_address == f"{repository.record.storage_namespace}/{key}"
        assert (request.method, request.content_type, request.file_name) == ("PUT", "", "")
        assert request.expires_in == HOUR
    assert len({link.signed.expires_at for link in links}) == 1
    assert left(store) == []


def test_links_need_a_branch_and_a_store_with_urls(repository: Repository) -> None:
    with pytest.raises(NotFound, match="no branch 'nowhere'"):
        next(new_links(repository, "nowhere", count=1, expires_in=HOUR))
    with pytest.raises(Unsupported):
        next(new_links(repository, "main", count=1, expires_in=HOUR))


def test_an_incoming_object_is_staged(repository: Repository) -> None:
    send(repository)
    entry, has_more = take(repository, metadata={"from": "ada"})
    digest = blake3_of(SENT).hex()
    assert not has_more
    assert entry == stat(repository, "main", b"in/a.csv")
    assert (entry.physical_address, entry.checksum, entry.size) == (
        data_key(digest),
        digest,
        len(SENT),
    )
    assert entry.content_type == "text/csv"
    assert entry.metadata == {"from": "ada", CLIENT_INCOMING: ID}
    assert repository.store.get(data_key(digest)) == SENT
    assert left(repository.store) == []


@pytest.mark.parametrize("can_copy", [True, False])  # not by Azure with an encryption scope
def test_the_encoding_that_was_sent_is_of_the_path_only(
    moto_endpoint: str, aws_environment: pytest.MonkeyPatch, tmp_path: Path, *, can_copy: bool
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    if not can_copy:
        aws_environment.setattr(S3Store, "copy_from", lambda *_: False)
    sent = Attributes("text/evil", content_encoding="gzip")
    with open_lake(tmp_path) as lake:
        made = repo.create(lake, "demo", f"s3://{new_bucket(moto_endpoint)}/lake")
        for given, expected in (({}, "gzip"), ({"content-encoding": "br"}, "br")):
            made.store.put(incoming_key(ID), SENT, ANY, sent)
            entry, _ = take(made, metadata=given)
            assert entry.content_encoding == expected
        info = made.store.head(data_key(blake3_of(SENT).hex()))
    assert (info.size, info.content_encoding) == (len(SENT), "")


def test_an_empty_and_a_large_object_are_staged(repository: Repository) -> None:
    for data in (b"", bytes(range(256)) * 20_000):
        send(repository, data)
        entry, _ = take(repository, b"a", content_type="x/y")
        assert (entry.checksum, entry.size) == (blake3_of(data).hex(), len(data))
        assert entry.content_type == "x/y"
        assert repository.store.get(entry.physical_address) == data


def test_the_same_bytes_again_are_no_change(repository: Repository) -> None:
    stage(repository, "main", {b"a.txt": SENT})
    commit(repository, "main", message="m", committer="c")
    repository.store.put(data_key(blake3_of(SENT).hex()), SENT, ANY)
    before = repository.store.head(data_key(blake3_of(SENT).hex())).version
    send(repository)
    take(repository, b"a.txt")
    assert repository.store.head(data_key(blake3_of(SENT).hex())).version == before
    with repository.lake.kv.read() as txn:
        from lakecli.repository.reading.view import view_of_branch

        assert next(view_of_branch(repository, txn, "main").staged(), None) is None
    assert left(repository.store) == []


def test_an_unused_link_is_not_found(repository: Repository) -> None:
    with pytest.raises(NotFound, match="nothing was sent") as raised:
        take(repository)
    assert raised.value.hint
    stage(repository, "main", {b"in/a.csv": b"something else"})
    with pytest.raises(NotFound, match="nothing was sent"):
        take(repository)
    with pytest.raises(NotFound, match="nowhere"):
        take_in(repository, "nowhere", b"a", ID, UNCHANGED)


@pytest.mark.parametrize(
    "wrong", ["", "x", ID[1:], ID.upper(), f"../{ID}", f"{ID}.{ID}", f"{ID}\n"]
)
def test_a_malformed_id_is_refused(repository: Repository, wrong: str) -> None:
    with pytest.raises(UsageError, match="not the ID"):
        take_in(repository, "main", b"a", wrong, UNCHANGED)


def test_staging_again_reports_that_it_is_done(repository: Repository) -> None:
    send(repository)
    entry, _ = take(repository)
    assert take(repository) == (entry, False)
    with pytest.raises(NotFound):
        take(repository, b"elsewhere")
    commit(repository, "main", message="m", committer="c")
    assert take(repository) == (entry, False)


@pytest.fixture
def stopping(tmp_path: Path) -> Iterator[Callable[[Callable[[str], None]], Repository]]:
    """Opens a lake whose steps are told."""
    opened = []

    def open_repository(on_step: Callable[[str], None]) -> Repository:
        lake = open_lake(tmp_path, on_step=on_step)
        opened.append(lake)
        with suppress(NotFound):
            return lake.repository("demo")
        return make_repository(lake, tmp_path)

    yield open_repository
    for lake in opened:
        lake.close()


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_command_succeeds_when_repeated(
    stopping: Callable[[Callable[[str], None]], Repository], step: str
) -> None:
    taken: list[str] = []

    def stop(name: str) -> None:
        if name.startswith("incoming:"):
            taken.append(name.removeprefix("incoming:"))
            if taken[-1] == step and taken.count(step) == 1:
                raise StopError

    repository = stopping(stop)
    send(repository)
    with pytest.raises(StopError):
        take(repository)
    assert taken == list(STEPS[: STEPS.index(step) + 1])
    # Whatever is staged has its bytes.
    staged = STEPS.index(step) > STEPS.index("stage")  # a step is told before it is made
    assert (b"in/a.csv" in read(repository, "main")) == staged
    if staged:
        assert repository.store.get(stat(repository, "main", b"in/a.csv").physical_address) == SENT
    entry, has_more = take(repository)
    assert not has_more
    assert read(repository, "main") == {b"in/a.csv": blake3_of(SENT).hex()}
    assert repository.store.get(entry.physical_address) == SENT
    assert left(repository.store) == []


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_second_upload_meanwhile_changes_nothing(
    stopping: Callable[[Callable[[str], None]], Repository], step: str
) -> None:
    """The link works until it ends; bytes that come later are never named by another digest."""
    other = SENT[::-1]

    def send_again(name: str) -> None:
        if name == f"incoming:{step}":
            send(repository, other)

    repository = stopping(send_again)
    send(repository)
    entry, has_more = take(repository)
    assert entry.checksum == blake3_of(SENT).hex()
    assert repository.store.get(entry.physical_address) == SENT
    assert has_more
    assert left(repository.store) == [incoming_key(ID)]
    assert repository.store.get(incoming_key(ID)) == other
    for info in repository.store.list("data/"):
        assert blake3_of(repository.store.get(info.key)).hex() == info.key.removeprefix(
            "data/"
        ).replace("/", "")


def test_bytes_replaced_before_they_are_set_aside_count(
    stopping: Callable[[Callable[[str], None]], Repository],
) -> None:
    other = SENT[::-1]

    def send_again(name: str) -> None:
        if name == "incoming:set-aside":
            send(repository, other)

    repository = stopping(send_again)
    send(repository)
    entry, _ = take(repository)
    assert entry.checksum == blake3_of(other).hex()
    assert repository.store.get(entry.physical_address) == other


def test_concurrent_commands_stage_the_same_object(repository: Repository) -> None:
    """At once, as far as one process can: each finds its way, or that the other was faster."""
    send(repository)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            take(repository)
        except (NotFound, ObjectNotFound):
            pass
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert read(repository, "main") == {b"in/a.csv": blake3_of(SENT).hex()}
    assert repository.store.get(data_key(blake3_of(SENT).hex())) == SENT


def test_a_wrong_object_at_the_content_address_is_replaced(repository: Repository) -> None:
    key = entry_of(SENT).physical_address
    repository.store.put(key, SENT[:3], ANY)
    send(repository)
    take(repository)
    assert repository.store.get(key) == SENT
