"""Ref objects: their bytes, and bytes that are not a ref object."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.ids import PackId, WriteId
from lakecli.base.model import CommitId, RefKind
from lakecli.remote.ref_records import (
    MAX_MOVES,
    NotOurs,
    RecordedMove,
    RemoteRef,
    Unwritable,
    dump_moves,
    dump_ref,
    parse_moves,
    parse_ref,
)
from lakecli.stores.contract import Version
from tests.support.forgeries import DOCUMENTS, broken

V = Version("v")
FIELDS: dict[str, Any] = {
    "format": 1,
    "kind": "branch",
    "name": "main",
    "commit_id": "ab" * 32,
    "sequence": 2,
    "write_id": "02" * 16,
    "moves": [
        {
            "sequence": 2,
            "write_id": "02" * 16,
            "from": None,
            "to": "ab" * 32,
            "who": "Ada <ada@example.com>",
            "at": "2026-11-20T15:00:00Z",
            "why": "push",
            "pack": "cd" * 32,
        },
        {
            "sequence": 1,
            "write_id": "01" * 16,
            "from": "ab" * 32,
            "to": None,
            "who": "",
            "at": "2026-11-20T16:00:00+02:00",
            "why": "delete",
        },
    ],
}

commit_ids = st.none() | st.binary(min_size=32, max_size=32).map(bytes.hex).map(CommitId)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
EMPTY: Literal[""] = ""
write_ids = st.binary(min_size=16, max_size=16).map(WriteId.of_bytes)
pack_ids = st.just(EMPTY) | st.binary(min_size=32, max_size=32).map(PackId.of_bytes)
times = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC)).map(
    lambda at: at.replace(microsecond=0)
)


@st.composite
def refs(draw: st.DrawFn) -> RemoteRef:
    newest = draw(st.integers(MAX_MOVES, 10**15))
    moves = tuple(
        RecordedMove(
            newest - number,
            draw(write_ids),
            draw(commit_ids),
            draw(commit_ids),
            draw(words),
            draw(times),
            draw(words),
            draw(pack_ids),
            draw(st.sampled_from(["", '{"later":[1]}'])),
        )
        for number in range(draw(st.integers(1, 5)))
    )
    return RemoteRef(
        kind=draw(st.sampled_from([RefKind.BRANCH, RefKind.TAG])),
        name=draw(words) + "\udc80",
        commit_id=moves[0].after,
        sequence=newest,
        write_id=moves[0].write_id,
        moves=moves,
        version=V,
        extra=draw(st.sampled_from([{}, {"new": {"field": None}}])),
    )


@given(refs())
def test_a_ref_is_read_as_it_was_written(ref: RemoteRef) -> None:
    assert parse_ref(ref.kind, ref.name, dump_ref(ref), V) == ref
    assert parse_moves("key", dump_moves(ref.moves)) == ref.moves


def test_a_ref_object() -> None:
    ref = parse_ref(RefKind.BRANCH, "main", json.dumps(FIELDS).encode(), V)
    assert [move.at.hour for move in ref.moves] == [15, 14]
    assert (ref.moves[0].pack, ref.moves[1].pack) == ("cd" * 32, "")
    written = json.loads(dump_ref(ref))
    assert written["moves"][0] == FIELDS["moves"][0]
    assert {**written, "moves": None} == {**FIELDS, "moves": None}


def changed(**fields: object) -> bytes:
    return json.dumps({**FIELDS, **fields}).encode()


def with_move(**fields: object) -> bytes:
    first, second = FIELDS["moves"]
    return changed(moves=[{**first, **fields}, second])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        json.dumps({"type": "other"}).encode(),
        changed(format="1"),
        changed(format=0),
        changed(format=True),
        changed(commit_id="ab"),
        changed(commit_id="AB" * 32),
        changed(commit_id=7),
        changed(commit_id="cd" * 32),
        changed(sequence=3),
        changed(sequence="2"),
        changed(sequence=0, moves=[]),
        with_move(why="x" * 257),
        changed(write_id="w1"),
        changed(moves=None),
        changed(moves=[1]),
        changed(moves=list(reversed(FIELDS["moves"]))),
        with_move(at="yesterday"),
        with_move(at="2026-11-20T15:00:00"),
        with_move(at=1),
        with_move(who=None),
        with_move(**{"from": "x"}),
    ],
)
def test_malformed_refs_are_refused(data: bytes) -> None:
    with pytest.raises(NotOurs, match=r"_lakecli/refs/branches/main was not written by lakecli"):
        parse_ref(RefKind.BRANCH, "main", data, V)


SOUND_MOVE: dict[str, Any] = {**FIELDS["moves"][0], "new": 1}
IDS_OR_NULL = {"null"}
TEXTS = {
    "empty", "short", "short ID", "uneven ID", "long ID", "capitals", "newline after an ID",
    "absolute path", "absolute path of the size of an ID", "absolute path of the size of a UUID",
    "parent", "parents",
}  # fmt: skip
BROKEN_REFS = dict(
    broken(
        {**FIELDS, "moves": []},
        {"commit_id": IDS_OR_NULL, "moves": {"list"}, "sequence": {"number"}},
    )
)
BROKEN_MOVES = dict(
    broken(
        {name: value for name, value in SOUND_MOVE.items() if name != "new"},
        {
            "who": TEXTS,
            "why": TEXTS,
            "pack": {"empty", "missing"},
            "from": IDS_OR_NULL,
            "to": IDS_OR_NULL,
            "sequence": {"number"},
        },
    )
)


@pytest.mark.parametrize("fields", BROKEN_REFS.values(), ids=BROKEN_REFS)
def test_each_field_of_a_ref_broken_in_each_way(fields: dict[str, Any]) -> None:
    with pytest.raises(NotOurs) as caught:
        parse_ref(RefKind.BRANCH, "main", json.dumps(fields).encode(), V)
    assert caught.value.hint
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("fields", BROKEN_MOVES.values(), ids=BROKEN_MOVES)
def test_each_field_of_a_move_broken_in_each_way(fields: dict[str, Any]) -> None:
    with pytest.raises(NotOurs):
        parse_ref(RefKind.BRANCH, "main", changed(moves=[fields, FIELDS["moves"][1]]), V)
    with pytest.raises(NotOurs):
        parse_moves("key", json.dumps({"format": 1, "moves": [fields]}).encode())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_hostile_documents(name: str) -> None:
    with pytest.raises(NotOurs):
        parse_ref(RefKind.BRANCH, "main", DOCUMENTS[name], V)
    with pytest.raises(NotOurs):
        parse_moves("key", DOCUMENTS[name])


def test_the_limits_of_a_ref() -> None:
    moves = [{**FIELDS["moves"][1], "why": "x" * 256}]
    data = changed(name="x", sequence=1, write_id="01" * 16, commit_id=None, moves=moves)
    assert parse_ref(RefKind.BRANCH, "x", data, V).sequence == 1
    moves = [{**FIELDS["moves"][1], "sequence": 0}]
    with pytest.raises(NotOurs):
        parse_moves("key", json.dumps({"format": 1, "moves": moves}).encode())


def test_a_ref_that_could_not_be_read_is_not_written() -> None:
    ref = parse_ref(RefKind.BRANCH, "main", json.dumps(FIELDS).encode(), V)
    long = ref.moves[0]._replace(who="x" * 5_000)
    with pytest.raises(Unwritable, match="who"):
        dump_ref(ref._replace(moves=(long, *ref.moves[1:])))
    with pytest.raises(Unwritable, match="who"):
        dump_moves((long,))
    with pytest.raises(Unwritable, match="bytes"):
        dump_ref(ref._replace(extra={"new": "x" * (1 << 20)}))


def test_a_ref_that_is_not_json_is_refused() -> None:
    with pytest.raises(NotOurs, match=r"by lakecli: it is not JSON$"):
        parse_ref(RefKind.BRANCH, "main", b"", V)


def test_a_ref_of_another_name_or_format() -> None:
    with pytest.raises(NotOurs, match=r"refs/tags/main says that it is branch 'main'"):
        parse_ref(RefKind.TAG, "main", changed(), V)
    with pytest.raises(NotOurs, match=r"is of format 2, this lakecli knows 1") as raised:
        parse_ref(RefKind.BRANCH, "main", changed(format=2, moves="unknown"), V)
    assert "upgrade" in (raised.value.hint or "")


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"format":1}', b'{"format":1,"moves":[]}', b'{"format":1,"moves":{}}']
)
def test_malformed_reflog_objects_are_refused(data: bytes) -> None:
    with pytest.raises(NotOurs, match="some/key was not written"):
        parse_moves("some/key", data)


@pytest.mark.parametrize("sequences", [(5, 3), (3, 4), (4, 4), (4, 3, 1)])
def test_moves_of_the_reflog_are_numbered_consecutively(sequences: tuple[int, ...]) -> None:
    moves = [{**FIELDS["moves"][1], "sequence": sequence} for sequence in sequences]
    with pytest.raises(NotOurs, match="numbered consecutively"):
        parse_moves("some/key", json.dumps({"format": 1, "moves": moves}).encode())


@pytest.mark.parametrize("format", [-1, 0, 1])
def test_the_first_format_of_a_reflog_object_is_1(format: int) -> None:
    moves = parse_ref(RefKind.BRANCH, "main", changed(), V).moves
    data = dump_moves(moves).replace(b'"format":1', b'"format":%d' % format)
    if format == 1:
        assert parse_moves("some/key", data) == moves
    else:
        with pytest.raises(NotOurs, match="some/key was not written"):
            parse_moves("some/key", data)
