#!/usr/bin/env bash
# The import of pyarrow imports NumPy where it is installed, whether arrays of it are used or not, and NumPy's
# OpenBLAS starts a thread for each further core. Each of them waits busily for 0.05 to 0.1 s for work that never
# comes: a program that reads one Parquet file takes twice the processor time on two cores, and more on
# more. OPENBLAS_NUM_THREADS=1, set before the import, leaves the threads out.
# Seen with pyarrow 26.0.1 and numpy 2.4.6. The machine must have two cores at least.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyarrow==26.0.1 numpy==2.4.6
cat > "$folder/look.py" <<'PYTHON'
import os
import sys
import time

import pyarrow

time.sleep(0.5)
used = os.times()
names = []
for thread in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{thread}/comm") as file:
        names.append(file.read().strip())
own = [name for name in names if name == sys.argv[1]]
print("numpy" in sys.modules, len(own), round(used.user + used.system, 2))
PYTHON
look() {
    env -u OMP_NUM_THREADS "$@" "$folder/venv/bin/python" "$folder/look.py" python
}
read -r has_numpy threads seconds < <(look -u OPENBLAS_NUM_THREADS)
read -r _ fewer less < <(look OPENBLAS_NUM_THREADS=1)
echo "NumPy is imported: $has_numpy"
echo "by default: $threads threads, $seconds s of processor time"
echo "with OPENBLAS_NUM_THREADS=1: $fewer threads, $less s"
if [ "$has_numpy" != True ] || [ "$threads" -lt 2 ] || [ "$fewer" -ne 1 ]; then
    echo "pyarrow or NumPy has changed" >&2
    exit 1
fi
if ! awk -v all="$seconds" -v one="$less" 'BEGIN { exit !(all > 1.3 * one) }'; then
    echo "pyarrow or NumPy has changed: the threads take no time" >&2
    exit 1
fi
