"""Named tuples of ours behave as those of `typing`."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from lakecli.model import Account
from lakecli.named_tuple import NamedTuple


def body(base: Any) -> Any:
    class Point(base):  # type: ignore[misc]
        """A point."""

        x: int
        y: int = 2
        name: str = ""

        @property
        def total(self) -> int:
            return int(self.x + self.y)

        def __str__(self) -> str:
            return f"{self.x}/{self.y}"

    return Point


@pytest.fixture(params=[NamedTuple, typing.NamedTuple], ids=["ours", "typing"])
def point(request: pytest.FixtureRequest) -> Any:
    return body(request.param)


def test_tuples_have_names_and_defaults(point: Any) -> None:
    made = point(1, name="a")
    assert made == (1, 2, "a") == point(*made)
    assert (made.x, made.y, made.name, made.total, str(made)) == (1, 2, "a", 3, "1/2")
    assert repr(made) == "Point(x=1, y=2, name='a')"
    assert made._replace(y=5) == point(1, 5, "a")
    assert type(made._replace(y=5)) is type(made) is point
    assert made._asdict() == {"x": 1, "y": 2, "name": "a"}
    assert point._make([1, 2, "a"]) == made == copy.copy(made) == copy.deepcopy(made)
    assert (point._fields, point._field_defaults) == (("x", "y", "name"), {"y": 2, "name": ""})
    assert (point.__match_args__, point.__doc__) == (("x", "y", "name"), "A point.")
    assert not hasattr(made, "__dict__")


def test_wrong_arguments_are_refused(point: Any) -> None:
    for _ in range(2):  # the first error compiles the constructor
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            point()
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            point(1, z=2)
        with pytest.raises(TypeError, match="multiple values for argument 'x'"):
            point(1, x=1)
        with pytest.raises(TypeError, match="takes from 2 to 4 positional arguments"):
            point(1, 2, "a", 4)
    with pytest.raises(ValueError, match="unexpected field names"):
        point(1)._replace(z=2)
    with pytest.raises(TypeError, match="Expected 3"):
        point._make([1])
    with pytest.raises(AttributeError):
        point(1).x = 2


@pytest.mark.parametrize("base", [NamedTuple, typing.NamedTuple])
def test_defaults_come_last(base: Any) -> None:
    with pytest.raises(TypeError):

        class Wrong(base):  # type: ignore[misc]
            x: int = 1
            y: int


@pytest.mark.parametrize("base", [NamedTuple, typing.NamedTuple])
def test_there_may_be_no_field(base: Any) -> None:
    class Empty(base):  # type: ignore[misc]
        """Nothing."""

    assert Empty() == ()
    assert repr(Empty()) == "Empty()"


def test_a_class_may_be_derived_before_the_first_tuple() -> None:
    point = body(NamedTuple)

    class Derived(point):  # type: ignore[misc, valid-type]
        pass

    assert type(Derived(1)) is Derived
    assert type(point(1)) is point


def test_records_are_pickled() -> None:
    record = Account("ada")
    assert pickle.loads(pickle.dumps(record)) == record
    assert type(pickle.loads(pickle.dumps(record))) is Account


def test_the_constructor_is_compiled_once() -> None:
    point = body(NamedTuple)
    first = body(NamedTuple).__new__
    for number in range(4):
        made = point(number), point(number, name="a"), point(name="a", x=number, y=3)
        assert made == ((number, 2, ""), (number, 2, "a"), (number, 3, "a"))
    compiled = point.__new__
    assert compiled is not first
    point(8)
    assert point.__new__ is compiled
    assert body(NamedTuple).__new__ is first


def test_a_class_with_few_tuples_compiles_nothing() -> None:
    point = body(NamedTuple)
    point(1)
    assert point.__new__ is body(NamedTuple).__new__


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), {}),
        ((), {"z": 2}),
        ((1,), {"z": 2}),
        ((1,), {"x": 1}),
        ((1, 2, "a", 4), {}),
        ((1, 2, "a"), {"y": 2}),
    ],
)
def test_a_first_tuple_of_wrong_arguments_is_refused(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        body(NamedTuple)(*arguments, **named)
