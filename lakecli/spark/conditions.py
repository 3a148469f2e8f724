"""Simple conditions on columns, and whether values between two bounds can satisfy them.

The bounds are the statistics of a row group of Parquet, or the value of a partition column twice.
Values that cannot be compared for certain can satisfy everything, and Spark applies the whole
condition to the rows, too: so a wrong "yes" costs time, and there is no wrong "no".
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

EQUAL: Final = "EqualTo"
LESS: Final = "LessThan"
AT_MOST: Final = "LessThanOrEqual"
GREATER: Final = "GreaterThan"
AT_LEAST: Final = "GreaterThanOrEqual"
IN: Final = "In"
STARTS: Final = "StringStartsWith"
IS_NULL: Final = "IsNull"
NOT_NULL: Final = "IsNotNull"

OPERATORS: Final = frozenset(
    {EQUAL, LESS, AT_MOST, GREATER, AT_LEAST, IN, STARTS, IS_NULL, NOT_NULL}
)
"""The conditions by the names of their classes in PySpark, and in Spark itself."""

_COMPARABLE: Final = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "decimal", "boolean", "string"}
    | {"date", "timestamp", "timestamp_ntz"}
)
"""Types whose values compare in Python as in Spark; `can_match` knows the exception."""


class Condition(NamedTuple):
    """A condition that all rows of a result satisfy.

    Attributes:
        column: its name, in lower case.
        operator: one of `OPERATORS`.
        values: what the column is compared with; none for `IS_NULL` and `NOT_NULL`.
    """

    column: str
    operator: str
    values: tuple[Any, ...]


class Bounds(NamedTuple):
    """What is known of a column's values in some rows.

    Attributes:
        lowest: no value is lower; ``None`` is unknown.
        highest: no value is higher; ``None`` is unknown.
        has_nulls: whether there may be nulls.
        has_values: whether there may be anything else.
    """

    lowest: Any
    highest: Any
    has_nulls: bool
    has_values: bool


def of_value(value: Any) -> Bounds:  # noqa: ANN401 - a value of any column
    """Return the bounds of one value, which may be null."""
    return Bounds(value, value, value is None, value is not None)


def conditions_of(filters: Iterable[Filter], schema: StructType) -> list[Condition]:
    """Return the conditions in the filters that Spark passes to a data source."""
    found = []
    for each in filters:
        path: Sequence[str] = getattr(each, "attribute", ())
        if len(path) != 1:
            continue
        value: Any = getattr(each, "value", None)
        values = tuple(value) if isinstance(value, list | tuple) else (value,)
        condition = condition_of(schema, path[0], type(each).__name__, values)
        if condition is not None:
            found.append(condition)
    return found


def condition_of(
    schema: StructType, column: str, operator: str, values: Sequence[Any]
) -> Condition | None:
    """Return a condition; ``None`` if it cannot be compared with bounds.

    Args:
        schema: the columns and their types.
        column: its name.
        operator: name of the condition's class.
        values: what it compares with.
    """
    kinds = [each.dataType for each in schema.fields if each.name.lower() == column.lower()]
    if operator not in OPERATORS or len(kinds) != 1:
        return None
    kind = kinds[0].typeName()
    # A string with a collation has another order, and its own name.
    is_plain = kind != "string" or kinds[0].simpleString() == "string"
    if operator in {IS_NULL, NOT_NULL}:
        return Condition(column.lower(), operator, ())
    if not is_plain or kind not in _COMPARABLE:
        return None
    if not values or any(value is None for value in values):
        return None
    if kind == "timestamp":
        values = [each.astimezone(UTC) for each in values if isinstance(each, datetime)]
    return Condition(column.lower(), operator, tuple(values)) if values else None


def can_match(condition: Condition, bounds: Bounds) -> bool:
    """Return whether rows with such values can satisfy a condition."""
    if condition.operator == IS_NULL:
        return bounds.has_nulls
    if not bounds.has_values or condition.operator == NOT_NULL:
        return bounds.has_values
    lowest, highest = bounds.lowest, bounds.highest
    if not all(type(value) is type(lowest) is type(highest) for value in condition.values):
        return True
    if isinstance(lowest, float) and _has_hidden(condition, lowest, highest):
        return True
    try:
        return any(
            _is_within(condition.operator, value, lowest, highest) for value in condition.values
        )
    except TypeError:  # a time with a zone and one without
        return True


def _has_hidden(condition: Condition, lowest: float, highest: float) -> bool:
    """Return whether NaN, which is the largest number in Spark and in no statistics, may match."""
    return condition.operator in {GREATER, AT_LEAST} or any(
        map(isnan, (lowest, highest, *condition.values))
    )


def _is_within(operator: str, value: Any, lowest: Any, highest: Any) -> bool:  # noqa: ANN401
    if operator in {EQUAL, IN}:
        return bool(lowest <= value <= highest)
    if operator == STARTS:
        return bool(lowest[: len(value)] <= value <= highest[: len(value)])
    if operator in {LESS, AT_MOST}:
        return bool(lowest < value or (operator == AT_MOST and lowest == value))
    return bool(highest > value or (operator == AT_LEAST and highest == value))
