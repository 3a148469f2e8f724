#!/usr/bin/env bash
# pathspec's GitIgnoreSpec "replicates .gitignore behaviour", and many tools use it for ignore files. Held
# against `git check-ignore`, the same lines decide otherwise about ordinary paths: a class or range matches
# a slash, named classes and a backslash in a class are not known, `a/**/` takes files, what is below an
# excluded directory comes back, `**` behind a literal is no `**/`, `?` takes a character instead of a byte,
# a tab at the end of a line is cut off, and lines that git skips or reads raise an error.
# Seen with pathspec 1.1.1, and with git 2.39.5. Compare with git before relying on it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pathspec==1.1.1
git --version
git init -q "$folder/tree"
cd "$folder/tree"
PYTHONUTF8=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import subprocess
from importlib.metadata import version
from pathlib import Path

from pathspec import GitIgnoreSpec

print("pathspec", version("pathspec"))
ROWS = [  # lines, path, whether git excludes it, what pathspec answers
    (["tmp[!0-9]*"], "tmp/a.csv", False, True),
    (["part[+-:]*"], "part/x.csv", False, True),
    (["core.[[:digit:]]*"], "core.123", True, False),
    (["[a\\]b]"], "]", True, False),
    (["a/**/"], "a/b", False, True),
    (["secrets/", "!*.md"], "secrets/key.md", True, False),
    (["*", "!a/", "!*.csv"], "b/x.csv", True, False),
    (["foo**/bar"], "foobar", True, False),
    (["caf?"], "café", False, True),
    (["a\t"], "a", False, True),
    (["x\\"], "x", False, "GitIgnorePatternError"),
    (["[z-a]"], "z", True, "PatternError"),
]
GIT = ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "-q", "--no-index"]
for lines, path, by_git, by_pathspec in ROWS:
    Path(".gitignore").write_text("\n".join(lines) + "\n")
    git = subprocess.run([*GIT, path], check=False).returncode == 0
    try:
        found = GitIgnoreSpec.from_lines(lines).match_file(path)
    except Exception as error:
        found = "PatternError" if type(error).__name__ == "error" else type(error).__name__
    print(f"{lines!r:28} {path:16} git {git!s:5} pathspec {found}")
    assert git == by_git, "git has changed"
    assert found == by_pathspec, "pathspec has changed"
PYTHON
