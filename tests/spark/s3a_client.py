"""A program that reads a table of a bucket natively, by Spark's own connector s3a.

    python -m tests.spark.s3a_client CACHE PACKAGES

CACHE is for Spark's files of this run, PACKAGES for what is downloaded: some 700 MB, once. It is a
process of its own, as the connector has to be known when the JVM starts. It prints the files that
Spark read, the rows by both ways, and how many bytes the connector had read after each.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyspark

from lakecli.engine.spark_runner import SparkRunner
from lakecli.spark import read_table

URI = "lakefs://demo/main/t"


def connector() -> str:
    """Return the package of the connector, of the same version as Spark's own part of Hadoop."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return f"org.apache.hadoop:hadoop-aws:{client.stem.rpartition('-')[2]}"


def rows(frame: Any) -> list[str]:
    """Return the rows as sorted text."""
    return sorted(map(str, frame.collect()))


def bytes_read(spark: Any) -> int:
    """Return how many bytes the connector has read."""
    jvm = spark.sparkContext._jvm
    found = jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()
    return sum(each.getBytesRead() for each in found if each.getScheme() == "s3a")


def main(cache: Path, packages: Path) -> None:
    """Read the table with and without the connector."""
    settings = {
        "endpoint": os.environ["AWS_ENDPOINT_URL"],
        "access.key": os.environ["AWS_ACCESS_KEY_ID"],
        "secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    conf = {
        "spark.jars.packages": connector(),
        "spark.jars.ivy": str(packages),
        "spark.local.dir": str(cache / "local"),
        "spark.sql.session.timeZone": "UTC",
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()},
    }
    with SparkRunner(master="local[2]", conf=conf, environ=os.environ, cache=cache) as runner:
        spark = runner.session
        native = read_table(spark, URI, native=True)
        found = {
            "files": sorted(native.inputFiles()),
            "native": rows(native),
            "where": rows(read_table(spark, URI, native=True, where="kind = 2 and id < 2010")),
            "read": bytes_read(spark),
            "fetched": rows(read_table(spark, URI, native=False)),
            "read at the end": bytes_read(spark),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
