"""What every test gets: an empty home, and nothing of the machine's configuration.

Temporary files lie in memory where there is room: nearly everything that lakecli writes is synced,
and on a disk the tests would mostly wait for that. `TMPDIR` in the environment chooses another
place.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 4 << 30
if (
    "TMPDIR" not in os.environ
    and os.access(MEMORY, os.W_OK)
    and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED
):
    tempfile.tempdir = str(MEMORY)

# Else each process that a test starts compiles lakecli anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest.register_assert_rewrite("tests.support")
pytest_plugins = [
    "tests.support.parts",
    "tests.support.cores",
    "tests.support.servers",
    "tests.support.gcs",
    "tests.support.azurite",
    "tests.support.spark",
    "tests.support.memory_store",
]

# An example that takes long says that the machine is busy; the limit of a whole test stays.
settings.register_profile(
    "short", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("short")
settings.register_profile("long", max_examples=400)  # each night, with --hypothesis-profile

# A program that a shell script starts with `&` ignores SIGINT, and so do its children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SCRUBBED = ("AWS_", "AZURE_", "GCS_", "GIT_", "GOOGLE_", "LAKECLI_", "STORAGE_", "XDG_")
KEPT = ("LAKECLI_REQUIRE_TOOLS",)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/cli/golden/ instead of comparing"
    )
    parser.addoption(
        "--without-linux", action="store_true", help="take away the calls that only Linux has"
    )
    meetings = parser.getgroup("meetings", "tests/meetings, with -m nightly")
    meetings.addoption("--meetings-seed", metavar="N", type=int, help="of samples; else random")
    meetings.addoption("--meetings-minutes", metavar="N", type=float, default=10, help="each kind")
    fuzz = parser.getgroup("fuzz", "tests/test_fuzz.py, with -m nightly")
    fuzz.addoption("--fuzz-minutes", metavar="N", type=float, default=60, help="all targets")
    benchmarks = parser.getgroup("benchmarks", "tests/benchmarks, with --benchmark-only")
    benchmarks.addoption(
        "--objects",
        metavar="N",
        type=int,
        default=1_000_000,
        help="how many objects a million is; with fewer, no claim fails",
    )


def pytest_collection_finish() -> None:
    """Spare the collector of garbage the thousands of tests, each time that it looks at all."""
    gc.freeze()


LINUX_CALLS = ("copy_file_range", "posix_fadvise", "posix_fallocate", "sched_getaffinity")


def pytest_configure(config: pytest.Config) -> None:
    """Take away what macOS lacks, with ``--without-linux``: calls, ``syncfs`` and ``/proc``."""
    if not config.getoption("--without-linux"):
        return
    from lakecli.kv import lmdb_environment
    from lakecli.stores.local import files

    for name in LINUX_CALLS:
        if hasattr(os, name):
            delattr(os, name)
    patch = pytest.MonkeyPatch()
    patch.setattr(files, "_SYNCFS", "no_such_call")
    patch.setattr(lmdb_environment, "MOUNT_TABLE", "/no/such/table")


@pytest.fixture(autouse=True)
def few_races(home: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a store be tested by one small race: tests push to thousands of stores.

    Tests of the races themselves are marked with `races`. What a test patches is undone before its
    directory is removed, so `home` comes first.
    """
    del home
    is_about_races = request.node.get_closest_marker("races") is not None
    monkeypatch.setattr("lakecli.doctor.conditions.RACES", 4 if is_about_races else 1)
    if not is_about_races:
        monkeypatch.setattr("lakecli.doctor.conditions.WRITERS", 2)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An empty directory beside `tmp_path`: HOME, and the home of lakecli."""
    path = tmp_path.with_name(f"{tmp_path.name}-home")
    path.mkdir(exist_ok=True)
    yield path
    if not tmp_path.exists():  # pytest has removed it, because the test passed
        shutil.rmtree(path)


@pytest.fixture(autouse=True)
def isolated_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(SCRUBBED) and name not in KEPT:
            monkeypatch.delenv(name)
    for name in ("EMAIL", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    settings = {
        "HOME": str(home),
        "LAKECLI_HOME": str(home / "lakecli"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "TZ": "UTC",
        # Without credentials an SDK asks the metadata server of its machine. Tests must not.
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_GCE_CHECK": "true",
        "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    time.tzset()
