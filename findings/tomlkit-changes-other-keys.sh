#!/usr/bin/env bash
# tomlkit edits TOML and keeps its style. In a document with dotted keys at the top, two edits change
# more than what was asked for:
# - a table that is added below a dotted key is written where that key stands, so that top-level keys
#   behind it become members of the new table;
# - a top-level key that is added behind a dotted key without a newline at the end of the document is
#   written onto the same line, so that the document is no TOML any more.
# Seen with tomlkit 0.15.2. Compare what an edit changed by tomllib before writing it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tomlkit==0.15.2
"$folder/venv/bin/python" - <<'PYTHON'
import tomllib
from importlib.metadata import version

import tomlkit

print("tomlkit", version("tomlkit"))

document = tomlkit.parse("fruit.apple.color = 'red'\nshop = 'north'\n")
document["fruit"]["pear"] = tomlkit.table()
document["fruit"]["pear"]["color"] = "green"
text = tomlkit.dumps(document)
print(text)
found = tomllib.loads(text)
assert "shop" not in found, "a top-level key stays at the top level: this was mended"
assert found["fruit"]["pear"] == {"color": "green", "shop": "north"}, found

document = tomlkit.parse("fruit.apple.color = 'red'")
document["shop"] = "north"
text = tomlkit.dumps(document)
print(text)
try:
    tomllib.loads(text)
except tomllib.TOMLDecodeError as error:
    print("no TOML:", error)
else:
    raise SystemExit("the key has a line of its own: this was mended")
PYTHON
