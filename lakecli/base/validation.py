"""Validation of records from a bucket or a file, before any of their fields is used.

Pydantic would noticeably delay the start of each command that reads such records, and report an
invalid record in several lines. Here the error is one line, which names the field and its fault.

Each kind of record is declared once, as a `Record`: its fields, and the legal values of each.
Anyone with write access to the bucket can write any record, so types, lengths, grammar and bounds
of all known fields are checked together. An undeclared field may come from a later version, so it
is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

from lakecli.base.ids import HexId, MalformedId

LATEST: Final = datetime(9998, 12, 31, tzinfo=UTC)
"""The latest time that a record may have; it can still be expressed in every time zone."""

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)

MAX_COUNT: Final = (1 << 53) - 1
"""The largest whole number that every JSON parser represents exactly."""

CHECK_NAME: Final = "[a-z0-9][a-z0-9_-]{0,62}"
"""The names of checks, as a regular expression."""

_SHOWN = 60

Word = TypeVar("Word", bound=str)


class Invalid(ValueError):
    """A record does not match its declaration; the message names the field and its fault."""


class Field(NamedTuple):
    """One field of a record.

    Attributes:
        check: a function that returns the value to use, or raises `Invalid`.
        default: the value of an absent field, if `required` is false.
        required: whether the record must have the field.
    """

    check: Callable[[object], Any]
    default: Any = None
    required: bool = True


def optional(check: Callable[[object], Any], default: object) -> Field:
    """Return a field that may be absent, and then has the value `default`."""
    return Field(check, default, required=False)


class Record:
    """The declaration of one kind of record.

    Args:
        fields: the fields by name; a required field may be given by its check alone.
    """

    def __init__(self, fields: Mapping[str, Field | Callable[[object], Any]]) -> None:
        self._fields = {
            name: each if isinstance(each, Field) else Field(each) for name, each in fields.items()
        }

    @property
    def names(self) -> Sequence[str]:
        """The names of all declared fields."""
        return list(self._fields)

    def read(self, found: object) -> dict[str, Any]:
        """Check all declared fields and return their values.

        Raises:
            Invalid: a field is missing or not valid.
        """
        if not isinstance(found, dict):
            raise Invalid(f"not an object with fields: {_show(found)}")
        values: dict[str, Any] = {}
        for name, field in self._fields.items():
            if name not in found:
                if field.required:
                    raise Invalid(f"no field {name!r}")
                values[name] = field.default
                continue
            try:
                values[name] = field.check(found[name])
            except (Invalid, MalformedId) as error:
                raise Invalid(f"{name}: {error}") from None
        return values

    def unknown(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the undeclared fields, which must be kept when the record is rewritten."""
        return {name: value for name, value in found.items() if name not in self._fields}


def identifier(kind: type[HexId]) -> Callable[[object], HexId]:
    """Return a check for an identifier; the check converts the text to the type `kind`."""

    def check(value: object) -> HexId:
        if not isinstance(value, str):
            raise Invalid(f"not a text: {_show(value)}")
        return kind(value)

    return check


def nullable(check: Callable[[object], Any]) -> Callable[[object], Any]:
    """Return a check that allows ``null`` in addition to the values that `check` allows."""
    return lambda value: None if value is None else check(value)


def or_empty(check: Callable[[object], Any]) -> Callable[[object], Any]:
    """Return a check that allows an empty text in addition to the values that `check` allows."""
    return lambda value: "" if value == "" else check(value)


def whole(low: int, high: int) -> Callable[[object], int]:
    """Return a check for a whole number within bounds, both included."""

    def check(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise Invalid(f"not a whole number from {low} to {high}: {_show(value)}")
        return value

    return check


def boolean(value: object) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise Invalid(f"neither true nor false: {_show(value)}")
    return value


def power_of_two(low: int, high: int) -> Callable[[object], int]:
    """Return a check for a power of two within bounds, both included."""
    within = whole(low, high)

    def check(value: object) -> int:
        number = within(value)
        if number & (number - 1):
            raise Invalid(f"not a power of two: {number}")
        return number

    return check


def text(max_size: int, *, min_size: int = 0, has_nul: bool = False) -> Callable[[object], str]:
    """Return a check for a text; undecodable bytes are allowed as surrogates.

    Args:
        has_nul: whether the text may contain NUL, as paths of objects may.
    """

    def check(value: object) -> str:
        if not isinstance(value, str):
            raise Invalid(f"not a text: {_show(value)}")
        try:
            size = len(value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            raise Invalid(f"not a text, it has half a character: {_show(value)}") from None
        if not min_size <= size <= max_size:
            raise Invalid(f"a text of {size:,} bytes, allowed are {min_size} to {max_size:,}")
        if not has_nul and "\0" in value:
            raise Invalid(f"a text with a NUL: {_show(value)}")
        return value

    return check


def text_that(is_legal: Callable[[str], bool], what: str) -> Callable[[object], str]:
    """Return a check for a text with a grammar, such as the name of a branch.

    Args:
        what: the kind of text, for errors: "the name of a branch".
    """
    as_text = text(4096)

    def check(value: object) -> str:
        found = as_text(value)
        if not is_legal(found):
            raise Invalid(f"not {what}: {_show(found)}")
        return found

    return check


def choice(*allowed: Word) -> Callable[[object], Word]:
    """Return a check for a word from a list; the words may be members of a `StrEnum`."""

    def check(value: object) -> Word:
        for each in allowed:
            if isinstance(value, str) and value == each:
                return each
        raise Invalid(f"none of {', '.join(allowed)}: {_show(value)}")

    return check


def list_of(check: Callable[[object], Any], max_count: int) -> Callable[[object], list[Any]]:
    """Return a check for a list of at most `max_count` values."""

    def check_all(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise Invalid(f"not a list: {_show(value)}")
        if len(value) > max_count:
            raise Invalid(f"a list of {len(value):,}, at most {max_count:,} are allowed")
        return [check(each) for each in value]

    return check_all


def moment(value: object) -> datetime:
    """Parse an ISO 8601 time with a UTC offset, and return the time in UTC.

    Raises:
        Invalid: the value is not such a time, or before 1970 or after the year 9998.
    """
    if not isinstance(value, str) or len(value) > _SHOWN:
        raise Invalid(f"not a time: {_show(value)}")
    try:
        found = datetime.fromisoformat(value)
        at = found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid(f"not a time: {_show(value)}") from None
    if found.tzinfo is None:
        raise Invalid(f"a time without an offset: {value!r}")
    if not EARLIEST <= at <= LATEST:
        raise Invalid(f"a time before 1970 or after 9998: {value!r}")
    return at


def _show(value: object) -> str:
    """Return a short form of a value for an error message."""
    if isinstance(value, str | bytes):
        shown = repr(value[:_SHOWN])
        return shown if len(value) <= _SHOWN else f"{shown}…"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)[:_SHOWN]
    return f"a {type(value).__name__}"
