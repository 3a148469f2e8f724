#!/usr/bin/env bash
# pandas writes a table with a null in the partition column as "m=__HIVE_DEFAULT_PARTITION__", as Hive and Spark
# do, but cannot read it back: read_parquet asks pyarrow for dictionaries of the keys, and the part with the null
# has another dictionary than the others ("Cannot yet unify dictionaries with nulls"). It fails with filters, too,
# and for directories of Spark. pyarrow's own read_table and dataset read the same directory.
# Seen with pandas 3.1.1 and pyarrow 26.0.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pandas==3.1.1 pyarrow==26.0.1
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

print("pandas", pd.__version__, "pyarrow", pa.__version__)
table = Path(sys.argv[1], "table")
pd.DataFrame({"m": ["a", "b", None], "n": [1, 2, 3]}).to_parquet(table, partition_cols=["m"])
print("written:", sorted(each.name for each in table.iterdir()))
print("pyarrow reads:", sorted(map(str, pq.read_table(table)["m"].to_pylist())))
for filters in (None, [("n", "=", 1)]):
    try:
        pd.read_parquet(table, filters=filters)
        raise SystemExit("pandas has changed: it reads the table")
    except pa.ArrowInvalid as error:
        print(f"pandas reads with filters={filters}: ArrowInvalid:", error)
(whole,) = table.glob("m=__HIVE*")
whole.rename(table.parent / "null")
assert sorted(pd.read_parquet(table)["m"]) == ["a", "b"], "without the null it is read"
PYTHON
