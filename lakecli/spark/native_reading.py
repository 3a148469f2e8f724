"""Have Spark read the objects of a table itself, where they are or laid out in a directory.

Lay out a table as a directory that Spark reads itself, if the bytes are on this machine.

Data objects are named by their contents, so the directory has a symbolic link for each file, under
its name in the table. The directory is in the cache, is named by a digest of its links, and is
deleted after a week without use.

Have Spark read the objects of a table itself, by its own connector to the store.

Spark gets the addresses of the data objects. Each file's partition columns are joined by the file's
path, as the objects' names say nothing of the table's directories.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from blake3 import blake3
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions
from pyspark.sql.types import StringType, StructField, StructType

from lakecli.engine.store_location import StoreLocation
from lakecli.errors import Unsupported, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import is_outside, split_pin
from lakecli.spark.fetch import Remote
from lakecli.spark.infer import first_file, infer_parquet, merges_schemas, recorded
from lakecli.spark.options import KEY, flags_of
from lakecli.spark.schemas import schema_of_frame
from lakecli.spark.sessions import is_connect
from lakecli.spark.table_files import is_read
from lakecli.stores.uri import is_local, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakecli.spark.table_files import TableFile

KEPT: Final = timedelta(days=7)


def local_files(repository: Repository, files: Sequence[TableFile]) -> list[str] | None:
    """Return the paths of files' bytes on this machine; ``None`` if some are elsewhere."""
    paths = []
    for file in files:
        path = _local_path(repository, file.address)
        if path is None:
            return None
        paths.append(path)
    return paths


def _local_path(repository: Repository, address: str) -> str | None:
    store, key = repository.addresses.locate(address)
    if is_outside(address) and not is_local(store.uri):
        return None
    return store.local_path(key)


def lay_out(repository: Repository, files: Sequence[TableFile], paths: Sequence[str]) -> Path:
    """Return a directory in which each file has its name.

    Raises:
        UsageError: two of the names cannot be in one directory.
    """
    lake = repository.lake
    tables = Path(lake.home.cache) / "tables"
    hasher = blake3()
    for file, path in zip(files, paths, strict=True):
        hasher.update(b"%b\0%b\0" % (os.fsencode(file.name), os.fsencode(path)))
    target = tables / hasher.hexdigest()
    now = lake.now().timestamp()
    if not target.is_dir():
        drop_unused(tables, now - KEPT.total_seconds())
        fresh = tables / f"new-{lake.runtime.new_id().hex()}"
        try:
            _link(fresh, files, paths)
            with suppress(FileExistsError, OSError):  # another process was first
                fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    os.utime(target, (now, now))
    return target


def _link(directory: Path, files: Sequence[TableFile], paths: Sequence[str]) -> None:
    made: set[Path] = set()
    for file, path in zip(files, paths, strict=True):
        link = directory / file.name
        try:
            if link.parent not in made:
                link.parent.mkdir(parents=True, exist_ok=True)
                made.add(link.parent)
            link.symlink_to(path)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(
                f"not a table: {file.name!r} is both an object and a directory",
                hint="move the object to another path",
            ) from None


def drop_unused(directory: Path, before: float, *, kept: Collection[str] = ()) -> None:
    """Delete the files and directories in a directory that were not used since a time.

    Args:
        directory: of the files.
        before: the time, in seconds since 1970.
        kept: names of files and directories that stay.
    """
    with suppress(FileNotFoundError):
        for each in directory.iterdir():
            with suppress(FileNotFoundError):
                if each.name in kept or each.stat().st_mtime >= before:
                    continue
                if each.is_dir():
                    shutil.rmtree(each, ignore_errors=True)
                else:
                    each.unlink()


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
