"""Have Spark read the objects of a table itself, by its own connector to the store.

Spark gets the addresses of the data objects. Each file's partition columns are joined by the file's
path, as the objects' names say nothing of the table's directories.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.sql import functions
from pyspark.sql.types import StringType, StructField, StructType

from lakecli.engine.store_location import StoreLocation
from lakecli.errors import Unsupported
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import split_pin
from lakecli.spark.fetch import Remote
from lakecli.spark.files import is_read
from lakecli.spark.infer import first_file, infer_parquet, merges_schemas, recorded
from lakecli.spark.options import KEY, flags_of
from lakecli.spark.schemas import schema_of_frame
from lakecli.spark.sessions import is_connect
from lakecli.stores.uri import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
_OTHERWISE: Final = "read the table with native=False"

_KEPT: Final = "/_-!.~'()*,;:$&+=@"
"""What Java keeps in the path of a URI; it escapes all other characters."""

_READABLE: Final = re.compile(r"[A-Za-z0-9_\-!.~'(),;$&+=@%# /]+")
"""Hadoop takes other characters for patterns, or writes them in several ways."""


class Native:
    """A table whose files Spark reads by their addresses.

    Args:
        spark: the session.
        repository: the repository.
        location: its namespace.
        format: of the files.
        options: options of Spark's reader.

    Raises:
        Unsupported: Spark has no connector to the store.
    """

    def __init__(
        self,
        spark: SparkSession,
        repository: Repository,
        location: StoreLocation,
        *,
        format: str,
        options: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._repository = repository
        self._location = location
        self._format = format
        self._flags = flags_of(options)
        # The directories of the objects are not those of the table.
        self._options = {**options, "recursiveFileLookup": "true"}
        self._schemes: dict[str, str] = {}

    def infer(self, files: Sequence[Remote]) -> StructType:
        """Return the schema that Spark infers, all columns nullable."""
        if self._format != "parquet":
            return self._schema(files)
        # Spark sorts files by their paths, and here these are not those of the table.
        first = first_file(files)
        found = self._schema([first])
        if not merges_schemas(self._spark, self._flags):
            return found
        if not is_connect(self._spark):
            return infer_parquet(self._spark, self._location, files, merges=True)
        merged = self._schema(files)
        names = {name.lower(): name for name in merged.names}
        begin = [names[name.lower()] for name in found.names]
        rest = [name for name in merged.names if name not in begin]
        return StructType([merged[name] for name in (*begin, *rest)])

    def _schema(self, files: Sequence[Remote]) -> StructType:
        if is_connect(self._spark) and self._format == "parquet":
            # PySpark makes types of what the server sends without a check.
            for file in files:
                recorded(self._location, file)
        reader = self._spark.read.format(self._format).options(**self._options)
        return schema_of_frame(reader.load(self._paths(files)), files[0].name)

    def rows(self, files: Sequence[Remote], stored: StructType, *, keyed: bool) -> DataFrame:
        """Return the rows of files; if `keyed`, each with the path of its file as `KEY`."""
        if not files:
            key = [StructField(KEY, StringType())] if keyed else []
            return self._spark.createDataFrame([], StructType([*stored.fields, *key]))
        paths = self._paths(files)
        reader = self._spark.read.format(self._format).options(**self._options).schema(stored)
        rows = reader.load(list(dict.fromkeys(paths)))
        if not keyed:
            return rows
        path = rows.metadataColumn("_metadata").getField("file_path")
        # Spark writes local files in two ways.
        return rows.withColumn(KEY, functions.regexp_replace(path, "^file:/+", "file:///"))

    def needs_key(self, files: Sequence[Remote]) -> bool:
        """Return whether a file has several names, so that its rows come several times."""
        return len({file.address for file in files}) < len(files)

    def keys(self, files: Sequence[Remote]) -> list[tuple[object, str]]:
        """Return each file's path as Spark lists it, and its directory."""
        return [
            (_encoded(path), file.name.rpartition("/")[0])
            for path, file in zip(self._paths(files), files, strict=True)
        ]

    def _paths(self, files: Sequence[Remote]) -> list[str]:
        paths = []
        for file in files:
            store, path = place_of(self._repository, file)
            if store not in self._schemes:
                self._schemes[store] = _find_scheme(self._spark, store)
            paths.append(f"{self._schemes[store]}://{path}")
        return paths


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
        f"this Spark has no connector for {schemes[0]}://, by which native=True reads",
        hint=_LACK[store].format(hadoop.util.VersionInfo.getVersion()),
    )


def _encoded(path: str) -> str:
    """Return a path as Spark lists it."""
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{quote(rest, safe=_KEPT)}"
