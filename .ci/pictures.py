"""Draw the pictures of the README: what real commands show on a terminal.

python .ci/pictures.py [DIRECTORY]; by default they go to .github/pictures.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from select import select

from rich.console import Console
from rich.text import Text

PROJECT = Path(__file__).resolve().parents[1]
WIDTH = 96

SCENE = """
repo create lakefs://sales {lake}
fs upload -r orders lakefs://sales/main/orders/
commit lakefs://sales/main -m "Orders of January"
branch create lakefs://sales/fix -s lakefs://sales/main
fs upload fixed.csv lakefs://sales/fix/orders/january.csv
commit lakefs://sales/fix -m "Add a missing order"
fs upload prices.csv lakefs://sales/main/prices.csv
commit lakefs://sales/main -m "Prices"
merge lakefs://sales/fix lakefs://sales/main -m "Merge the fix"
tag create lakefs://sales/v1.0 lakefs://sales/main
push --all lakefs://sales
local clone lakefs://sales/main/orders/ work
"""

PICTURES = {
    "log": (".", "log --graph lakefs://sales/main"),
    "status": ("work", "status"),
    "doctor": (".", "doctor lakefs://sales"),
}
"""By name: the directory that a command runs in, and its words."""


def run(line: str, directory: Path, environment: Mapping[str, str]) -> None:
    """Run a command of the scene, which must succeed."""
    script = f'set -e; cd "$0"; {sys.executable} -m lakecli -q {line}'
    subprocess.run(["sh", "-c", script, directory], check=True, env=environment, stdout=-3)


def on_terminal(words: str, directory: Path, environment: Mapping[str, str]) -> str:
    """Return what a command writes to a terminal, with its colours."""
    main, side = pty.openpty()
    command = [sys.executable, "-m", "lakecli", "--no-pager", *words.split()]
    with subprocess.Popen(command, cwd=directory, env=environment, stdout=side, stderr=side) as it:
        parts = []
        # Our own end of its side stays open: what the last one to close it wrote may get lost.
        while it.poll() is None or select([main], [], [], 0.2)[0]:
            if select([main], [], [], 0.2)[0]:
                parts.append(os.read(main, 1 << 16))
    os.close(side)
    os.close(main)
    return b"".join(parts).decode().replace("\r\n", "\n").rstrip("\n")


def draw(words: str, shown: str) -> str:
    """Return a picture of a terminal with a command and what it showed."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ lakecli {words}", style="bold"))
    console.print(Text.from_ansi(shown))
    return console.export_svg(title="lakecli", unique_id=words.partition(" ")[0])


def main() -> None:
    """Draw all pictures."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / ".github" / "pictures"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "orders").mkdir()
        for file in ("january", "february", "march"):
            (root / "orders" / f"{file}.csv").write_text(f"id,amount\n{file},20\n")
        (root / "fixed.csv").write_text("id,amount\njanuary,20\njanuary,35\n")
        (root / "prices.csv").write_text("id,price\n1,9.90\n")
        environment = {
            **os.environ,
            "HOME": name,
            "LAKECLI_HOME": str(root / "home"),
            "LAKECLI_USER_NAME": "Ada Lovelace",
            "LAKECLI_USER_EMAIL": "ada@example.com",
            "PYTHONPATH": str(PROJECT),
            "TERM": "xterm-256color",
            "COLUMNS": str(WIDTH),
        }
        for line in SCENE.format(lake=root / "lake").strip().splitlines():
            run(line, root, environment)
            time.sleep(1.1 * line.startswith("commit"))  # commits of one second have no order
        (root / "work" / "january.csv").write_text("id,amount\njanuary,21\n")
        (root / "work" / "april.csv").write_text("id,amount\napril,7\n")
        (root / "work" / "march.csv").unlink()
        for picture, (place, words) in PICTURES.items():
            shown = on_terminal(words, root / place, environment).replace(name, "/data")
            (target / f"{picture}.svg").write_text(draw(words, shown), encoding="utf-8")


if __name__ == "__main__":
    main()
