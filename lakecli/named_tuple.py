"""Named tuples whose classes are cheap to define.

A start defines fifty of them, and makes few tuples. `typing.NamedTuple` compiles a constructor for
each, in 0.09 ms; here that waits until a class has made some tuples, so one takes 0.02 ms. Type
checkers see `typing.NamedTuple`, and the classes behave as its classes do::

    from lakecli.named_tuple import NamedTuple

    class Tag(NamedTuple):
        name: str
        commit_id: CommitId
"""

from __future__ import annotations

from lakecli.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NamedTuple, Self

    __all__ = ["NamedTuple"]
else:
    from collections import _tuplegetter, namedtuple

    _COMPILED_AT = 64
    """What making tuples without a constructor costs before one is compiled; see `_new`."""

    _COST_BY_NAME = 8

    def _new(cls: type[_Tuple], *args: object, **values: object) -> _Tuple:
        """Make one of the first tuples of a class; then, or for an error, compile a constructor.

        A tuple of which all fields are given by position costs 1, as it takes hardly longer than a
        constructor; any other costs `_COST_BY_NAME`.
        """
        cost = cls._cost
        if not values and len(args) == len(cls._fields) and cost[0] < _COMPILED_AT:
            cost[0] += 1
            return tuple.__new__(cls, args)
        cost[0] += _COST_BY_NAME
        owner = next(each for each in cls.__mro__ if "_fields" in each.__dict__)
        given = dict(zip(owner._fields, args, strict=False))
        row = {**owner._field_defaults, **given, **values}
        is_right = len(args) == len(given) and given.keys().isdisjoint(values)
        is_first = cost[0] < _COMPILED_AT
        if is_first and is_right and row.keys() == set(owner._fields):
            return tuple.__new__(cls, map(row.__getitem__, owner._fields))
        defaults = owner._field_defaults.values()
        new = namedtuple(owner.__name__, owner._fields, defaults=defaults).__new__  # noqa: PYI024
        owner.__new__ = new
        return new(cls, *args, **values)

    class _Tuple(tuple):
        """What all of them have."""

        __slots__ = ()
        __new__ = _new

        @classmethod
        def _make(cls, iterable: Iterable[object]) -> Self:
            """Make one from an iterable."""
            made = tuple.__new__(cls, iterable)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **values: object) -> Self:
            """Return one with other values in some fields."""
            made = self._make(map(values.pop, self._fields, self))
            if values:
                raise ValueError(f"Got unexpected field names: {list(values)!r}")
            return made

        def _asdict(self) -> dict[str, Any]:
            """Return the fields and their values."""
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            """Return the class and the fields."""
            fields = ", ".join(map("{}={!r}".format, self._fields, self))
            return f"{type(self).__name__}({fields})"

        def __getnewargs__(self) -> tuple[object, ...]:
            """Return the fields, for copies and pickles."""
            return tuple(self)

    class _Definition(type):
        """Turns the body of a class into a class of tuples."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {each: body[each] for each in fields if each in body}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"a field of {name} without a default after one with a default")
            body |= {each: _tuplegetter(at, None) for at, each in enumerate(fields)}
            body |= {
                "__slots__": (),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": defaults,
                "_cost": [0],
            }
            return type(name, (_Tuple,), body)

    class NamedTuple(metaclass=_Definition):
        """The base of all of them, as the class statement names it."""
