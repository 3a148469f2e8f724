"""Reading a table's data at any ref, with Spark's own schema and partition columns.

Where the bytes are files of the machine that Spark runs on, Spark reads them itself, through a
directory of links (`layout`). Everywhere else executors fetch them through lakecli's stores
(`remote`): Spark comes without connectors to buckets.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakecli.errors import UsageError
from lakecli.pipeline.session import gist
from lakecli.spark.files import table_files
from lakecli.spark.options import check_format
from lakecli.spark.snapshot import opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def read_table(
    spark: SparkSession,
    uri: str,
    *,
    format: str = "parquet",
    schema: StructType | str | None = None,
    columns: Sequence[str] = (),
    where: str = "",
    options: Mapping[str, Any] | None = None,
    home: str | Path | None = None,
) -> DataFrame:
    """Return the data of a table at a ref.

    The ref is resolved now; the DataFrame stays what it is, whatever is committed later.
    Directories called ``column=value`` become partition columns, as Spark has it for a directory.

    Args:
        spark: the session.
        uri: ``lakefs://REPOSITORY/REF/PATH`` of a directory of files, or of one file.
        format: ``parquet``, ``csv`` or ``json`` (lines).
        schema: of the data, as `DataFrameReader.schema` takes it; inferred by Spark without one.
        columns: only these, in this order; of Parquet no others are fetched.
        where: an SQL condition. What it says of partition columns alone is decided before files
            are opened.
        options: of Spark's reader for the format: ``header``, ``mergeSchema``, ….
        home: where lakecli keeps things, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.

    Raises:
        UsageError: an unknown format, a schema that Spark cannot infer, no table.
        NotFound: the repository, the ref or the path is not there.
        Unsupported: an option that needs the files on this machine.
    """
    from lakecli.spark import layout, remote

    check_format(format)
    given = dict(options or {})
    with opened(uri, home=home) as repository:
        files = table_files(repository, uri)
        paths = layout.local_files(repository, files) if _is_here(spark) else None
        with explained(uri):
            if paths is None:
                source = remote.Source(repository, files, uri=uri, format=format, options=given)
                frame = source.read(spark, schema=schema, columns=columns, where=where)
            else:
                reader = spark.read.format(format).options(**given)
                if schema is not None:
                    reader = reader.schema(schema)
                frame = reader.load(layout.lay_out(repository, files, paths).as_uri())
            if where:
                frame = frame.where(where)
            chosen: DataFrame = frame.select(*columns) if columns else frame
            return chosen


def _is_here(spark: SparkSession) -> bool:
    """Whether executors run on this machine."""
    return str(spark.sparkContext.master).startswith("local")


@contextmanager
def explained(uri: str) -> Iterator[None]:
    """Say in lakecli's words what Spark refuses about a table.

    Raises:
        UsageError: it refused something.
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
                hint='is it of another format? Else give the schema: schema="id INT, …"',
            ) from error
        raise UsageError(f"Spark cannot read {uri}: {gist(text)}") from error
