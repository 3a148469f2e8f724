"""Show a table's files to Spark as a Hadoop file system, so that Spark's readers read them.

`TableFileSystem.java` is that file system. Spark contains Janino, a compiler for Java, which
compiles this class for the session, so lakecli distributes no compiled class. The list of a table's
files is passed in the options of its DataFrame: these options apply to one reading only, and Spark
does not log their text.

Executors open an object with Spark's own connector if Spark has a connector for the store, and the
connector accepts the object's name. Otherwise a lakecli process opens the object, which needs
lakecli in the executors' Python, and credentials. Spark does not verify the data that it reads. So
an object outside the namespace is compared with its recorded state before Spark may open it.
"""

import json
import os
import re
import sys
import threading
import zipfile
import zlib
from base64 import b64encode
from collections.abc import Sequence
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakecli
from lakecli.base.own_directory import OwnDirectory
from lakecli.engine.executors import environment_hint
from lakecli.engine.object_reader import TableFile
from lakecli.engine.runner import StoreLocation
from lakecli.engine.session import gist, java_settings, scala_context
from lakecli.engine.working_directory import absolute_places, spark_home
from lakecli.errors import Unsupported
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import is_outside, split_pin
from lakecli.repository.reading.contents import ask_all
from lakecli.repository.reading.recorded import CHANGED, UNCERTAIN, changed
from lakecli.spark.private_names import jvm_of, session_state
from lakecli.spark.sessions import is_connect
from lakecli.stores.uri import parse

_CLASS: Final = "lakecli.TableFileSystem"
_OPTION: Final = "fs.lakecli."

_SCHEMES: Final = {"s3": ("s3a", "s3"), "gs": ("gs",), "az": ("abfss",), "local": ("file",)}
"""Hadoop's URI schemes for each kind of store, the preferred scheme first."""

_LACK: Final = {
    "s3": "add org.apache.hadoop:hadoop-aws:{} to spark.jars.packages, and give it credentials by "
    "spark.hadoop.fs.s3a settings",
    "gs": "add the Cloud Storage connector, gcs-connector-hadoop3, to spark.jars, and give it "
    "credentials by spark.hadoop.google.cloud.auth settings",
    "az": "add org.apache.hadoop:hadoop-azure:{} to spark.jars.packages, and give it credentials "
    "by spark.hadoop.fs.azure settings",
}
_OTHERWISE: Final = "read the table with native=False"

_NAMED: Final = re.compile(r"[ -~]+")
"""Object names that Hadoop passes to a store unchanged; other names depend on the locale.

Hadoop also removes empty, ``.`` and ``..`` components of a name."""

_lock: Final = threading.Lock()


def mount(
    spark: SparkSession, repository: Repository, files: Sequence[TableFile], *, native: bool | None
) -> tuple[str, dict[str, str]]:
    """Return a path at which Spark finds the files of a table, and the options for reading it.

    Args:
        native: whether Spark's own connectors open the objects; ``None`` to use them where
            possible.

    Raises:
        IntegrityError: an object outside the namespace, which a connector would open, has changed.
        Unsupported: the session cannot load Java classes; or `native` is set, and there is no
            connector for an object.
    """
    python = _install(spark)
    find_scheme = cache(partial(_find_scheme, spark))

    def uri_of(file: TableFile) -> str:
        try:
            kind, place = place_of(repository, file)
            return f"{find_scheme(kind)}://{place}"
        except Unsupported:
            if native:
                raise
            return ""

    uris = ["" if native is False else uri_of(file) for file in files]
    _check(repository, [file for file, uri in zip(files, uris, strict=True) if uri])
    fields = (
        (
            file.name,
            str(file.recorded.size),
            str(int(at.timestamp() * 1000) if (at := file.recorded.modified_at) else 0),
            uri,
            "" if uri and native else file.dump(),
        )
        for file, uri in zip(files, uris, strict=True)
    )
    packed = zlib.compress("\0".join(field for each in fields for field in each).encode())
    location = json.dumps(json.dumps(StoreLocation.of(repository)))
    options = {
        "impl": _CLASS,
        "impl.disable.cache": "true",
        "files": b64encode(packed).decode(),
        "location": location,
        "python": python,
        "version": lakecli.__version__,
        "hint": environment_hint(),
    }
    digest = sha256(packed + location.encode()).hexdigest()
    return f"lakecli://{digest}/", {_OPTION + name: text for name, text in options.items()}


def _install(spark: SparkSession) -> str:
    """Load the Java class into a session if necessary; return the executors' path of Python."""
    try:
        with _lock:
            return _install_by_connect(spark) if is_connect(spark) else _install_here(spark)
    except (Py4JError, PySparkException) as error:
        raise Unsupported(
            f"this Spark takes no file system from lakecli: {gist(str(error))}",
            hint="use a session of PySpark on Apache Spark, which can load classes of Java",
        ) from error


def _install_here(spark: SparkSession) -> str:
    jvm, context = jvm_of(spark), spark.sparkContext
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    jar = _jar(jvm)
    scala = scala_context(context)
    if jar.name not in str(scala.listJars().mkString(" ")):
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        scala.addJar(str(jar))
    here = {**os.environ, **context.environment}
    variables = jvm.java.util.HashMap()
    for name, text in {**here, **absolute_places(here)}.items():
        variables.put(name, text)
    jvm.lakecli.TableFileSystem.useDriver(sys.executable, variables)
    return str(context.pythonExec)


def _install_by_connect(spark: Any) -> str:  # noqa: ANN401 - a session without types
    spark.addArtifacts(str(_jar(None)))
    call = "SELECT java_method('lakecli.TableFileSystem', 'useServer') FROM VALUES (1)"
    return str(spark.sql(call).collect()[0][0])


@cache
def _scratch() -> OwnDirectory:
    """Return a directory that is kept until this process ends."""
    return OwnDirectory("lakecli-")


def _jar(jvm: Any) -> Path:  # noqa: ANN401
    """Return a JAR with the compiled class.

    Args:
        jvm: the JVM of the session, which compiles the class; ``None`` to start a JVM for that.
    """
    scratch = Path(_scratch().name)
    source = (resources("lakecli.spark") / "TableFileSystem.java").read_text(encoding="utf-8")
    jar = scratch / f"lakecli-{sha256(source.encode()).hexdigest()[:16]}.jar"
    if jar.exists():
        return jar
    gateway = _own_java(scratch) if jvm is None else None
    try:
        jvm = gateway.jvm if gateway else jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(source)
        classes = compiler.getBytecodes()
        with zipfile.ZipFile(jar, "w") as archive:
            for name in sorted(classes.keySet().toArray()):
                entry = zipfile.ZipInfo(f"{name.replace('.', '/')}.class")
                archive.writestr(entry, bytes(classes.get(name)))
    finally:
        if gateway:
            gateway.shutdown()
    return jar


def _own_java(cache: Path) -> JavaGateway:
    home = java_settings(os.environ, cache)["JAVA_HOME"]
    jars = spark_home(Path(pyspark.__file__).parent) / "jars"
    port, token = launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"))),
        classpath=f"{jars}/*",
        java_path=f"{home}/bin/java" if home else "java",
        die_on_exit=True,
        enable_auth=True,
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))


def _find_scheme(spark: SparkSession, kind: str) -> str:
    """Return a URI scheme for a kind of store for which the session has a connector."""
    schemes = _SCHEMES[kind]
    if is_connect(spark):
        return schemes[0]  # on the server, `TableFileSystem` looks for a connector
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
        hint=_LACK[kind].format(hadoop.util.VersionInfo.getVersion()),
    )


def place_of(repository: Repository, file: TableFile) -> tuple[str, str]:
    """Return the kind of store that contains a file, and the rest of the file's URI for Hadoop."""
    if split_pin(file.recorded.address).version_id:
        raise Unsupported(
            f"{file.name} is one version of an object, which Spark cannot name", hint=_OTHERWISE
        )
    store, key = repository.addresses.locate(file.recorded.address)
    place = parse(store.uri)
    path = store.local_path(key) or "" if place.scheme == "local" else f"{place.path}/{key}"
    path = path.removeprefix("/")
    if (
        place.scheme not in _SCHEMES
        or not _NAMED.fullmatch(path)
        or not {"", ".", ".."}.isdisjoint(path.split("/"))
    ):
        raise Unsupported(
            f"Spark cannot read an object by its address: {store.uri}/{key}", hint=_OTHERWISE
        )
    bucket = place.bucket
    if place.scheme == "az":
        account, _, container = bucket.partition("/")
        bucket = f"{container}@{account}.dfs.core.windows.net"
    return place.scheme, f"{bucket}/{path}"


def _check(repository: Repository, files: Sequence[TableFile]) -> None:
    """Compare files outside the namespace with their recorded state, before Spark reads them.

    Spark opens a file by its path alone, so later changes of the file are not noticed.

    Raises:
        IntegrityError: a file has changed.
    """
    outside = [file.recorded for file in files if is_outside(file.recorded.address)]
    uncertain = []
    for recorded, check in zip(outside, ask_all(repository.addresses, outside), strict=True):
        problem = check.problem or ""
        if problem.startswith(CHANGED):
            raise changed(recorded.address, repository.uri)
        if problem.startswith(UNCERTAIN):
            uncertain.append(f"{recorded.address}: {problem}")
    if uncertain:
        what = f"{len(uncertain):,} files may have changed since they were recorded"
        repository.notify(f"{what}: {uncertain[0]}", _OTHERWISE)
