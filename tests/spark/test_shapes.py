"""Each reader of tables shows what Spark shows of the same files, or stops where Spark stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.repository.commit import commit
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.spark import read_table, register
from lakecli.spark import table as table_module
from tests.spark.shapes import PARTITIONS, compare, lay, typed

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.core.lake import Repository
    from tests.spark.shapes import Case

pytestmark = pytest.mark.xdist_group("spark")

URI = "lakefs://demo/main/t"


@pytest.mark.timeout(900)
def test_tables_of_all_shapes(
    repository: Repository, spark: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = lay(tmp_path / "t")
    assert len(found) + len(typed()) + len(PARTITIONS) >= 88
    options = UploadOptions()
    report = upload_tree(repository, "main", b"t", source=tmp_path / "t", options=options)
    assert not report.failures
    commit(repository, "main", message="Shapes", committer="test")
    register(spark, home=home)

    def read(place: str, case: Case, *, native: bool | None = None) -> Any:
        options = dict(case.options)
        schema = case.schema or None
        uri = f"{URI}/{place}"
        return read_table(spark, uri, native=native, schema=schema, options=options, home=home)

    def fetched(place: str, case: Case) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(table_module, "is_here", lambda _spark: False)
            return read(place, case, native=False)

    def native(place: str, case: Case) -> Any:
        return read(place, case, native=True)

    def source(place: str, case: Case) -> Any:
        if case.options or case.conf:
            raise ValueError("hint: the data source has no options of Spark")
        reader = spark.read.format("lakefs").option("format", "parquet")
        return (reader.schema(case.schema) if case.schema else reader).load(f"{URI}/{place}")

    readers = {"here": read, "native": native, "fetched": fetched, "source": source}
    wrong = compare(spark, tmp_path / "t", found, readers)
    assert not wrong, "\n".join(wrong)
