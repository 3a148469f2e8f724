from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import UsageError
from lakecli.stores.contract import ANY, BucketNotFound
from lakecli.stores.registry import open_store, prepare_namespace
from tests.stores.contract import ObjectStoreContract

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore


@pytest.mark.parametrize("uri", ["s3://bucket", "gs://bucket", "az://account/container", "/a"])
def test_every_adapter_runs_the_contract(uri: str) -> None:
    package, _, name = type(open_store(uri)).__module__.rpartition(".")
    module = import_module(f"{package.replace('lakecli', 'tests', 1)}.test_{name}")
    assert any(
        isinstance(item, type)
        and issubclass(item, ObjectStoreContract)
        and item is not ObjectStoreContract
        for item in vars(module).values()
    )


def test_every_spelling_opens_the_same_namespace(tmp_path: Path) -> None:
    stores: list[ObjectStore] = [
        open_store(f"{start}{tmp_path}{end}")
        for start in ("local://", "file://", "")
        for end in ("", "/")
    ]
    stores[0].put("k", b"1", ANY)
    assert {store.uri for store in stores} == {f"local://{tmp_path}"}
    assert [store.get("k") for store in stores] == [b"1"] * 6


def test_unknown_schemes_are_refused() -> None:
    with pytest.raises(UsageError, match="unsupported scheme"):
        open_store("ftp://bucket")


def test_preparing_makes_a_missing_directory(tmp_path: Path) -> None:
    uri = f"local://{tmp_path}/a/b/c"
    with pytest.raises(BucketNotFound):
        open_store(uri).put("k", b"", ANY)
    assert list(tmp_path.iterdir()) == []
    assert prepare_namespace(uri) == ""
    assert prepare_namespace(uri) == ""
    open_store(uri).put("k", b"1", ANY)
    assert Path(tmp_path, "a/b/c/k").read_bytes() == b"1"


def test_preparing_refuses_a_file_in_the_way(tmp_path: Path) -> None:
    Path(tmp_path, "file").write_bytes(b"")
    for path in ("file", "file/below"):
        with pytest.raises(BucketNotFound, match="not a directory"):
            prepare_namespace(f"{tmp_path}/{path}")


def test_a_local_namespace_loads_no_sdk(tmp_path: Path) -> None:
    script = (
        "import sys; from lakecli.stores.registry import open_store;"
        f"list(open_store({str(tmp_path)!r}).list());"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"boto3", "botocore", "google", "azure", "pathlib", "ctypes"} & set(loaded)
