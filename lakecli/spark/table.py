"""Read a table's data at any ref, with the schema and partition columns that Spark infers.

If the bytes are files of the machine that Spark runs on, Spark reads them itself, through a
directory of links (`layout`). Otherwise executors fetch them through lakecli's stores (`remote`),
as Spark has no connectors to buckets.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lakecli.errors import UsageError
from lakecli.pipeline.session import gist
from lakecli.spark.files import table_files
from lakecli.spark.options import KINDS_HINT, check_format, names_of
from lakecli.spark.sessions import is_here
from lakecli.spark.snapshot import hints_told, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_HINTS: Final = {
    "CANNOT_READ_FILE_FOOTER": 'give the format of the files: format="csv"',
    "CONFLICTING_DIRECTORY_STRUCTURES": KINDS_HINT,
    "CONFLICTING_PARTITION_COLUMN_NAMES": KINDS_HINT,
}
"""Hints, by what Spark's error contains."""


@hints_told()
def read_table(
    spark: SparkSession,
    uri: str,
    *,
    format: str = "parquet",
    schema: StructType | str | None = None,
    columns: Sequence[str] = (),
    where: str = "",
    native: bool = False,
    options: Mapping[str, Any] | None = None,
    home: str | Path | None = None,
) -> DataFrame:
    """Return the data of a table at a ref.

    The ref is resolved now; later commits do not change the DataFrame. If the URI names a branch,
    `write_table` knows from which of its commits the rows come. Directories named
    ``column=value`` become partition columns, as in Spark.

    Args:
        spark: the session.
        uri: ``lakefs://REPOSITORY/REF/PATH`` of a directory of files, or of one file.
        format: ``parquet``, ``csv`` or ``json`` (lines).
        schema: schema of the data, as in `DataFrameReader.schema`; by default Spark infers it.
        columns: only these columns, in this order; a text is one column. Of Parquet, only they and
            the columns in `where` are fetched.
        where: an SQL condition. Directories that cannot satisfy it are not read, and of Parquet no
            row groups whose statistics show that they have no such row.
        native: have Spark read the objects itself, by its own connector to the store (s3a, gs or
            abfss) and its own credentials; or from a directory that all executors have.
        options: options of Spark's reader for the format: ``header``, ``mergeSchema``, ….
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.

    Raises:
        UsageError: the format is unknown, Spark cannot infer the schema, or it is not a table.
        NotFound: the repository, the ref or the path does not exist.
        Unsupported: an option needs the files on this machine, or Spark has no connector.
    """
    from lakecli.spark import layout, remote
    from lakecli.spark.native import load

    check_format(format)
    given = dict(options or {})
    columns = names_of(columns)
    with opened(uri, home=home) as repository:
        files, origin = table_files(repository, uri)
        is_linked = is_here(spark) and not native
        paths = layout.local_files(repository, files) if is_linked else None
        with explained(uri):
            if paths is None:
                source = remote.Source(repository, files, uri=uri, format=format, options=given)
                if native:
                    plan = source.plan(spark, schema=schema, columns=columns, where=where)
                    frame = load(spark, repository, plan, format=format, options=given)
                else:
                    frame = source.read(spark, schema=schema, columns=columns, where=where)
            else:
                reader = spark.read.format(format).options(**given)
                if schema is not None:
                    reader = reader.schema(schema)
                frame = reader.load(layout.lay_out(repository, files, paths).as_uri())
            if origin is not None:
                frame = frame.alias(origin.alias)
            if where:
                frame = frame.where(where)
            chosen: DataFrame = frame.select(*columns) if columns else frame
            return chosen


@contextmanager
def explained(uri: str) -> Iterator[None]:
    """Translate Spark's errors about a table.

    Raises:
        UsageError: Spark cannot read the table.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if "UNABLE_TO_INFER_SCHEMA" in text:
            raise UsageError(
                f"Spark cannot infer the schema of {uri}",
                hint='check the format, or give the schema: schema="id INT, …"',
            ) from error
        hint = next((hint for word, hint in _HINTS.items() if word in text), None)
        raise UsageError(f"Spark cannot read {uri}: {gist(text)}", hint=hint) from error
