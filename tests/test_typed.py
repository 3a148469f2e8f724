"""`lakecli.typed` does at run time what `typing` does, for what programs notice."""

from __future__ import annotations

import ast
import typing
from pathlib import Path

import pytest

from lakecli import typed
from lakecli.objectstore.capabilities import HasUploads, HasVersions
from lakecli.objectstore.memory.store import MemoryStore
from lakecli.typed import Annotated, Generic, NewType, Protocol, TypeVar, cast, runtime_checkable

T = TypeVar("T")
Token = NewType("Token", bytes)


@runtime_checkable
class Opens(Protocol):
    def open(self) -> int: ...

    def close(self) -> None:
        return None


class Unrelated:
    def open(self) -> int:
        return 1

    def close(self) -> None:
        return None


class Closed(Unrelated):
    open = None  # type: ignore[assignment]


@runtime_checkable
class HasSize(Protocol):
    @property
    def size(self) -> int | None: ...


class Unsized:
    size = None


class Named(Opens):
    def open(self) -> int:
        return 2


class Box(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value


def test_what_type_checkers_see_exists_at_run_time() -> None:
    tree = ast.parse(Path(typed.__file__).read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "typing"
        for alias in node.names
    }
    assert imported
    assert imported - set(vars(typed)) == set()
    assert not typed.TYPE_CHECKING


@pytest.mark.parametrize(
    ("value", "opens"),
    [(Unrelated(), True), (Named(), True), (Closed(), False), (1, False)],
)
def test_a_protocol_looks_for_methods(value: object, *, opens: bool) -> None:
    assert isinstance(value, Opens) == opens


def test_a_property_may_be_none() -> None:
    assert isinstance(Unsized(), HasSize)
    assert not isinstance(Unrelated(), HasSize)


def test_a_class_that_names_a_protocol_is_no_protocol() -> None:
    assert not isinstance(Unrelated(), Named)


def test_a_store_has_the_protocols_of_its_methods() -> None:
    store = MemoryStore()
    assert isinstance(store, HasUploads)
    assert isinstance(store, HasVersions)
    assert not isinstance(object(), HasUploads)


def test_annotations_keep_type_and_metadata() -> None:
    ours = Annotated[list[str], "a", 1]
    theirs = typing.Annotated[list[str], "a", 1]
    for name in ("__origin__", "__metadata__"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_new_types_and_casts_change_nothing() -> None:
    data = b"a"
    assert Token(data) is data
    kept: object = cast("object", data)
    assert kept is data
    assert Box[str]("a").value == "a"
