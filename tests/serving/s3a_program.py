"""A program that writes and reads tables through an endpoint by Spark's own connector s3a.

    python -m tests.serving.s3a_program CACHE PACKAGES URI CONF

It is a process of its own, as the connector has to be known when the JVM starts.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from lakecli.engine.spark_runner import SparkRunner
from tests.spark.s3a_client import connector


def main(cache: Path, packages: Path, uri: str, settings: dict[str, str]) -> None:
    """Write, append, read and rename."""
    conf = {
        "spark.jars.packages": connector(),
        "spark.jars.ivy": str(packages),
        "spark.local.dir": str(cache / "local"),
        **settings,
    }
    with SparkRunner(master="local[2]", conf=conf, environ=os.environ, cache=cache) as runner:
        spark = runner.session
        frame = spark.range(1_000).selectExpr("id", "id % 3 AS part")
        frame.write.partitionBy("part").parquet(f"{uri}/t")
        frame.limit(200).write.mode("append").partitionBy("part").parquet(f"{uri}/t")
        table = spark.read.parquet(f"{uri}/t")
        jvm = spark.sparkContext._jvm
        path = jvm.org.apache.hadoop.fs.Path
        files = path(uri).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        frame.write.csv(f"{uri}/c")
        assert files.rename(path(f"{uri}/c"), path(f"{uri}/renamed"))
        found = {
            "rows": table.count(),
            "parts": table.select("part").distinct().count(),
            "renamed": spark.read.csv(f"{uri}/renamed").count(),
        }
        assert not files.exists(path(f"{uri}/c"))
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
