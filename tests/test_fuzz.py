"""Every decoder of bytes out of a bucket, on bytes that begin as sound ones and are changed.

A decoder may return whatever it likes or raise a `LakeError`, and nothing else, within bounded time
and memory. The changes follow from a seed and a number, so that a failure names what repeats it.
All targets share the time, half a minute, or an hour nightly (`--fuzz-minutes`).
"""

from __future__ import annotations

import io
import json
import random
import resource
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lakecli.base import layout, parsing
from lakecli.base.identity import blake3_of
from lakecli.base.ids import PackId
from lakecli.base.model import EMPTY_TREE, MetarangeId, RefKind
from lakecli.committed.check import check_metarange, check_range
from lakecli.committed.diff import diff
from lakecli.committed.metaranges import decode_range_record, decode_tree_property, parse_metarange
from lakecli.committed.point_reads import find
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import decode_entry, decode_value, identity_of
from lakecli.doctor.evidence import read_evidence
from lakecli.engine.errors_as_json import dump_error, load_error
from lakecli.errors import LakeError
from lakecli.gc.known_refs import LAST, read_last
from lakecli.gc.policy import find_rules
from lakecli.gc.report import GarbageSummary, RefGarbage, dump_summary, parse_summary
from lakecli.gc.state import Marks
from lakecli.imports.report import pack_result, unpack_result
from lakecli.proto.varint import Malformed
from lakecli.remote.gc_protocol import iter_expired, iter_keeps, look, read_state
from lakecli.remote.packs import decode_commit, read_pack
from lakecli.remote.ref_records import parse_moves, parse_ref
from lakecli.repository.handle.namespace import describe, owner_of
from lakecli.repository.handoff.manifest import read_manifest
from lakecli.sstable import reader
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.stores.contract import ANY
from tests.support.forge import Namespace
from tests.support.forgeries import DOCUMENTS, VALUES
from tests.support.lakefs_files import DIRECTORY
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CI_SECONDS = 30.0
SLOW = 10.0
"""Seconds that one decoding may take, however busy the machine is."""

MEMORY = 400 << 20
"""Bytes that the process may grow by while a target runs."""


class Target(NamedTuple):
    """A decoder and what it is given.

    Attributes:
        name: of the decoder.
        samples: sound bytes.
        decode: decodes bytes, whatever they are.
    """

    name: str
    samples: Sequence[bytes]
    decode: Callable[[bytes], object]


OBJECTS = Namespace().objects()


def objects(prefix: str) -> list[bytes]:
    return [body for key, body in OBJECTS.items() if key.startswith(prefix)]


def at(key: str, call: Callable[[MemoryStore], object]) -> Callable[[bytes], object]:
    """Return a decoder of the object at a key."""

    def decode(data: bytes) -> object:
        store = MemoryStore()
        store.put(key, data, ANY)
        found: Any = call(store)
        return list(found) if hasattr(found, "__next__") else found

    return decode


def read_table(data: bytes) -> None:
    table = SSTable(BytesSource("fuzz", data))
    for key, _ in table.records():
        table.get(key)


def read_tree(data: bytes) -> None:
    """Read one object as the metarange and as every range that it may name."""
    store = MemoryStore()
    name = MetarangeId(blake3_of(data).hex())
    store.put(f"_lakefs/{name}", data, ANY)
    for body in objects("_lakefs/"):
        store.put(f"_lakefs/{blake3_of(body).hex()}", body, ANY)
    trees = TreeStore(store, cache=None, range_entries=16)
    records, _ = check_metarange(trees, name)
    for record in records[:5]:
        list(check_range(trees, record))
    parse_metarange(name, SSTable(BytesSource("fuzz", data)))


def read_tree_by_use(data: bytes) -> None:
    store = MemoryStore()
    name = MetarangeId(blake3_of(data).hex())
    store.put(f"_lakefs/{name}", data, ANY)
    trees = TreeStore(store, cache=None, range_entries=16)
    find(trees, name, b"a")
    list(diff(trees, EMPTY_TREE, name))


def read_a_pack(data: bytes) -> None:
    store = MemoryStore()
    store.put(f"_lakecli/commits/{blake3_of(data).hex()}", data, ANY)
    read_pack(store, PackId(blake3_of(data).hex()))


def values_of(table: bytes) -> list[bytes]:
    return [value for _, value in SSTable(BytesSource("sample", table)).records()]


def read_key(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    layout.ref_of_key(text)
    layout.ref_of_key(f"_lakecli/refs/branches/{text}")
    layout.data_digest(text)


def carried_results() -> list[bytes]:
    from lakecli.imports.model import ImportedPart, ImportTally
    from lakecli.imports.tree_parts import EMPTY

    cut = EMPTY._replace(head_keys=[b"k"], head_values=[b"v"])
    return [pack_result(ImportedPart(EMPTY_TREE, cut, ImportTally()))]


def targets() -> Iterator[Target]:
    tables = [body for key, body in OBJECTS.items() if key.startswith("_lakefs/")][1:]
    by_lakefs = ("range.sst", "metarange.sst", "ok1.sst")
    tables += [(DIRECTORY / name).read_bytes() for name in by_lakefs]
    packs = objects("_lakecli/commits/")
    (branch,) = objects("_lakecli/refs/branches/")
    reflog = objects("_lakecli/reflog/")
    mark = f"3-{'d' * 32}"
    repository = objects(layout.REPOSITORY)
    state = objects("_lakecli/gc/state")
    values = [value for table in tables for value in values_of(table)]
    commits = [value for pack in packs for value in values_of(pack)]
    manifest = json.dumps(
        {"format": "lakecli-manifest", "version": 1, "objects": [{"path": "a", "url": "https://x"}]}
    ).encode()
    yield Target(
        RefKind.BRANCH, [branch], lambda data: parse_ref(RefKind.BRANCH, "main", data, _VERSION)
    )
    yield Target("moves", reflog, lambda data: parse_moves("key", data))
    yield Target("repository", repository, at(layout.REPOSITORY, describe))
    yield Target("sharing", objects(layout.SHARING), at(layout.SHARING, read_evidence))
    yield Target("owner", repository, at(layout.REPOSITORY, owner_of))
    yield Target("state", state, at("_lakecli/gc/state", read_state))
    yield Target("state to move", state, at("_lakecli/gc/state", look))
    yield Target("rules", objects("_lakecli/gc/rules"), at("_lakecli/gc/rules.json", find_rules))
    yield Target(
        "marks",
        objects(f"_lakecli/gc/marks/{mark}/others"),
        at(f"_lakecli/gc/marks/{mark}/others", lambda store: Marks(store, mark).others()),
    )
    yield Target(
        "marks of data",
        objects(f"_lakecli/gc/marks/{mark}/data-all"),
        at(f"_lakecli/gc/marks/{mark}/data-all", lambda store: Marks(store, mark).data("all")),
    )
    yield Target("keeps", objects("_lakecli/gc/keep/"), at("_lakecli/gc/keep/3/x", iter_keeps))
    yield Target("expired", objects("_lakecli/gc/exp"), at("_lakecli/gc/expired/2", iter_expired))
    line = f"2 {'a' * 32} _lakecli/refs/branches/main {'b' * 64}\n".encode()
    yield Target("refs seen", [line], at(LAST, lambda store: read_last(store, "lakefs://demo")))
    main = RefGarbage(RefKind.BRANCH, "main", deleted=False, trees=1, former_trees=2)
    yield Target("summary", [dump_summary(GarbageSummary((main,), 3, 4))], parse_summary)
    yield Target("table", [*tables, *packs], read_table)
    yield Target("tree", tables, read_tree)
    yield Target("tree in use", tables, read_tree_by_use)
    yield Target("pack", packs, read_a_pack)
    yield Target("entry", values, decode_entry)
    yield Target("value", [*values, *commits], decode_value)
    yield Target("identity", values, identity_of)
    yield Target("range record", values, decode_range_record)
    yield Target("commit", commits, lambda data: decode_commit(b"a" * 64, data))
    yield Target("tree property", [b"1;n=16"], decode_tree_property)
    yield Target("key", [key.encode() for key in OBJECTS], read_key)
    yield Target("JSON", [branch, *DOCUMENTS.values()], unparsable_is_told(parsing.parse_json))
    yield Target("TOML", [b'[a]\nb = "c"\nd = [1, 2.5]\n'], unparsable_is_told(read_toml))
    yield Target("manifest", [manifest, b"path,size,checksum,url\na,1,x,https://x\n"], read_links)
    error = dump_error(LakeError("m", hint="h", paths=[b"p"]))
    yield Target("carried error", [error.encode()], lambda data: load_error(data.decode("latin-1")))


_VERSION: Any = "v1"


def read_toml(data: bytes) -> object:
    return parsing.parse_toml(data.decode("utf-8", "replace"))


def unparsable_is_told(call: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Take a parser's own error, which its callers translate, for a `LakeError`."""

    def decode(data: bytes) -> object:
        try:
            return call(data)
        except parsing.Unparsable:
            return None

    return decode


def read_links(data: bytes) -> None:
    file = io.StringIO(data.decode("utf-8", "surrogateescape"))
    _, items = read_manifest(file)
    for _ in items:
        pass


# -- changes -----------------------------------------------------------------------------------

NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1]
TOKENS = [
    b"", b"\0", b"\xff" * 9, b"/etc/passwd", b"../" * 9, b"\x1b[2J", b"9" * 400, b"-1", b"1e400",
    b"[" * 2_000, b"{" * 2_000, b'"', b"\\ud800", b"null", b"NaN", b"\n", b",", b"%00",
    b"\x80" * 12,
]  # fmt: skip


def change(noise: random.Random, samples: Sequence[bytes]) -> bytes:
    """Return bytes that were sound once."""
    sample = noise.choice(samples)
    if noise.random() < 0.25:
        changed = change_json(noise, sample)
        if changed is not None:
            return changed
    data = bytearray(sample)
    for _ in range(noise.choice((1, 1, 1, 2, 4, 16))):
        if not data:
            data += noise.choice(TOKENS)
            continue
        where = noise.randrange(len(data))
        old = noise.choice((0, 1, 2, 8, 64, len(data)))
        data[where : where + old] = instead(noise, data, where, samples)
    return bytes(data[: 8 << 20])


def instead(
    noise: random.Random, data: bytearray, where: int, samples: Sequence[bytes]
) -> bytes | bytearray:
    """Return what shall stand somewhere, in the place of what stands there, or before it."""
    other = noise.choice(samples)
    size = noise.choice((1, 2, 4, 8))
    number = noise.choice(NUMBERS) & ((1 << 8 * size) - 1)
    return noise.choice(
        (
            b"",
            bytes([data[where] ^ 1 << noise.randrange(8)]),
            bytes([noise.randrange(256)]),
            noise.choice(TOKENS),
            data[where : where + noise.choice((1, 8, 100))] * noise.choice((1, 2, 50)),
            other[noise.randrange(len(other) + 1) :],
            number.to_bytes(size, "little"),
            bytes([data[where] | 0x80]) * noise.choice((1, 5, 11)),
        )
    )


def change_json(noise: random.Random, sample: bytes) -> bytes | None:
    """Replace one value somewhere in a JSON document; ``None`` where there is none."""
    try:
        document = json.loads(sample)
    except (ValueError, RecursionError):
        return None
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting and len(places) < 1_000:
        found = waiting.pop()
        if isinstance(found, dict | list):
            names = list(found) if isinstance(found, dict) else list(range(len(found)))
            places += [(found, name) for name in names]
            waiting += [found[name] for name in names]
    if not places:
        return None
    holder, name = noise.choice(places)
    holder[name] = noise.choice([*VALUES.values(), noise.choice(NUMBERS), -(10**40), [[[[]]]]])
    return json.dumps(document).encode()


def fuzz(target: Target, *, seconds: float, seed: int) -> int:
    """Feed changed samples to a decoder for some time; return how many."""
    for sample in target.samples:
        if target.name not in {"range record", "entry", "commit", "tree"}:
            attempt(target, sample, "a sample")
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end or count < 20:
        noise = random.Random(f"{seed} {target.name} {count}")
        attempt(target, change(noise, target.samples), f"number {count} of seed {seed}")
        count += 1
    return count


def attempt(target: Target, data: bytes, what: str) -> None:
    begun = time.process_time()
    try:
        target.decode(data)
    except LakeError:
        pass
    except Exception as error:
        error.add_note(f"{target.name}: {what}: {data[:400]!r}")
        raise
    took = time.process_time() - begun
    assert took < SLOW, f"{target.name}: {what} took {took:.1f} s: {data[:400]!r}"


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


TARGETS = list(targets())


@pytest.fixture
def no_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let changed blocks through to what reads them; a forger computes checksums, too."""

    def verify(stored: bytes, size: int) -> None:
        if len(stored) != size or size < 5:
            raise Malformed("a block of another size")

    monkeypatch.setattr(reader, "verify", verify)


def run_target(target: Target, seconds: float, seed: int) -> None:
    before = peak()
    assert fuzz(target, seconds=seconds, seed=seed) >= 20
    assert peak() - before < MEMORY


@pytest.mark.usefixtures("no_checksums")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_changed_bytes(target: Target) -> None:
    run_target(target, CI_SECONDS / len(TARGETS), seed=1)


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
@pytest.mark.usefixtures("no_checksums")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_changed_bytes_for_an_hour(target: Target, request: pytest.FixtureRequest) -> None:
    seconds = 60 * request.config.getoption("--fuzz-minutes")
    run_target(target, seconds / len(TARGETS), seed=time.time_ns())


def test_a_decoder_that_fails_is_found() -> None:
    def decode(data: bytes) -> int:
        return int(json.loads(data)["sequence"])  # as a careless one would

    (branch,) = objects("_lakecli/refs/branches/")
    with pytest.raises((ValueError, TypeError, KeyError)):
        fuzz(Target("careless", [branch], decode), seconds=20, seed=1)


def test_results_of_parts_travel_whole() -> None:
    for packed in carried_results():
        assert pack_result(unpack_result(packed)) == packed
