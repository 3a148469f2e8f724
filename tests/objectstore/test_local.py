from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.objectstore.local import LocalStore
from tests.objectstore.contract import ODD_NAMES, ObjectStoreContract, SpoolContract

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.objectstore.base import ObjectStore


class TestLocalStore(SpoolContract, ObjectStoreContract):
    keeps_metadata = False
    odd_names = (*ODD_NAMES, "new\nline", "\x01\x7f", "not-utf-8-\udcff", "n" * 255)
    clashing = ("a", "a/b")  # beside a/b/c

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[], ObjectStore]:
        return lambda: LocalStore(str(tmp_path))

    @pytest.fixture
    def missing_store(self, tmp_path: Path) -> ObjectStore:
        return LocalStore(str(tmp_path / "missing"))

    @pytest.fixture
    def store(self, make_store: Callable[[], ObjectStore]) -> ObjectStore:
        return make_store()
