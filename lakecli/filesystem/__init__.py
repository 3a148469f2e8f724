"""The ``lakefs://`` file system of fsspec: for pandas, pyarrow, DuckDB, Dask and others.

::

    paths         parses demo/main/tables/a.parquet into repository, ref and path
    lakes         the lakes that this process has open
    failures      translates lakecli's errors into the built-in ones
    files         open files, for reading and for writing
    transaction   changes that are staged together
    lakefs_spec   what programs notice that were written for the package lakefs-spec
    lookup        lists and describes repositories, refs and objects
    reading       reads and downloads objects
    system        the file system itself: adds writing and committing
    iceberg       the same for pyiceberg, which is imported only there
"""

from __future__ import annotations

try:
    import fsspec  # noqa: F401
except ImportError as error:
    from lakecli.errors import install_command

    raise ImportError(
        f"the lakefs:// file system needs fsspec: {install_command('fsspec')}"
    ) from error

from lakecli.filesystem.system import LakeFileSystem

__all__ = ["LakeFileSystem"]
