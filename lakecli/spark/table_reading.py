"""Read a table's data at any ref, with the schema and partition columns that Spark infers.

Spark infers the types of partition columns from the names of the directories (`partition_values`).
If it has a connector to the store, or all machines have the directory, it infers the schema of the
other columns, and reads the objects by their addresses (`native_reading`). Otherwise executors
fetch them, and convert them to the schema that Spark infers from footers and lines
(`fetched_reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from lakecli.engine.runner import StoreLocation
from lakecli.engine.session import gist
from lakecli.errors import Unsupported, UsageError
from lakecli.repository.contract import Notice
from lakecli.spark.fetched_reading import FetchedReading, check_options
from lakecli.spark.native_reading import NativeReading
from lakecli.spark.partition_values import infer_partition_values, prune
from lakecli.spark.sessions import (
    check_format,
    explained,
    hints_told,
    is_case_sensitive,
    names_of,
    opened,
    option_text,
    quoted,
    unlogged,
)
from lakecli.spark.table_files import TableFile, table_files


@hints_told()
def read_table(
    spark: SparkSession,
    uri: str,
    *,
    format: str = "parquet",
    schema: StructType | str | None = None,
    columns: Sequence[str] = (),
    where: str = "",
    native: bool | None = None,
    options: Mapping[str, Any] | None = None,
    home: str | Path | None = None,
) -> DataFrame:
    """Return the data of a table at a ref.

    The ref is resolved now; later commits do not change the DataFrame. If the URI names a branch,
    `write_table` knows from which of its commits the rows come. Directories named
    ``column=value`` become partition columns, as in Spark.

    Args:
        spark: the session.
        uri: ``lakefs://REPOSITORY/REF/PATH`` of a directory of files, or of one file; with
            ``NAMESPACE@REF/PATH`` the repository is read without a clone.
        format: ``parquet``, ``csv`` or ``json`` (lines).
        schema: schema of the data, as in `DataFrameReader.schema`; by default Spark infers it.
        columns: only these columns, in this order; a text is one column. Of Parquet, only they and
            the columns in `where` are decoded.
        where: an SQL condition. Directories are not read if a comparison in it, joined by AND,
            rules them out.
        native: whether Spark reads the objects itself, by its own connector to the store (s3a, gs
            or abfss) and its own credentials, or from a directory that all executors have; by
            default it does where it can.
        options: options of Spark's reader for the format: ``header``, ``mergeSchema``, ….
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.

    Raises:
        UsageError: the format is unknown, Spark cannot infer the schema, or it is not a table.
        NotFound: the repository, the ref or the path does not exist.
        Unsupported: an option is about the names of files, or Spark has no connector.
    """
    check_format(format)
    given = {name: option_text(value) for name, value in (options or {}).items()}
    check_options(given)
    columns = names_of(columns)
    with opened(uri, home=home) as repository, explained(uri):
        if isinstance(schema, str):
            schema = spark.createDataFrame([], schema).schema
        files, origin = table_files(repository, uri)

        def read(way: NativeReading | FetchedReading) -> DataFrame:
            return _rows(spark, way, files, uri, schema=schema, columns=columns, where=where)

        failed: Exception | None = None
        if native is not False:
            try:
                with unlogged():
                    frame = read(NativeReading(spark, repository, format, given))
            except (PySparkException, Py4JJavaError, Unsupported) as error:
                if native:
                    raise
                failed = error
        if native is False or failed:
            location = StoreLocation.of(repository)
            frame = read(FetchedReading(spark, location, format, given))
        if failed and not isinstance(failed, Unsupported):
            what = f"Spark cannot read the objects of {uri} itself, so lakecli fetches them"
            hint = "native=True shows the whole error; native=False leaves out the attempt"
            repository.notify(Notice(f"{what}: {gist(str(failed))}", hint))
        if origin is not None:
            frame = frame.alias(origin.alias)
        if where:
            frame = frame.where(where)
        return frame.select(*columns) if columns else frame


def _rows(
    spark: SparkSession,
    way: NativeReading | FetchedReading,
    files: Sequence[TableFile],
    uri: str,
    *,
    schema: StructType | None,
    columns: Sequence[str],
    where: str,
) -> DataFrame:
    """Return the rows of a table; the caller applies `where`, and selects `columns`."""
    present = [file for file in files if file.size]  # Spark ignores empty files
    directories = sorted({file.directory for file in present})
    partitions = infer_partition_values(spark, directories, schema)
    if not partitions.columns.fields:
        present = [file for file in present if not file.directory]
    if schema is None and not present:
        raise UsageError(
            f"Spark cannot infer the schema of {uri}: it would read none of the files",
            hint="name the directories of the table column=value, and check that files have data",
        )
    data = way.infer(present) if schema is None else schema

    fold: Callable[[str], str] = str if is_case_sensitive(spark) else str.lower
    names = {fold(name): name for name in partitions.columns.names}
    known = {fold(name) for name in data.names}
    order = [names.get(fold(name), name) for name in data.names]
    order += [name for folded, name in names.items() if folded not in known]
    if columns:
        order = [each for each in order if _is_named(each, columns, where)]
    own = StructType([each for each in data.fields if fold(each.name) not in names])
    stored = StructType([each for each in own.fields if each.name in order])
    partitions = prune(spark, partitions, own, where)
    chosen = [file for file in present if file.directory in partitions.texts]
    rows = way.rows(chosen, stored, partitions)
    return rows.select(*(functions.col(quoted(name)) for name in order))


def _is_named(name: str, columns: Sequence[str], where: str) -> bool:
    """Return whether a text in SQL may name a column; one too many is only decoded in vain."""
    spelled = name.lower().replace("`", "``")
    return any(
        name.lower() in text or spelled in text or "*" in text
        for text in map(str.lower, (*columns, where))
    )
