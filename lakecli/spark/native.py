"""Have Spark read the objects of a table itself, by its own connector to the store.

Spark gets the addresses of the data objects, the schema, and each file's partition columns, joined
by the file's path: the objects' names say nothing of the table's directories.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from lakecli.errors import Unsupported
from lakecli.objectstore.uri import parse
from lakecli.repository.core.pins import split_pin
from lakecli.spark.files import is_read
from lakecli.spark.options import option_text, quoted
from lakecli.spark.sessions import is_connect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakecli.repository.core.lake import Repository
    from lakecli.spark.fetch import Remote
    from lakecli.spark.remote import Plan

_FILE: Final = "__lakecli_file"
_SCHEMES: Final = {"s3": ("s3a", "s3"), "gs": ("gs",), "az": ("abfss",), "local": ("file",)}
"""The schemes of Hadoop for each kind of store, the best first."""

_LACK: Final = {
    "s3": "add org.apache.hadoop:hadoop-aws:{} to spark.jars.packages, and give it credentials by "
    "spark.hadoop.fs.s3a settings",
    "gs": "add the Cloud Storage connector, gcs-connector-hadoop3, to spark.jars, and give it "
    "credentials by spark.hadoop.google.cloud.auth settings",
    "az": "add org.apache.hadoop:hadoop-azure:{} to spark.jars.packages, and give it credentials "
    "by spark.hadoop.fs.azure settings",
}
_OTHERWISE: Final = "read the table without native=True"

_KEPT: Final = "/_-!.~'()*,;:$&+=@"
"""What Java keeps in the path of a URI; it escapes all other characters."""

_READABLE: Final = re.compile(r"[A-Za-z0-9_\-!.~'(),;$&+=@%# /]+")
"""Hadoop takes other characters for patterns, or writes them in several ways."""


def load(
    spark: SparkSession,
    repository: Repository,
    plan: Plan,
    *,
    format: str,
    options: Mapping[str, Any],
) -> DataFrame:
    """Return the rows of a table, as Spark's own reader reads them.

    Args:
        spark: the session.
        repository: the repository.
        plan: what is to be read.
        format: of its files.
        options: options of Spark's reader.

    Raises:
        Unsupported: Spark has no connector to the store, or cannot name one of the objects.
    """
    from pyspark.sql import functions

    if not plan.files:
        return spark.createDataFrame([], _ordered(plan))
    schemes: dict[str, str] = {}
    paths = []
    for file in plan.files:
        store, path = place_of(repository, file)
        if store not in schemes:
            schemes[store] = _find_scheme(spark, store)
        paths.append(f"{schemes[store]}://{path}")
    given = {name: option_text(value) for name, value in options.items()}
    # The directories of the objects are not those of the table.
    given["recursiveFileLookup"] = "true"
    reader = spark.read.format(format).options(**given).schema(plan.stored)
    rows = reader.load(list(dict.fromkeys(paths)))
    if len(plan.partitions.fields) > 1 or max(Counter(paths).values()) > 1:
        rows = _joined(spark, rows, plan, paths)
    return rows.select(*(functions.col(quoted(name)) for name in plan.order))


def _ordered(plan: Plan) -> StructType:
    from pyspark.sql.types import StructType

    fields = {each.name: each for each in (*plan.partitions.fields, *plan.stored.fields)}
    return StructType([fields[name] for name in plan.order])


def _joined(spark: SparkSession, rows: DataFrame, plan: Plan, paths: Sequence[str]) -> DataFrame:
    """Return the rows of each file once for each of its names, with its partition columns."""
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    names = [_encoded(path) for path in paths]
    unknown = set(names) ^ set(rows.inputFiles())
    if unknown:  # the join would lose its rows
        raise Unsupported(
            f"Spark names a file in another way than lakecli: {min(unknown)}", hint=_OTHERWISE
        )
    columns = plan.partitions.fields[1:]
    values = {place[0]: place[1:] for place in plan.places}
    places = spark.createDataFrame(
        [(name, *values[file.directory]) for name, file in zip(names, plan.files, strict=True)],
        StructType([StructField(_FILE, StringType()), *columns]),
    )
    path = rows.metadataColumn("_metadata").getField("file_path")
    # Spark writes local files in two ways.
    path = functions.regexp_replace(path, "^file:/+", "file:///")
    return rows.withColumn(_FILE, path).join(functions.broadcast(places), _FILE)


def place_of(repository: Repository, file: Remote) -> tuple[str, str]:
    """Return the kind of store that holds a file, and the rest of its URI for Hadoop."""
    if split_pin(file.address).version_id:
        raise Unsupported(
            f"{file.name} is one version of an object, which Spark cannot name", hint=_OTHERWISE
        )
    store, key = repository.addresses.locate(file.address)
    place = parse(store.uri)
    path = store.local_path(key) or "" if place.scheme == "local" else f"{place.path}/{key}"
    parts = path.removeprefix("/").split("/")
    if (
        place.scheme not in _SCHEMES
        or not _READABLE.fullmatch(path)
        or not is_read(parts[-1])
        or not {"", ".", ".."}.isdisjoint(parts)
    ):
        raise Unsupported(
            f"Spark cannot read an object by its address: {store.uri}/{key}", hint=_OTHERWISE
        )
    bucket = place.bucket
    if place.scheme == "az":
        account, _, container = bucket.partition("/")
        bucket = f"{container}@{account}.dfs.core.windows.net"
    return place.scheme, f"{bucket}/{'/'.join(parts)}"


def _find_scheme(spark: SparkSession, store: str) -> str:
    """Return the scheme by which Spark reads a kind of store.

    Raises:
        Unsupported: it has no connector.
    """
    from py4j.protocol import Py4JJavaError

    schemes = _SCHEMES[store]
    if is_connect(spark):
        return schemes[0]  # the server refuses it when the rows are read
    hadoop: Any = spark._jvm.org.apache.hadoop  # type: ignore[union-attr]  # noqa: SLF001
    conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    for scheme in schemes:
        try:
            hadoop.fs.FileSystem.getFileSystemClass(scheme, conf)
        except Py4JJavaError:
            continue
        return scheme
    raise Unsupported(
        f"this Spark has no connector for {schemes[0]}://, which native=True needs",
        hint=_LACK[store].format(hadoop.util.VersionInfo.getVersion()),
    )


def _encoded(path: str) -> str:
    """Return a path as Spark lists it."""
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{quote(rest, safe=_KEPT)}"
