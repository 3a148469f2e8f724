"""The ``lakefs://`` file system of fsspec: for pandas, pyarrow, DuckDB, Dask and others.

::

    paths         demo/main/tables/a.parquet -> repository, ref, path
    lakes         the lakes that this process has open
    failures      lakecli's errors as those that Python programs expect of files
    files         files that are read or written
    transaction   what is staged together
    system        the file system itself
"""

from __future__ import annotations

try:
    import fsspec  # noqa: F401
except ImportError as error:
    from lakecli.distribution import install_command

    raise ImportError(
        f"the lakefs:// file system needs fsspec: {install_command('fsspec')}"
    ) from error

from lakecli.filesystem.system import LakeFileSystem

__all__ = ["LakeFileSystem"]
