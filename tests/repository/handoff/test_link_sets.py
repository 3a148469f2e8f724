"""Sets of links: what a sender lists is data from a stranger, and nothing of it is believed."""

from __future__ import annotations

import json
import tracemalloc
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import google_crc32c
import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import INCOMING, incoming_key
from lakecli.errors import IntegrityError, NotFound, Unsupported, UsageError
from lakecli.repository.handoff.incoming import CLIENT_INCOMING
from lakecli.repository.handoff.link_sets import (
    CHUNK,
    MAX_LINKS,
    Arrival,
    ArrivalState,
    LinkSet,
    new_set,
    stage_arrived,
)
from lakecli.repository.rm import rm
from lakecli.repository.staged.stager import NewAttributes
from lakecli.repository.stat import stat
from lakecli.repository.undo.undo import undo
from lakecli.stores.capabilities import UploadId
from lakecli.stores.contract import ANY
from lakecli.stores.presigned_urls import LARGEST_PUT
from tests.support.lakes import checksums, read, serve, through
from tests.support.memory_store import MemoryStore
from tests.support.signing import SigningStore

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.repository.contract import Repository
    from lakecli.stores.capabilities import PartUploads
    from lakecli.stores.contract import ObjectStore
    from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest

DAY = timedelta(days=1)
ARRIVED, STAGED, BEFORE, AWAITED, REFUSED = ArrivalState


@pytest.fixture(autouse=True)
def signing(store: SigningStore) -> SigningStore:
    """All these namespaces have URLs."""
    return store


def open_set(repository: Repository, count: int = 3, **options: Any) -> LinkSet:
    given = {"names": None, "expires_in": DAY, **options}
    return new_set(repository, "main", b"in", count=count, **given)


def send(repository: Repository, links: LinkSet, *contents: bytes) -> None:
    for link, data in zip(links.links, contents, strict=False):
        repository.store.put(incoming_key(link.id), data, ANY)


def tell(repository: Repository, links: LinkSet, data: bytes) -> None:
    stem = links.links[0].id[:16]
    repository.store.put(f"{INCOMING}{stem}.sent", data, ANY)


def line(links: LinkSet, number: int, data: bytes, name: bytes, **changed: bytes) -> bytes:
    fields = {
        "id": links.links[number].id.encode(),
        "size": b"%d" % len(data),
        "digest": b"sha256:" + sha256(data).hexdigest().encode(),
        "state": b"+",
        **changed,
    }
    return b" ".join([*fields.values(), name]) + b"\n"


def arrive(repository: Repository, **options: Any) -> dict[str, Arrival]:
    """Stage what came, and return it by the number of its link and its path."""
    return {
        (each.path or b"?").decode("utf-8", "surrogateescape"): each
        for each in stage_arrived(repository, "main", b"in/", **options)
    }


def left(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list(INCOMING) if "." not in info.key]


def test_files_are_staged_under_the_names_that_they_had(repository: Repository) -> None:
    links = open_set(repository)
    send(repository, links, b"one", b"two")
    tell(repository, links, line(links, 0, b"one", b"a b.csv") + line(links, 1, b"two", b"d/e"))
    planned = arrive(repository, dry_run=True)
    assert {path: each.state for path, each in planned.items()} == {
        "in/a b.csv": ARRIVED,
        "in/d/e": ARRIVED,
    }
    found = arrive(repository, attributes=NewAttributes(None, {"from": "ada"}))
    assert {(path, each.state, each.size, each.reason) for path, each in found.items()} == {
        ("in/a b.csv", STAGED, 3, ""),
        ("in/d/e", STAGED, 3, ""),
    }
    assert all(each.arrived_at for each in found.values())
    entry = stat(repository, "main", b"in/a b.csv")
    assert entry.metadata == {"from": "ada", CLIENT_INCOMING: links.links[0].id}
    assert entry.content_type == "text/csv"
    assert left(repository.store) == []
    again = arrive(repository)
    assert {each.state for each in again.values()} == {BEFORE}
    assert [each.size for each in again.values()] == [3, 3]


def test_all_is_one_operation_which_undo_takes_back(repository: Repository) -> None:
    links = open_set(repository)
    send(repository, links, b"one", b"two")
    tell(repository, links, line(links, 0, b"one", b"a") + line(links, 1, b"two", b"b"))
    arrive(repository)
    assert set(read(repository, "main")) == {b"in/a", b"in/b"}
    undo(repository)
    assert read(repository, "main") == {}
    undone = arrive(repository)
    assert {each.state for each in undone.values()} == {AWAITED}
    assert all("taken from here" in each.reason for each in undone.values())


def test_links_for_names_need_no_list(repository: Repository) -> None:
    links = open_set(repository, names=[b"a.csv", b"d/b.csv", b"c"])
    send(repository, links, b"one", b"two")
    found = arrive(repository)
    assert {(path, each.state) for path, each in found.items()} == {
        ("in/a.csv", STAGED),
        ("in/c", AWAITED),
        ("in/d/b.csv", STAGED),
    }
    assert found["in/a.csv"].reason == "not compared with a checksum of the sender"


def test_a_list_cannot_rename_what_was_asked_for(repository: Repository) -> None:
    links = open_set(repository, names=[b"a.csv"])
    send(repository, links, b"one")
    tell(repository, links, line(links, 0, b"one", b"../../main/b"))
    assert arrive(repository)["in/a.csv"].state is STAGED


@pytest.mark.parametrize(
    "name",
    [
        *(b"../up", b"a/../../b", b"/etc/passwd", b"//x", b"a//b", b"./a", b"nul\0", b"..", b"a/"),
        *(b"x" * 1022, b".git/config", b".lakecli-parts/x", b"a\\\0"),
    ],
)
def test_names_that_no_file_can_have_are_refused(repository: Repository, name: bytes) -> None:
    links = open_set(repository)
    send(repository, links, b"one", b"two")
    tell(repository, links, line(links, 0, b"one", name) + line(links, 1, b"two", b"good"))
    found = arrive(repository)
    assert (found["?"].state, found["?"].path, found["?"].size) == (REFUSED, None, 3)
    assert found["in/good"].state is STAGED
    assert set(read(repository, "main")) == {b"in/good"}
    assert left(repository.store) == [incoming_key(links.links[0].id)]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"size": b"2"}, "3 bytes, and the sender's file 2"),
        ({"digest": b"sha256:" + b"0" * 64}, "not those that the sender has read"),
        ({"digest": b"sha256/8M:" + b"0" * 64}, "not those that the sender has read"),
    ],
)
def test_sizes_and_digests_are_compared(
    repository: Repository, changed: dict[str, bytes], why: str
) -> None:
    links = open_set(repository)
    send(repository, links, b"one", b"two")
    told = line(links, 0, b"one", b"a", **changed) + line(links, 1, b"two", b"b")
    tell(repository, links, told)
    found = arrive(repository)
    assert found["in/a"].state is REFUSED
    assert why in found["in/a"].reason
    assert found["in/b"].state is STAGED
    assert left(repository.store) == [incoming_key(links.links[0].id)]
    tell(repository, links, told.replace(line(links, 0, b"one", b"a", **changed), b"", 1))
    tell(repository, links, line(links, 0, b"one", b"a"))
    assert arrive(repository)["in/a"].state is STAGED


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1])
def test_browsers_hash_large_files_in_chunks(repository: Repository, size: int) -> None:
    data = bytes(size)
    links = open_set(repository)
    send(repository, links, data)
    chunks = [sha256(data[at : at + CHUNK]).digest() for at in range(0, size, CHUNK)]
    digest = b"sha256/8M:" + sha256(b"".join(chunks)).hexdigest().encode()
    tell(repository, links, line(links, 0, data, b"a", digest=digest))
    found = arrive(repository)["in/a"]
    assert (found.state, found.reason) == (STAGED, "")


def test_files_of_one_name_are_refused_and_can_be_staged_alone(repository: Repository) -> None:
    links, others = open_set(repository), open_set(repository)
    send(repository, links, b"one", b"two", b"three")
    send(repository, others, b"four")
    tell(
        repository,
        links,
        b"".join(line(links, k, d, n) for k, d, n in ((0, b"one", b"a"), (1, b"two", b"a"))),
    )
    tell(repository, others, line(others, 0, b"four", b"b"))
    found = stage_arrived(repository, "main", b"in/")
    assert [(each.path, each.state) for each in found] == [
        (b"in/a", REFUSED),
        (b"in/a", REFUSED),
        (b"in/b", STAGED),
        (None, REFUSED),
    ]
    assert "did not end" in found[3].reason


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage\n",
        b"\xff\xfe\0",
        b"0" * 32 + b" 3 - + a\n",
        b"{id} 3 - + a\n{id} 3 - + a\n",
        b"{id} -3 - + a\n",
        b"{id} " + b"9" * 16 + b" - + a\n",
        b"{id} 3 md5:00 + a\n",
        b"{id} 3 - ? a\n",
        b"{id} 3 - + \n",
        b"{id} 3 - + a\n\n",
        b"{id} 3 - + a\r\n" * 2,
        b"\n" * 10**6,
        b"{id} 3 - + " + b"x" * 10**6 + b"\n",
        b"x" * (8 << 20),
    ],
)
def test_a_list_that_is_not_valid_is_refused_whole(repository: Repository, data: bytes) -> None:
    links = open_set(repository)
    send(repository, links, b"one")
    tell(repository, links, data.replace(b"{id}", links.links[0].id.encode()))
    (found,) = stage_arrived(repository, "main", b"in/")
    assert (found.state, found.path) == (REFUSED, None)
    assert len(found.reason) < 200
    assert read(repository, "main") == {}
    assert left(repository.store) == [incoming_key(links.links[0].id)]


def test_a_bad_set_does_not_hold_up_another(repository: Repository) -> None:
    bad, good = open_set(repository), open_set(repository)
    send(repository, bad, b"one")
    send(repository, good, b"two")
    tell(repository, bad, b"garbage")
    tell(repository, good, line(good, 0, b"two", b"b"))
    assert {each.state for each in stage_arrived(repository, "main", b"in/")} == {REFUSED, STAGED}


def test_what_is_larger_than_asked_for_is_refused(repository: Repository) -> None:
    links = open_set(repository, max_size=2, names=[b"a", b"b"], count=2)
    send(repository, links, b"one", b"22")
    found = arrive(repository)
    assert (found["in/a"].state, found["in/a"].reason) == (REFUSED, "it has more than 2 bytes")
    assert found["in/b"].state is STAGED


def test_an_object_that_is_replaced_meanwhile_is_kept(repository: Repository) -> None:
    links = open_set(repository, names=[b"a", b"b"])
    send(repository, links, b"one", b"two")

    def step(name: str) -> None:
        if name == "incoming:delete":
            send(repository, links, b"new", b"two")

    found = arrive(repository_at_steps(repository, step))
    assert found["in/a"].state is STAGED
    assert "it is kept" in found["in/a"].reason
    assert read(repository, "main") == checksums({b"in/a": b"one", b"in/b": b"two"})
    assert arrive(repository)["in/a"].state is STAGED
    assert read(repository, "main") == checksums({b"in/a": b"new", b"in/b": b"two"})


def repository_at_steps(repository: Repository, step: Any) -> Repository:
    return through(repository, repository.store, on_step=step)


@pytest.mark.parametrize("stop", ["set-aside", "copy", "stage", "delete-copies", "delete"])
def test_an_interrupted_run_is_finished_by_the_next(repository: Repository, stop: str) -> None:
    links = open_set(repository)
    send(repository, links, b"one", b"two")
    tell(repository, links, line(links, 0, b"one", b"a") + line(links, 1, b"two", b"b"))

    def step(name: str) -> None:
        if name == f"incoming:{stop}":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        arrive(repository_at_steps(repository, step))
    assert {each.state for each in arrive(repository).values()} <= {STAGED, BEFORE}
    assert read(repository, "main") == checksums({b"in/a": b"one", b"in/b": b"two"})
    assert left(repository.store) == []
    assert {each.state for each in arrive(repository).values()} == {BEFORE}


def test_sets_are_of_one_branch_and_directory(repository: Repository) -> None:
    open_set(repository)
    for prefix in (b"other/", b"in/a/", b""):
        with pytest.raises(NotFound, match="no page or script sends to"):
            stage_arrived(repository, "main", prefix)
    assert stage_arrived(repository, "main", b"in") == []
    with pytest.raises(NotFound, match="nowhere"):
        stage_arrived(repository, "nowhere", b"in/")


def test_a_set_for_another_place_does_not_count_whatever_its_key_is(repository: Repository) -> None:
    links = open_set(repository)
    send(repository, links, b"one")
    key = f"{INCOMING}{links.links[0].id[:16]}.links"
    record = json.loads(repository.store.get(key))
    for changed in ({"branch": "dev"}, {"prefix": "elsewhere/"}):
        repository.store.put(key, json.dumps(record | changed).encode(), ANY)
        with pytest.raises(NotFound):
            stage_arrived(repository, "main", b"in/")


@pytest.mark.parametrize(
    "changed",
    [
        {"ids": ["../x"]},
        {"ids": ["0" * 32] * (MAX_LINKS + 1)},
        {"names": ["a\0b"]},
        {"names": ["x" * 2000]},
        {"max_size": -1},
        {"links": 2},
        {"branch": 1},
    ],
)
def test_a_forged_record_of_links_is_refused(
    repository: Repository, changed: dict[str, object]
) -> None:
    links = open_set(repository)
    key = f"{INCOMING}{links.links[0].id[:16]}.links"
    record = json.loads(repository.store.get(key))
    repository.store.put(key, json.dumps(record | changed).encode(), ANY)
    with pytest.raises(IntegrityError, match="damaged record of links"):
        stage_arrived(repository, "main", b"in/")
    repository.store.put(key, b"[" * 10_000, ANY)
    with pytest.raises(IntegrityError, match="damaged record of links"):
        stage_arrived(repository, "main", b"in/")


def test_names_of_a_forged_record_are_checked(repository: Repository) -> None:
    links = open_set(repository, names=[b"a"])
    send(repository, links, b"one")
    key = f"{INCOMING}{links.links[0].id[:16]}.links"
    record = json.loads(repository.store.get(key)) | {"names": ["../a"]}
    repository.store.put(key, json.dumps(record).encode(), ANY)
    assert arrive(repository)["?"].state is REFUSED


@pytest.mark.parametrize("names", [[b"../a"], [b"a\nb"], [b"/a"], [b"x" * 1024], [b"a", b""]])
def test_links_are_not_made_for_names_that_no_file_can_have(
    repository: Repository, names: list[bytes]
) -> None:
    with pytest.raises(UsageError, match="no file can be sent as"):
        open_set(repository, names=names)
    assert list(repository.store.list(INCOMING)) == []


def test_the_number_of_links_is_limited(repository: Repository) -> None:
    assert len(open_set(repository, MAX_LINKS).links) == MAX_LINKS
    for count in (0, MAX_LINKS + 1):
        with pytest.raises(UsageError, match="links of one page"):
            open_set(repository, count)
    with pytest.raises(UsageError, match="links of one page"):
        open_set(repository, names=[])


def test_links_are_signed_for_objects_and_for_the_list(
    repository: Repository, store: SigningStore
) -> None:
    links = open_set(repository, 2, max_size=10)
    stem = links.links[0].id[:16]
    assert [(key, request.method, request.max_size) for key, request in store.requests] == [
        *((incoming_key(link.id), "PUT", 10) for link in links.links),
        (f"{INCOMING}{stem}.sent", "PUT", LARGEST_PUT),
        (f"{INCOMING}{stem}.sent", "GET", LARGEST_PUT),
    ]
    assert links.links[1].id[:16] == stem
    assert links.expires_at - links.created_at == DAY
    store.longest = timedelta(hours=1)
    assert open_set(repository).expires_at - links.created_at < DAY


def test_what_was_staged_and_removed_is_not_staged_again(repository: Repository) -> None:
    links = open_set(repository, names=[b"a"])
    send(repository, links, b"one")
    arrive(repository)
    rm(repository, "main", b"in/a")
    assert arrive(repository)["in/a"].state is AWAITED


class Bucket(SigningStore):
    """A namespace with uploads in parts."""

    def uploads(self) -> PartUploads:
        return MemoryStore.uploads(self._store)  # type: ignore[arg-type]


def in_bucket(repository: Repository) -> Bucket:
    """Give a repository another, empty namespace."""
    store = Bucket(MemoryStore())
    repository.__dict__.pop("store", None)
    repository.store_in_use = None
    serve(repository, cast("Any", store))
    return store


def test_parts_are_joined_only_if_they_are_those_of_the_file(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.repository.handoff.link_sets.SMALLEST_PART", 1 << 20)
    store = in_bucket(repository)
    uploads, data = store.uploads(), bytes(range(256)) * (10 << 10)
    links = open_set(repository, max_size=3 << 20)
    assert [len(link.parts) for link in links.links] == [3, 3, 3]

    def put(number: int, part: int, body: bytes) -> None:
        link = links.links[number]
        crc32c = google_crc32c.value(body)
        uploads.put_part(incoming_key(link.id), UploadId(link.upload), part, body, crc32c=crc32c)

    first = len(data) - (1 << 20)
    for number, bodies in enumerate(
        [(data[:first], data[first:]), (data[:first],), (data[: first + 1], data[first + 1 :])]
    ):
        for part, body in enumerate(bodies, 1):
            put(number, part, body)
    names = (b"whole", b"half", b"other")
    tell(repository, links, b"".join(line(links, k, data, name) for k, name in enumerate(names)))
    expected = {"in/whole": ARRIVED, "in/half": AWAITED, "in/other": AWAITED}
    found = arrive(repository, dry_run=True)
    assert {path: each.state for path, each in found.items()} == expected
    assert found["in/whole"].size == len(data)
    assert len(list(uploads.iter_unfinished(INCOMING))) == 3, "a dry run joins nothing"
    found = arrive(repository)
    assert {path: each.state for path, each in found.items()} == expected | {"in/whole": STAGED}
    assert stat(repository, "main", b"in/whole").checksum == blake3_of(data).hex()
    put(1, 2, data[1:2] + data[first + 1 :])
    assert arrive(repository)["in/half"].reason == (
        "its bytes are not those that the sender has read"
    )
    assert arrive(repository)["in/whole"].state == BEFORE


@pytest.mark.parametrize("record", [{}, {"part_size": 1, "max_size": (1 << 53) - 1}])
def test_a_size_that_no_link_has_takes_no_memory(
    repository: Repository, record: dict[str, int]
) -> None:
    store = in_bucket(repository)
    links = open_set(repository, count=1)
    [key] = (info.key for info in store.list(INCOMING) if info.key.endswith(".links"))
    store.put(key, json.dumps({**json.loads(store.get(key)), **record}).encode(), ANY)
    tell(repository, links, line(links, 0, b"", b"large", size=b"9" * 15))
    tracemalloc.start()
    try:
        assert arrive(repository)["in/large"].state == AWAITED
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_stores_that_cannot_take_parts_get_whole_files(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_set(repository).part_size == 0, "a directory"
    signing = in_bucket(repository)
    assert open_set(repository, max_size=64 << 20).part_size == 0
    assert open_set(repository, count=1_000).part_size == 640 << 20
    assert open_set(repository).part_size == 64 << 20

    def refuse(key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        if request.part is not None:
            raise Unsupported("each signature is a request")
        return SigningStore.presign(signing, key, request, now=now)

    monkeypatch.setattr(signing, "presign", refuse, raising=False)
    links = open_set(repository)
    assert (links.part_size, links.links[0].parts) == (0, ())
    send(repository, links, b"1")
    tell(repository, links, line(links, 0, b"1", b"a"))
    assert arrive(repository)["in/a"].state == STAGED


def test_sets_of_before_have_no_parts(repository: Repository) -> None:
    links = open_set(repository)
    send(repository, links, b"1")
    tell(repository, links, line(links, 0, b"1", b"a"))
    key = f"{INCOMING}{links.links[0].id[:16]}.links"
    record = json.loads(repository.store.get(key))
    del record["part_size"], record["uploads"]
    repository.store.put(key, json.dumps(record).encode(), ANY)
    assert arrive(repository)["in/a"].state == STAGED
    record |= {"part_size": 1 << 20, "uploads": ["\udcff"]}
    repository.store.put(key, json.dumps(record).encode(), ANY)
    with pytest.raises(IntegrityError, match="not the ID of an upload"):
        arrive(repository)
