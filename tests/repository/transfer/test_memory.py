"""The peak memory of transfers of any size, with a parallelism of 16."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.servers import new_bucket

MIB = 1 << 20
LIMIT = 250 * MIB
SIZE = 136 * MIB


def most_memory(*words: str | Path) -> int:
    """Run lakecli, and return its largest `RssAnon` in bytes."""
    process = subprocess.Popen([sys.executable, "-m", "lakecli", *words], stdout=subprocess.DEVNULL)
    status = Path(f"/proc/{process.pid}/status")
    most = 0
    while process.poll() is None:
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                most = max(most, int(line.split()[1]) << 10)
        time.sleep(0.002)
    assert process.returncode == 0
    return most


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells RssAnon")
def test_memory_is_bounded(
    tmp_path: Path, aws_environment: pytest.MonkeyPatch, moto_endpoint: str
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("one", "two"):
        generator = random.Random(name)
        with (source / name).open("wb") as file:
            for _ in range(SIZE // MIB):
                file.write(generator.randbytes(MIB))
    most_memory("repo", "create", "lakefs://demo", f"s3://{new_bucket(moto_endpoint)}/p")
    place = "lakefs://demo/main/"
    up = most_memory("fs", "upload", "-r", source, place, "-p", "16")
    down = most_memory("fs", "download", "-r", place, target, "-p", "16")
    assert 0 < up < LIMIT
    assert 0 < down < LIMIT
    for name in ("one", "two"):
        assert (target / name).read_bytes() == (source / name).read_bytes()
    print(f"{up >> 20} MiB up, {down >> 20} MiB down")
