"""An embedded Spark loads nothing from where the user stands, and relative paths mean the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.engine.working_directory import absolute_places, spark_home
from tests.support.canaries import plant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.engine.spark_runner import SparkRunner

LAKECLI = Path(sys.executable).with_name("lakecli")


@pytest.mark.parametrize(
    ("name", "text", "absolute"),
    [
        ("LAKECLI_HOME", "home", "/here/home"),
        ("TMPDIR", "tmp", "/here/tmp"),
        ("AWS_SHARED_CREDENTIALS_FILE", "../creds", "/here/../creds"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "key.json", "/here/key.json"),
        ("SPARK_LOCAL_DIRS", "a,/b", "/here/a,/b"),
        ("PYTHONPATH", ":src:/opt/lib", "/here/src:/opt/lib"),
        ("PATH", "/bin::bin", "/bin:/here/bin"),
        ("PYSPARK_PYTHON", "./environment/bin/python", "/here/./environment/bin/python"),
        ("spark.pyspark.python", "env/python", "/here/env/python"),
        ("spark.jars", "a.jar,hdfs:/b.jar,libs/*.jar", "/here/a.jar,hdfs:/b.jar,/here/libs/*.jar"),
        ("spark.archives", "env.tar.gz#env", "/here/env.tar.gz#env"),
        ("spark.executorEnv.AWS_CA_BUNDLE", "ca.pem", "/here/ca.pem"),
        ("spark.driver.extraClassPath", "a.jar:/b.jar", "/here/a.jar:/b.jar"),
    ],
)
def test_relative_places_become_absolute(
    name: str, text: str, absolute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/here")
    assert absolute_places({name: text, "LANG": "C"}) == {name: absolute}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("HOME", "/root"),
        ("PATH", "/bin:/usr/bin"),
        ("JAVA_HOME", ""),
        ("AWS_CONFIG_FILE", "~/aws"),
        ("PYSPARK_PYTHON", "python3"),
        ("spark.eventLog.dir", "s3a://logs/spark"),
        ("spark.hadoop.hadoop.security.credential.provider.path", "jceks://file/keys,user:///"),
        ("spark.app.name", "home"),
        ("spark.jars.packages", "org.example:lib:1.0"),
        ("spark.executor.memory", "1g"),
    ],
)
def test_other_values_stay(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/here")
    assert absolute_places({name: text}) == {}


def test_the_spark_of_the_package_is_used(tmp_path: Path) -> None:
    package = tmp_path / "python/pyspark"
    assert spark_home(package) == package
    for place in (tmp_path, package, package / "spark-distribution"):
        (place / "bin").mkdir(parents=True)
        (place / "bin/spark-submit").touch()
        assert spark_home(package) == place


def _where(_numbers: Any) -> list[tuple[str, list[str], bool, list[str]]]:
    directory = os.getcwd()  # noqa: PTH109
    return [(directory, os.listdir(directory), sys.flags.safe_path, sys.path)]  # noqa: PTH208


@pytest.mark.xdist_group("spark")
def test_python_works_in_an_empty_directory_and_does_not_search_it(
    spark_runner: SparkRunner,
) -> None:
    context = spark_runner.context
    ((directory, files, is_safe, path),) = (
        context.parallelize([0], 1).mapPartitions(_where).collect()
    )
    assert (files, is_safe) == ([], True)
    assert directory != os.getcwd()  # noqa: PTH109
    assert not {"", ".", directory} & {*path}


def _run(directory: Path, environ: Mapping[str, str], *argv: str | Path) -> str:
    done = subprocess.run(
        argv,
        cwd=directory,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    """A directory of canaries below one; ``tmp_path/marker`` has the names of those that ran."""
    below = tmp_path / "above/below"
    below.mkdir(parents=True)
    for each in (below.parent, below):
        plant(each, tmp_path / "marker")
    return below


@pytest.mark.spark
def test_nothing_of_the_current_directory_runs(downloads: Path, tmp_path: Path) -> None:
    for name in ("source", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "source/a.csv").write_text("a")
    environ = {
        "LAKECLI_HOME": "../../home",
        "LAKECLI_USER_NAME": "me",
        "TMPDIR": "../../temporary",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    before = {*downloads.rglob("*")}
    _run(downloads, environ, LAKECLI, "repo", "create", "lakefs://demo", tmp_path / "namespace")
    _run(
        downloads, environ, LAKECLI, "import", "--from", "../../source", "--to",
        "lakefs://demo/main/in/", "--engine", "spark", "--conf", "spark.local.dir=scratch",
    )  # fmt: skip
    content = _run(downloads, environ, LAKECLI, "fs", "cat", "lakefs://demo/main/in/a.csv")
    assert content == "a"
    assert not (tmp_path / "marker").exists(), (tmp_path / "marker").read_text()
    assert {*downloads.rglob("*")} - before == {downloads / "scratch"}


OWN_SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.sparkContext.parallelize([1], 1).map(lambda n: n + 1).collect())
"""


@pytest.mark.spark
@pytest.mark.nightly
def test_a_session_of_the_user_is_safe_as_the_page_says(downloads: Path, tmp_path: Path) -> None:
    import pyspark

    home = Path(pyspark.__file__).parent
    environ = {"PYTHONSAFEPATH": "1", "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    assert _run(downloads, environ, sys.executable, "-c", OWN_SESSION) == "[2]\n"
    assert not (tmp_path / "marker").exists(), (tmp_path / "marker").read_text()
