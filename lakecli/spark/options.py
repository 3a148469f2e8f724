"""What reading and writing tables share: formats, options of Spark, quoted column names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lakecli.errors import UsageError

FORMATS: Final = ("parquet", "csv", "json")

KEY: Final = "__lakecli_key"
"""The column by which rows find the partition columns of their file."""

VALUE: Final = "value"
"""The column of lines."""

KINDS_HINT: Final = (
    "name the directory of the table, with all its files in directories column=value, or none"
)
"""The hint if the files of a table are in different kinds of directories."""


def check_format(format: str) -> None:
    """Refuse a format that tables are neither read nor written in.

    Raises:
        UsageError: the format is unknown.
    """
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}", hint=f"one of {', '.join(FORMATS)}")


def flags_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options by their names in lower case, with their values in lower case."""
    return {name.lower(): option_text(value).lower() for name, value in options.items()}


def option_text(value: object) -> str:
    """Return an option's value as Spark takes it, booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def names_of(given: Sequence[str]) -> list[str]:
    """Return names of columns; text is one name, as for Spark."""
    return [given] if isinstance(given, str) else list(given)


def quoted(name: str) -> str:
    """Return a column name in backquotes, as SQL expressions take it."""
    return "`" + name.replace("`", "``") + "`"
