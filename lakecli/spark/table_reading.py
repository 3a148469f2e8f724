"""Read a table's data at any ref, as Spark reads a directory with the same files.

Spark itself lists the files, infers the schema and the partition columns, and reads the rows, all
from the file system that the module `file_system` provides.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakecli.engine.object_reader import TableFile
from lakecli.engine.runner import StoreLocation
from lakecli.engine.session import gist
from lakecli.errors import Unsupported
from lakecli.repository.contract import Repository
from lakecli.spark import sessions
from lakecli.spark.file_system import mount
from lakecli.spark.schemas import check_schemas
from lakecli.spark.table_files import table_files

_LISTED_HERE: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"


@sessions.hints_told()
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
    the DataFrame also records the commit, which `write_table` uses to detect conflicts. Directories
    named ``column=value`` become partition columns, as in Spark.

    Args:
        uri: ``lakefs://REPOSITORY/REF/PATH`` of a directory of files, or of one file; with
            ``NAMESPACE@REF/PATH`` the repository is read without a clone.
        format: ``parquet``, ``csv`` or ``json`` (lines).
        schema: schema of the data, as in `DataFrameReader.schema`; by default Spark infers it.
        columns: the columns to return, in this order; a string is one column. For Parquet, only
            these columns and those in `where` are decoded.
        where: an SQL condition. If it joins comparisons by AND, Spark does not read partition
            directories that a comparison rules out.
        native: ``True``: Spark reads the objects with its own connector to the store (s3a, gs or
            abfss) and its own credentials, or from a directory that all executors have. ``False``:
            lakecli reads the objects. By default, Spark reads them if it can.
        options: options of Spark's reader for the format, such as ``header`` or ``mergeSchema``.
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.

    Raises:
        UsageError: the format is unknown, Spark cannot infer the schema, or the path is not a
            table.
        NotFound: the repository, the ref or the path does not exist.
        Unsupported: the option ``basePath`` is given, or Spark has no connector.
    """
    sessions.check_format(format)
    sessions.check_server(spark)
    given = {name: sessions.option_text(value) for name, value in (options or {}).items()}
    with sessions.opened(uri, home=home) as repository, sessions.explained(uri):
        files, origin = table_files(repository, uri)
        read = partial(load, spark, repository, files, format=format, schema=schema, options=given)
        try:
            with sessions.unlogged():
                frame = read(native=native)
        except (PySparkException, Py4JJavaError) as error:
            if native is not None:
                raise
            frame = read(native=False)
            what = f"Spark cannot read the objects of {uri} itself, so lakecli fetches them"
            hint = "native=True shows the whole error; native=False leaves out the attempt"
            repository.notify(f"{what}: {gist(str(error))}", hint)
        if origin is not None:
            frame = frame.alias(origin.alias)
        if where:
            frame = frame.where(where)
        return frame.select(*sessions.names_of(columns)) if columns else frame


def load(
    spark: SparkSession,
    repository: Repository,
    files: Sequence[TableFile],
    *,
    format: str,
    schema: StructType | str | None,
    options: Mapping[str, str],
    native: bool | None,
) -> DataFrame:
    """Return the rows of a table's files, read by Spark as from a directory of these files.

    Args:
        schema: the schema of the rows; ``None`` to let Spark infer it.
        native: whether Spark's own connectors open the objects; ``None`` to use them where
            possible.
    """
    if "basepath" in sessions.lower_case(options):
        hint = "name the directory in the URI; the options of file names do not need it"
        raise Unsupported("option basePath does not work for a table in a repository", hint=hint)
    if format == "parquet" and schema is None:
        check_schemas(spark, StoreLocation.of(repository), files, options)
    path, own = mount(spark, repository, files, native=native)
    reader = spark.read.format(format).options(**options, **own)
    with _listed_by_the_driver(spark):
        return (reader if schema is None else reader.schema(schema)).load(path)


@contextmanager
def _listed_by_the_driver(spark: SparkSession) -> Iterator[None]:
    """Make Spark list directories on the driver, which knows all files, instead of in a job."""
    with _lock:
        count, before = _readings.get(spark) or (0, str(spark.conf.get(_LISTED_HERE)))
        _readings[spark] = count + 1, before
        spark.conf.set(_LISTED_HERE, 1 << 30)
    try:
        yield
    finally:
        with _lock:
            count, before = _readings.pop(spark)
            if count > 1:
                _readings[spark] = count - 1, before
            else:
                spark.conf.set(_LISTED_HERE, before)


_lock: Final = Lock()
_readings: Final[dict[SparkSession, tuple[int, str]]] = {}
"""For each session, the number of threads that list, and the setting to restore afterwards."""
