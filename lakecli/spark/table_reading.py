"""Read a table's data at any ref, with the schema and partition columns that Spark infers.

If the bytes are files of the machine that Spark runs on, Spark reads them through a directory of
links (`layout`). If it has a connector to the store, or all machines have the directory, it reads
the objects by their addresses (`native`). Otherwise executors fetch them through lakecli's stores
(`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakecli.engine.session import gist
from lakecli.engine.store_location import StoreLocation
from lakecli.errors import Unsupported
from lakecli.repository.contract import Notice, Repository
from lakecli.spark.fetch import Remote
from lakecli.spark.native_reading import Native, lay_out, local_files
from lakecli.spark.options import check_format, names_of, option_text
from lakecli.spark.partitions import unlogged
from lakecli.spark.rows import Fetched, Way, check_options, read_rows
from lakecli.spark.schemas import schema_of_frame
from lakecli.spark.sessions import explained, is_here
from lakecli.spark.snapshot import hints_told, opened
from lakecli.spark.table_files import TableFile, remote_files, table_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


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
        uri: ``lakefs://REPOSITORY/REF/PATH`` of a directory of files, or of one file.
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
        Unsupported: an option needs the files on this machine, or Spark has no connector.
    """
    check_format(format)
    given = {name: option_text(value) for name, value in (options or {}).items()}
    columns = names_of(columns)
    with opened(uri, home=home) as repository, explained(uri):
        files, origin = table_files(repository, uri)
        frame: DataFrame | None = None
        if is_here(spark) and not native:
            frame = _from_links(spark, repository, files, schema, format=format, options=given)
        if frame is None:
            check_options(given)
            frame = _from_objects(
                spark,
                repository,
                remote_files(files),
                uri=uri,
                native=native,
                format=format,
                options=given,
                schema=_parsed(spark, schema),
                columns=columns,
                where=where,
            )
        if origin is not None:
            frame = frame.alias(origin.alias)
        if where:
            frame = frame.where(where)
        return frame.select(*columns) if columns else frame


def _from_links(
    spark: SparkSession,
    repository: Repository,
    files: Sequence[TableFile],
    schema: StructType | str | None,
    *,
    format: str,
    options: Mapping[str, str],
) -> DataFrame | None:
    """Return the table as Spark reads a directory; ``None`` if its bytes are elsewhere."""
    paths = local_files(repository, files)
    if paths is None:
        return None
    reader = spark.read.format(format).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    frame = reader.load(lay_out(repository, files, paths).as_uri())
    if schema is None:
        schema_of_frame(frame, "the table")
    return frame


def _from_objects(
    spark: SparkSession,
    repository: Repository,
    files: list[Remote],
    *,
    uri: str,
    native: bool | None,
    format: str,
    options: Mapping[str, str],
    schema: StructType | None,
    columns: Sequence[str],
    where: str,
) -> DataFrame:
    """Return the table by the addresses of its objects.

    Spark reads them itself if it can: if it has a connector, and the rights that this takes. Where
    the connector fails, and lakecli does not, a notice says so.
    """
    location = StoreLocation.of(repository)

    def read(way: Way) -> DataFrame:
        return read_rows(spark, way, files, uri=uri, schema=schema, columns=columns, where=where)

    failed: Exception | None = None
    if native is not False:
        try:
            with unlogged():
                return read(Native(spark, repository, location, format=format, options=options))
        except (PySparkException, Py4JJavaError, Unsupported) as error:
            if native:
                raise
            failed = error
    frame = read(Fetched(spark, location, format=format, options=options))
    if failed is not None and not isinstance(failed, Unsupported):
        repository.notify(
            Notice(
                f"Spark cannot read the objects of {uri} itself, so lakecli fetches them: "
                f"{gist(str(failed))}",
                "native=True shows the whole error; native=False leaves out the attempt",
            )
        )
    return frame


def _parsed(spark: SparkSession, schema: StructType | str | None) -> StructType | None:
    return spark.createDataFrame([], schema).schema if isinstance(schema, str) else schema
