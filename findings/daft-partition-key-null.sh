#!/usr/bin/env bash
# Daft takes the type of a Hive partition key from one file. If its directory is k=10, all keys must be numbers: k=2B
# is read as null, without an error, so filters and joins lose its rows. The same happens with a date and a word, or
# true and a word. In a list of files the first one decides. With a pattern it may be any: the same directory is read
# rightly in one run and wrongly in the next. pyarrow, Polars and DuckDB look at all keys.
# Seen with Daft 0.7.26, pyarrow 25.0.1, Polars 2.1.0 and DuckDB 2.0.1; no thread of Daft's tracker was found about
# this. Name the type: read_parquet(…, schema={"k": daft.DataType.string(), …}).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q daft==0.7.26 pyarrow==25.0.1 polars==2.1.0 duckdb==2.0.1
DAFT_PROGRESS_BAR=0 DO_NOT_TRACK=true "$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import daft
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

print("Daft", daft.__version__, "pyarrow", pa.__version__, "Polars", pl.__version__, "DuckDB", duckdb.__version__)
for first, second in (("10", "2B"), ("2026-01-01", "unknown"), ("true", "no")):
    table = f"{sys.argv[1]}/{first}"
    rows = pa.table({"k": [first, second], "n": [1, 2]})
    pq.write_to_dataset(rows, table, partition_cols=["k"], basename_template="part-{i}.parquet")
    others = {
        "pyarrow": pq.read_table(table)["k"].to_pylist(),
        "Polars": pl.scan_parquet(table, hive_partitioning=True).collect()["k"].to_list(),
        "DuckDB": [k for (k,) in duckdb.sql(f"SELECT k FROM '{table}/*/*.parquet'").fetchall()],
    }
    for name, keys in others.items():
        assert sorted(keys) == sorted([first, second]), f"{name} reads {keys}"
    files = [f"{table}/k={key}/part-0.parquet" for key in (first, second)]
    found = daft.read_parquet(files, hive_partitioning=True).sort("n").to_pydict()["k"]
    turned = daft.read_parquet(files[::-1], hive_partitioning=True).sort("n").to_pydict()["k"]
    print(f"k={first}, k={second}: Daft reads {found}, in the other order {turned}; others {others['pyarrow']}")
    assert found[0] is not None, "Daft has changed"
    assert found[1] is None, "Daft has changed"
    assert turned == [first, second], "Daft has changed"
    schema = {"k": daft.DataType.string(), "n": daft.DataType.int64()}
    told = daft.read_parquet(files, hive_partitioning=True, schema=schema).sort("n").to_pydict()["k"]
    assert told == [first, second], "with a schema it reads the keys"
PYTHON
