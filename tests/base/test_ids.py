"""Identifiers: nothing but their grammar makes one."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from lakecli.base.ids import (
    CommitId,
    DataDigest,
    HexId,
    IncomingId,
    MetarangeId,
    PackId,
    RangeId,
    RepositoryUuid,
    WriteId,
)
from lakecli.errors import IntegrityError

LONG = (CommitId, MetarangeId, RangeId, PackId, DataDigest, HexId)
SHORT = (WriteId, IncomingId, RepositoryUuid)
SIZES = [(kind, 64) for kind in LONG] + [(kind, 32) for kind in SHORT]

FORGERIES: list[Any] = [
    "a",
    "/etc/passwd",
    "/" + "a" * 63,
    "../" + "a" * 61,
    "..",
    ".",
    "a" * 31 + "/",
    "a" * 63,
    "a" * 65,
    "A" * 64,
    "A" * 32,
    "a" * 31,
    "a" * 33,
    "a" * 63 + "\n",
    "a" * 64 + "\n",
    "a" * 32 + "\n",
    "a" * 63 + "\0",
    "g" * 64,
    "\u0661" * 64,
    "\ud800" * 32,
    " " * 64,
    "a" * 600,
    b"a" * 64,
    b"a" * 32,
    None,
    7,
    10**100,
    ["a" * 64],
    {},
]


@pytest.mark.parametrize(("kind", "size"), SIZES)
def test_a_text_with_the_grammar_is_an_identifier(kind: type[HexId], size: int) -> None:
    text = ("0123456789abcdef" * 4)[:size]
    made = kind(text)
    assert type(made) is kind
    assert made == text
    assert kind(made) is made
    assert kind.of_bytes(bytes.fromhex(text)) == made
    assert kind.is_valid(text)
    assert type(pickle.loads(pickle.dumps(made))) is kind
    assert copy.deepcopy(made) == made
    assert json.loads(json.dumps({made: made})) == {text: text}
    assert {text: 1}[made] == 1
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize("text", FORGERIES, ids=lambda text: repr(text)[:20])
@pytest.mark.parametrize(("kind", "size"), SIZES)
def test_nothing_else_is(kind: type[HexId], size: int, text: Any) -> None:
    assert not kind.is_valid(text)
    with pytest.raises(IntegrityError) as caught:
        kind(text)
    assert caught.value.hint
    assert len(caught.value.message) < 400
    if isinstance(text, str):  # nor does one come out of a pickle
        forged = pickle.dumps(kind("a" * size)).replace(b"a" * size, b"/" + b"a" * (size - 1))
        with pytest.raises(IntegrityError):
            pickle.loads(forged)


@pytest.mark.parametrize(("kind", "size"), SIZES)
def test_empty(kind: type[HexId], size: int) -> None:
    if kind is MetarangeId:
        assert kind("") == ""
        return
    assert not kind.is_valid("")
    with pytest.raises(IntegrityError):
        kind("")
    with pytest.raises(IntegrityError):
        kind.of_bytes(bytes(size // 2 - 1))
