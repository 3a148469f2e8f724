"""What modules need of `typing`, without importing it at run time.

Importing `typing` takes as long as a fifth of Python's own start. Modules that short commands load
take its names from here. Type checkers see `typing`'s own; at run time those that stand in
annotations only are ``None``, since annotations are not evaluated, and the others do what a running
program needs of them::

    from lakecli.typed import TYPE_CHECKING, Final
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import (
        Annotated,
        Any,
        BinaryIO,
        ClassVar,
        Final,
        Generic,
        Literal,
        NewType,
        NoReturn,
        Protocol,
        Self,
        TextIO,
        TypeAlias,
        TypeVar,
        cast,
        runtime_checkable,
    )

    __all__ = [
        "Annotated",
        "Any",
        "BinaryIO",
        "ClassVar",
        "Final",
        "Generic",
        "Literal",
        "NewType",
        "NoReturn",
        "Protocol",
        "Self",
        "TextIO",
        "TypeAlias",
        "TypeVar",
        "cast",
        "runtime_checkable",
    ]
else:
    Any = BinaryIO = ClassVar = Final = Literal = NoReturn = Self = TextIO = TypeAlias = None

    class Annotated:
        """A type, and what is declared about it; `lakecli.cli.line.declare` reads both."""

        __slots__ = ("__metadata__", "__origin__")

        def __class_getitem__(cls, given: tuple[object, ...]) -> Annotated:
            made = object.__new__(cls)
            made.__origin__, *metadata = given
            made.__metadata__ = tuple(metadata)
            return made

    class Generic:
        """The base of generic classes."""

        def __class_getitem__(cls, _parameters: object) -> type:
            return cls

    class _Structural(type):
        """The type of protocols: an object is an instance if it has all they have.

        A class that sets an inherited method to ``None`` has it no more.
        """

        def __instancecheck__(cls, instance: object) -> bool:
            if super().__instancecheck__(instance):
                return True
            return "_is_runtime_protocol" in cls.__dict__ and all(
                hasattr(instance, it)
                and (getattr(instance, it) is not None or not callable(vars(cls)[it]))
                for it in cls._members
            )

    class Protocol(Generic, metaclass=_Structural):
        """The base of protocols."""

    def runtime_checkable(protocol: type) -> type:
        """Let `isinstance` look for the methods and properties of a protocol."""
        protocol._members = [it for it in vars(protocol) if not it.startswith("__")]  # noqa: SLF001
        protocol._is_runtime_protocol = True  # noqa: SLF001 - as `typing` names it
        return protocol

    def NewType(_name: str, _type: type) -> object:  # noqa: N802 - as `typing` names it
        """Return what makes values of a new type: they are unchanged."""
        return lambda value: value

    def TypeVar(name: str, **_bounds: object) -> str:  # noqa: N802 - as `typing` names it
        """Return what stands for a type variable."""
        return name

    def cast(_type: object, value: object) -> object:
        """Return the value."""
        return value
