"""What Spark finds in an SQL condition: its columns, and conditions that bounds can answer."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from lakecli.spark.conditions import IN, IS_NULL, NOT_NULL, OPERATORS, condition_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from logging import LogRecord

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from lakecli.spark.conditions import Condition

_UNRESOLVED: Final = "UNRESOLVED_COLUMN"
_PART: Final = re.compile(r"`((?:[^`]|``)*)`")
_FRACTION: Final = re.compile(r"\.(\d{6})\d*")
_AND: Final = "And"
_WHOLE_ROWS: Final = re.compile(
    r"[(,]\s*\*|\b(?:rand\w*|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id"
    r"|input_file_\w+)\s*\(",
    re.IGNORECASE,
)
"""All columns at once, or a function whose result depends on more than its arguments."""


def needs_whole_rows(where: str) -> bool:
    """Return whether a condition may mean something else for a part of the columns or rows."""
    return _WHOLE_ROWS.search(where) is not None


@contextmanager
def unlogged() -> Iterator[None]:
    """Have PySpark log no errors of SQL in this thread, where they are expected."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    thread = threading.get_ident()

    def is_other(_record: LogRecord) -> bool:
        return threading.get_ident() != thread

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def find_columns(
    spark: SparkSession, schema: StructType, where: str, columns: Sequence[str]
) -> set[str]:
    """Return the columns that a condition and a selection need, in lower case.

    Args:
        spark: the session.
        schema: all columns.
        where: the condition; ``""``: there is none.
        columns: the selection; all columns if it is empty.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    names = {each.name.lower() for each in schema.fields}
    needed = names if not columns or needs_whole_rows(where) else set()
    for name in map(str.lower, columns):
        top = name if name in names else name.partition(".")[0].strip("`")
        needed = needed | {top} if top in names else names
    while where and needed != names:
        fields = [each for each in schema.fields if each.name.lower() in needed]
        try:
            with unlogged():
                _ = spark.createDataFrame([], StructType(fields)).where(where).schema
        except AnalysisException as error:
            missing = _missing(error) & names
            if missing <= needed:
                return names  # Spark refuses the condition for another reason
            needed |= missing
        else:
            break
    return needed


def _missing(error: Any) -> set[str]:  # noqa: ANN401 - an AnalysisException
    """Return the name of the column that Spark did not find, and its parts."""
    if not str(error.getCondition()).startswith(_UNRESOLVED):
        return set()
    name = (error.getMessageParameters() or {}).get("objectName", "")
    return {part.replace("``", "`").lower() for part in _PART.findall(name)}


def find_conditions(spark: SparkSession, schema: StructType, where: str) -> list[Condition]:
    """Return the simple conditions that all rows satisfy which satisfy a condition in SQL.

    None through Spark Connect, which shows no plans; Spark applies the condition anyway.
    """
    if not where or not hasattr(spark, "_jvm"):
        return []
    # A plan that the optimizer does not replace by an empty one.
    rows = spark.range(1).mapInArrow(_same, schema).where(where)
    jvm: Any = spark._jvm  # noqa: SLF001
    plan = rows._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    strategies = jvm.org.apache.spark.sql.execution.datasources
    strategy = getattr(getattr(strategies, "DataSourceStrategy$"), "MODULE$")
    found = []
    for part in _conjuncts(plan):
        translated = strategy.translateFilter(part, True)  # noqa: FBT003 - of Spark
        condition = _condition(translated.get(), schema) if translated.isDefined() else None
        if condition is not None:
            found.append(condition)
    return found


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def _conjuncts(plan: Any) -> Iterator[Any]:  # noqa: ANN401 - objects of the JVM
    """Yield the conditions of the filters at the top of a plan."""
    while plan.nodeName() == "Filter":
        waiting = [plan.condition()]
        while waiting:
            expression = waiting.pop()
            if expression.getClass().getSimpleName() == _AND:
                waiting += [expression.left(), expression.right()]
            else:
                yield expression
        plan = plan.child()


def _condition(found: Any, schema: StructType) -> Condition | None:  # noqa: ANN401
    operator = found.getClass().getSimpleName()
    if operator not in OPERATORS:
        return None
    values: list[Any] = []
    if operator == IN:
        values = [_value(each) for each in found.values()]
    elif operator not in {IS_NULL, NOT_NULL}:
        values = [_value(found.value())]
    name = found.attribute()
    quoted = _PART.fullmatch(name)
    return condition_of(schema, quoted[1].replace("``", "`") if quoted else name, operator, values)


def _value(value: Any) -> Any:  # noqa: ANN401
    """Return a value of the JVM as one of Python; ``None`` for types without a conversion."""
    if not hasattr(value, "getClass"):
        return value
    kind = value.getClass().getName()
    if kind in {"java.sql.Date", "java.time.LocalDate"}:
        return date.fromisoformat(value.toString())
    if kind == "java.sql.Timestamp":
        value, kind = value.toInstant(), "java.time.Instant"
    if kind in {"java.time.Instant", "java.time.LocalDateTime"}:
        return datetime.fromisoformat(_FRACTION.sub(r".\1", value.toString()))
    return None
