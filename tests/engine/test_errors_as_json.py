from __future__ import annotations

import base64
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.committed.tree_store import MissingTable
from lakecli.engine.errors_as_json import (
    MAX_PATHS,
    MAX_SIZE,
    MAX_TEXT,
    carried,
    dump_error,
    find_carried,
    load_error,
    new_nonce,
)
from lakecli.engine.executors import NoLakecli
from lakecli.engine.spark_runner import Unfinished, raise_translated
from lakecli.errors import ConflictError, LakeError, Refused, UsageError

if TYPE_CHECKING:
    from pathlib import Path

NONCE = "0123456789abcdef" * 2


class Touch:
    """An object that an attacker would have unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


def marker(body: bytes, nonce: str = "") -> str:
    return f"lakecli:{nonce + ':' if nonce else ''}{base64.urlsafe_b64encode(body).decode()}:"


@given(st.text(max_size=50), st.none() | st.text(max_size=50), st.lists(st.binary(max_size=9)))
def test_an_error_keeps_its_class_and_texts(
    message: str, hint: str | None, paths: list[bytes]
) -> None:
    found = find_carried(
        f"…\n{carried(ConflictError(message, hint=hint, paths=paths), NONCE)}\n…", NONCE
    )
    assert type(found) is ConflictError
    assert (found.message, found.hint, found.paths) == (message, hint or None, tuple(paths))
    assert str(found) == message


def test_a_class_with_other_arguments_is_restored() -> None:
    found = load_error(dump_error(MissingTable("_lakefs/x", "local:///nowhere")))
    assert type(found) is MissingTable
    assert "_lakefs/x" in found.message


def test_an_unknown_class_becomes_its_base_class() -> None:
    class Elsewhere(Refused):
        """An error class that only an executor knows."""

    assert type(load_error(dump_error(Elsewhere("no")))) is Refused


def test_size_is_bounded() -> None:
    error = LakeError("m" * 10**6, hint="h" * 10**6, paths=[b"p" * 1024] * 10**4)
    text = dump_error(error)
    assert len(text) <= 2 * MAX_TEXT + MAX_PATHS * 1100 + 1000 < MAX_SIZE
    found = load_error(text)
    assert found is not None
    assert len(found.paths) == MAX_PATHS
    assert load_error(json.dumps({"x": "y" * MAX_SIZE})) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "nonsense",
        "[" * 100_000,
        '{"class": "os:system", "kind": "usage", "message": 1, "hint": null, "paths": []}',
        '{"kind": "usage", "message": "m", "hint": 2, "paths": []}',
        '{"kind": "usage", "message": "m", "hint": null, "paths": [1]}',
        '{"kind": "usage", "message": "m", "hint": null, "paths": "a"}',
        '{"kind": "usage", "message": "m", "hint": null, "paths": ["\\ud800"]}',
        json.dumps(
            {
                "class": "lakecli.errors:Refused",
                "kind": "usage",
                "message": "m",
                "hint": None,
                "paths": [],
            }
        ),
    ],
)
def test_other_texts_are_not_errors(text: str) -> None:
    assert load_error(text) is None


@pytest.mark.parametrize(
    "name", ["os:system", "builtins:eval", "lakecli.engine.session:subprocess", ""]
)
def test_only_error_classes_are_looked_up(name: str) -> None:
    record: dict[str, object] = {
        "class": name,
        "kind": "usage",
        "message": "m",
        "hint": None,
        "paths": [],
    }
    assert type(load_error(json.dumps(record))) is UsageError


def test_forged_markers_do_nothing(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    pickled = pickle.dumps(Touch(canary))
    forged = dump_error(UsageError("forged")).encode()
    for body in (pickled, forged):
        for text in (
            marker(body),
            marker(body, "0" * 32),
            marker(body, ""),
            f"lakecli:{base64.b64encode(body).decode()}:",
        ):
            assert find_carried(text, NONCE) is None
            assert find_carried(text, "") is None
            for nonce in ("", NONCE):
                with pytest.raises(Unfinished):
                    raise_translated(RuntimeError(f"CAST_INVALID_INPUT '{text}'"), nonce=nonce)
    assert find_carried(marker(pickled, NONCE), NONCE) is None  # not even with the nonce
    assert not canary.exists()


def test_a_forged_marker_does_not_hide_the_real_one() -> None:
    forged = marker(dump_error(UsageError("forged")).encode(), "0" * 32)
    found = find_carried(f"{forged} {carried(ConflictError('real'), NONCE)}", NONCE)
    assert type(found) is ConflictError


def test_quoted_data_does_not_decide_the_error() -> None:
    quoted = RuntimeError("the value 'No module named 'lakecli'' PYTHON_VERSION_MISMATCH is bad")
    with pytest.raises(Unfinished):
        raise_translated(quoted)
    with pytest.raises(NoLakecli):
        raise_translated(RuntimeError("x\nModuleNotFoundError: No module named 'lakecli'\n"))


def test_nonces_differ() -> None:
    assert len({new_nonce() for _ in range(100)}) == 100
