#!/usr/bin/env bash
# A second session of one Spark, by newSession(), can neither read by a Python data source that the first
# session registered, nor register it: the first answer is that there is no such data source, the second that
# there is one. register() asks the thread's active session, which is the first, instead of its own.
# Seen with PySpark 4.3.0. It works once the second session is the active one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyspark==4.3.0 pyarrow==26.0.1 "pandas<3"
cd "$folder"
PYSPARK_PYTHON="$folder/venv/bin/python" SPARK_LOCAL_IP=127.0.0.1 "$folder/venv/bin/python" - <<'PYTHON'
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader


class Reader(DataSourceReader):
    def read(self, partition):
        yield ("row",)


class Mine(DataSource):
    @classmethod
    def name(cls):
        return "mine"

    def schema(self):
        return "value string"

    def reader(self, schema):
        return Reader()


conf = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "1g"}
first = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
print("PySpark", pyspark.__version__)
first.dataSource.register(Mine)
print("first session:", first.read.format("mine").load().first())
second = first.newSession()
try:
    second.read.format("mine").load()
    read = "it reads"
except Exception as error:
    read = "DATA_SOURCE_NOT_FOUND" if "DATA_SOURCE_NOT_FOUND" in str(error) else str(error)
try:
    second.dataSource.register(Mine)
    registered = "it registers"
except PySparkException as error:
    registered = error.getCondition()
print("second session, read:", read)
print("second session, register:", registered)
first._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(second._jsparkSession)
second.dataSource.register(Mine)
print("second session, active:", second.read.format("mine").load().first())
first.stop()
assert (read, registered) == ("DATA_SOURCE_NOT_FOUND", "DATA_SOURCE_ALREADY_EXISTS")
PYTHON
