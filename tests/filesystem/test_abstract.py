"""fsspec's own tests of copying, putting, getting and opening."""

from __future__ import annotations

import pytest
from fsspec.tests import abstract

from lakecli.filesystem import LakeFileSystem


class LakeFixtures(abstract.AbstractFixtures):  # type: ignore[misc]  # fsspec has no types
    @pytest.fixture
    def fs(self) -> LakeFileSystem:
        return LakeFileSystem()

    @pytest.fixture
    def fs_path(self) -> str:
        return "demo/main/dir"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


# Two of them want a directory that was just made not to be listed; DuckDB wants it to be, and to
# the instance that made it, it is (see test_system).


class TestCopy(abstract.AbstractCopyTests, LakeFixtures):  # type: ignore[misc]
    test_copy_directory_to_new_directory = None


class TestGet(abstract.AbstractGetTests, LakeFixtures):  # type: ignore[misc]
    pass


class TestOpen(abstract.AbstractOpenTests, LakeFixtures):  # type: ignore[misc]
    pass


class TestPipe(abstract.AbstractPipeTests, LakeFixtures):  # type: ignore[misc]
    pass


class TestPut(abstract.AbstractPutTests, LakeFixtures):  # type: ignore[misc]
    test_put_directory_to_new_directory = None
