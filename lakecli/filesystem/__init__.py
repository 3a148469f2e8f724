"""The ``lakefs://`` file system of fsspec: for pandas, pyarrow, DuckDB, Dask and others.

::

    system        the file system itself: writing and committing, on top of reading
    transactions  the changes of one instance, staged together at the end
    reading       list and describe repositories, refs and objects, read and download objects
    files         open files: read block by block, or uploaded when they are closed
    lakes         the lakes that this process has open for its file systems
    paths         paths of the file system, and translation of errors to Python's own
    universal     paths of universal-pathlib, which Airflow and Dagster accept
    iceberg       Iceberg tables in repositories: a FileIO for pyiceberg

This package may import `fsck`, `gc`, `exports` and the layers below.
"""

try:
    import fsspec  # noqa: F401
except ImportError as error:
    from lakecli.errors import install_command

    raise ImportError(
        f"the lakefs:// file system needs fsspec: {install_command('fsspec')}"
    ) from error

from lakecli.filesystem.system import LakeFileSystem

__all__ = ["LakeFileSystem"]
