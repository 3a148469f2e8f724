"""Have Spark read the objects of a table itself, by its own connector to the store.

Spark gets the addresses of the data objects. Each file's partition columns are joined by the file's
path, as the objects' names say nothing of the table's directories.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from lakecli.engine.runner import StoreLocation
from lakecli.errors import Unsupported
from lakecli.repository.contract import Notice, Repository
from lakecli.repository.reading.addresses import is_outside, split_pin
from lakecli.repository.reading.contents import ask_all
from lakecli.repository.reading.hadoop_names import names_its_object
from lakecli.repository.reading.recorded import CHANGED, UNCERTAIN, changed
from lakecli.spark.partition_values import KEY, PartitionValues
from lakecli.spark.private_names import jvm_of, session_state
from lakecli.spark.schemas import (
    check_recorded,
    first_file,
    footer_of,
    infer_parquet,
    merges_schemas,
    schema_of_frame,
)
from lakecli.spark.sessions import is_connect, lower_case, quoted
from lakecli.spark.table_files import TableFile, packing_of
from lakecli.stores.uri import parse

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
_FOUND: Final = f"{KEY}_found"
_OTHERWISE: Final = "read the table with native=False"

_KEPT: Final = "/_-!.~'()*,;:$&+=@"
"""What Java keeps in the path of a URI; it escapes all other characters."""

_ONE_SPELLING: Final = re.compile(r"[A-Za-z0-9_\-!.~'(),;$&+=@%# /]+")
"""Spark writes other characters in several ways."""


@dataclass
class NativeReading:
    """A table whose files Spark reads by their addresses, with options of its reader."""

    _spark: SparkSession
    _repository: Repository
    _format: str
    _options: Mapping[str, str]

    def __post_init__(self) -> None:
        # The directories of the objects are not those of the table.
        self._options = {**self._options, "recursiveFileLookup": "true"}
        self._schemes: dict[str, str] = {}

    def infer(self, files: Sequence[TableFile]) -> StructType:
        """Return the schema that Spark infers, all columns nullable, if it can name all files."""
        location = StoreLocation.of(self._repository)
        if self._format == "parquet":
            # Spark sorts files by their paths, and here these are not those of the table.
            if merges_schemas(self._spark, lower_case(self._options)):
                self._paths(files)
                return infer_parquet(self._spark, location, files, merges=True)
            files = [first_file(files)]
            # Spark makes types of what a file records without a check.
            check_recorded(footer_of(location, files[0]), files[0].name)
        reader = self._spark.read.format(self._format).options(**self._options)
        return schema_of_frame(reader.load(self._paths(files)), files[0].name)

    def rows(
        self, files: Sequence[TableFile], stored: StructType, partitions: PartitionValues
    ) -> DataFrame:
        """Return the rows of files: the columns of a schema, and the partition columns.

        A row whose file is not known is an error, and not left out.
        """
        names = partitions.columns.names
        if not files:
            fields = [*stored.fields, *partitions.columns.fields]
            return self._spark.createDataFrame([], StructType(fields))
        paths = self._paths(files)
        self._check(files)
        reader = self._spark.read.format(self._format).options(**self._options).schema(stored)
        rows = reader.load(list(dict.fromkeys(paths)))
        if not names and len(set(paths)) == len(paths):
            return rows
        path = rows.metadataColumn("_metadata").getField("file_path")
        # Spark writes local files in two ways.
        rows = rows.withColumn(KEY, functions.regexp_replace(path, "^file:/+", "file:///"))
        # A file with several names comes several times.
        keys = [(_as_listed(path), file.directory) for path, file in zip(paths, files, strict=True)]
        known = partitions.frame(self._spark, keys).withColumn(_FOUND, functions.lit(True))  # noqa: FBT003
        what = functions.lit("Spark names a file in another way than lakecli: ")
        unknown = functions.raise_error(functions.concat(what, functions.col(KEY)))
        is_known = functions.col(_FOUND)
        values = {
            name: functions.when(is_known, functions.col(quoted(name))).otherwise(unknown)
            for name in names
        }
        joined = rows.join(functions.broadcast(known), KEY, "left").withColumns(values)
        return joined.drop(_FOUND, KEY)

    def _check(self, files: Sequence[TableFile]) -> None:
        """Compare files outside the namespace with what is recorded of them, before Spark reads.

        Spark names a file by its path alone, so one that changes later is not noticed.

        Raises:
            IntegrityError: a file changed.
        """
        repository = self._repository
        outside = [file.recorded for file in files if is_outside(file.address)]
        uncertain = []
        for recorded, check in zip(outside, ask_all(repository.addresses, outside), strict=True):
            problem = check.problem or ""
            if problem.startswith(CHANGED):
                raise changed(recorded.address, repository.uri)
            if problem.startswith(UNCERTAIN):
                uncertain.append(f"{recorded.address}: {problem}")
        if uncertain:
            what = f"{len(uncertain):,} files may have changed since they were recorded"
            repository.notify(Notice(f"{what}: {uncertain[0]}", _OTHERWISE))

    def _paths(self, files: Sequence[TableFile]) -> list[str]:
        paths = []
        for file in files:
            if self._format != "parquet" and packing_of(file.name) != packing_of(file.address):
                raise Unsupported(
                    f"Spark would not see by {file.address} how {file.name} is compressed",
                    hint=_OTHERWISE,
                )
            store, path = place_of(self._repository, file)
            if store not in self._schemes:
                self._schemes[store] = _find_scheme(self._spark, store)
            paths.append(f"{self._schemes[store]}://{path}")
        return paths


def _as_listed(path: str) -> str:
    """Return a path as Spark lists it."""
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{quote(rest, safe=_KEPT)}"


def place_of(repository: Repository, file: TableFile) -> tuple[str, str]:
    """Return the kind of store that holds a file, and the rest of its URI for Hadoop."""
    if split_pin(file.address).version_id:
        raise Unsupported(
            f"{file.name} is one version of an object, which Spark cannot name", hint=_OTHERWISE
        )
    store, key = repository.addresses.locate(file.address)
    place = parse(store.uri)
    path = store.local_path(key) or "" if place.scheme == "local" else f"{place.path}/{key}"
    is_named = names_its_object(path) and _ONE_SPELLING.fullmatch(path)
    if place.scheme not in _SCHEMES or not is_named:
        raise Unsupported(
            f"Spark cannot read an object by its address: {store.uri}/{key}", hint=_OTHERWISE
        )
    bucket = place.bucket
    if place.scheme == "az":
        account, _, container = bucket.partition("/")
        bucket = f"{container}@{account}.dfs.core.windows.net"
    return place.scheme, f"{bucket}/{path.removeprefix('/')}"


def _find_scheme(spark: SparkSession, store: str) -> str:
    """Return the scheme by which Spark reads a kind of store, if it has a connector."""
    schemes = _SCHEMES[store]
    if is_connect(spark):
        return schemes[0]  # the server refuses it when the rows are read
    hadoop = jvm_of(spark).org.apache.hadoop
    conf = session_state(spark).newHadoopConf()
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
