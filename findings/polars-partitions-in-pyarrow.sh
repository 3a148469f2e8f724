#!/usr/bin/env bash
# Polars' write_parquet(partition_by=...) writes the key both into the name of the directory and into each file,
# there as large_string or int64. pyarrow infers string or int32 (pandas: a dictionary) from the name, and refuses
# to merge both: neither pyarrow's dataset and read_table nor pandas can read a directory that Polars has
# partitioned, whatever the key. DuckDB and Polars read it; so does pyarrow if it is told the type of the key.
# Seen with Polars 2.1.0, pyarrow 26.0.1, pandas 3.1.1 and DuckDB 2.0.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q polars==2.1.0 pyarrow==26.0.1 pandas==3.1.1 duckdb==2.0.1
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

print("Polars", pl.__version__, "pyarrow", pa.__version__, "pandas", pd.__version__, "DuckDB", duckdb.__version__)
for keys, type_ in ((["a", "b"], pa.large_string()), ([1, 2], pa.int64())):
    table = f"{sys.argv[1]}/{keys[0]}"
    pl.DataFrame({"k": keys, "n": [1, 2]}).write_parquet(table, partition_by="k")
    readers = {
        "pyarrow.dataset": lambda: ds.dataset(table, partitioning="hive").to_table(),
        "pyarrow.parquet": lambda: pq.read_table(table),
        "pandas": lambda: pd.read_parquet(table),
    }
    for name, read in readers.items():
        try:
            read()
            raise SystemExit(f"{name} has changed: it reads the table")
        except pa.ArrowTypeError as error:
            print(f"{name}: ArrowTypeError:", error)
    told = ds.partitioning(pa.schema([("k", type_)]), flavor="hive")
    rows = {
        "Polars": pl.scan_parquet(f"{table}/**/*.parquet").select("k").collect()["k"].to_list(),
        "DuckDB": [k for (k,) in duckdb.sql(f"SELECT k FROM '{table}/*/*.parquet'").fetchall()],
        "pyarrow, told the type": ds.dataset(table, partitioning=told).to_table()["k"].to_pylist(),
    }
    for name, found in rows.items():
        print(f"{name} reads:", sorted(found))
        assert sorted(found) == keys, name
PYTHON
