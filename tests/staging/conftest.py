from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.kv.local_store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """One store for a module's tests, which roll back what they write."""
    with LocalStore.open(tmp_path_factory.mktemp("store")) as opened:
        yield opened
