"""Spark reads a repository by its storage namespace, without a clone."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.errors import UsageError
from lakecli.repository.commit import commit
from lakecli.repository.push import PushOptions, push
from lakecli.repository.upload import UploadOptions, upload_stream
from lakecli.spark import read_entries, read_table, write_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]


def test_tables_entries_commits_and_changes(
    spark: Any, repository: Repository, home: Path, load: Callable[..., Any]
) -> None:
    for number in (1, 2):
        path = b"t/%d.csv" % number
        source = io.BytesIO(b"%d\n" % number)
        upload_stream(repository, "main", path, source=source, options=UploadOptions())
        commit(repository, "main", message=f"file {number}", committer="Ada")
    push(repository, "main", options=PushOptions(who="Ada"))
    namespace, there = repository.record.storage_namespace, home / "elsewhere"
    for start in (namespace, f"lakefs://{namespace}"):
        uri = f"{start}@main/t/"
        for native in (None, False):
            rows = read_table(spark, uri, format="csv", native=native, home=there).collect()
            assert sorted(row[0] for row in rows) == ["1", "2"], (start, native)
        assert read_entries(spark, uri, home=there).count() == 2
        assert load(uri, home=str(there)).count() == 2
        assert load(f"{start}@main~1", home=str(there), what="commits").count() == 2
        assert load(start, home=str(there), what="refs").collect()[0]["name"] == "main"
        assert load(start, home=str(there), diff="main~1..main").count() == 1
        with pytest.raises(UsageError) as raised:
            write_table(spark.range(1), uri, mode="append", home=there)
        assert "`clone " in str(raised.value.hint)
        with pytest.raises(Exception, match="not a lakefs"):
            spark.range(1).write.format("lakefs").mode("append").save(uri)
    assert not (there / "store").exists()
