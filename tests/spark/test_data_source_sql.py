"""Tables in SQL, and the errors of the data source, which are plain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from lakecli.repository.commit import commit
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.spark import read_table, write_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

    Load = Callable[..., Any]

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

URI = "lakefs://demo/main/t"


def _texts(frame: Any) -> list[str]:
    return sorted(map(str, frame.collect()))


def test_a_view_keeps_its_moment(
    repository: Repository, load: Load, spark: Any, home: Path
) -> None:
    del repository
    write_table(spark.range(6), URI, home=home)
    read_table(spark, URI, home=home).createOrReplaceTempView("seen")
    write_table(read_table(spark, URI, home=home).limit(0), URI, mode="overwrite", home=home)
    assert spark.sql("select count(*) as n, sum(id) as s from seen").collect() == [(6, 15)]
    assert read_table(spark, URI, home=home).count() == 0
    spark.catalog.dropTempView("seen")
    with pytest.raises(PySparkException, match=r"(?s)reads no tables.*hint: .*read_table"):
        load(URI, format="parquet")


def test_errors_have_a_hint_and_no_traceback(
    repository: Repository, load: Load, spark: Any, home: Path, tmp_path: Path
) -> None:
    for name in ("a=1", "b/a=1", "b/c=1"):
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "y").write_text("not Parquet")
    (tmp_path / "t" / "x").write_text("not Parquet")
    (tmp_path / "t" / "a=1" / "x").write_text("not Parquet")
    upload_tree(repository, "main", b"t", source=tmp_path / "t", options=UploadOptions())
    commit(repository, "main", message="Table", committer="test")
    fine = load("lakefs://demo/main/t/x")
    cases: list[tuple[Callable[[], Any], str, str]] = [
        (lambda: load("lakefs://demo/nope"), "no branch or tag 'nope'", "hint: "),
        (lambda: load(URI, pushdown="true"), "unknown option 'pushdown'", "hint: columns"),
        (
            lambda: fine.write.format("lakefs").mode("append").save(URI),
            "is partitioned by a, and the rows by no column",
            "hint: partition_by=",
        ),
        (lambda: load(URI, what="nothing"), "unknown rows: 'nothing'", "hint: what: "),
    ]
    for call, message, hint in cases:
        with pytest.raises(PySparkException) as caught:
            call()
        text = str(caught.value)
        assert message in text
        assert hint in text
        assert "Traceback" not in text
        assert "File " not in text
    assert fine.count() == 1, "the workers go on"

    # The user's own functions keep theirs.
    def failing(_batches: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(PySparkException, match="Traceback") as own:
        spark.range(1).mapInArrow(failing, "id long").collect()
    assert "mine" in str(own.value)
