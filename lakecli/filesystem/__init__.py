"""The ``lakefs://`` file system of fsspec: for pandas, pyarrow, DuckDB, Dask and others.

::

    system       the file system itself: writing and committing, on top of looking up and reading
    reading      read objects, whole or in part, and download them
    paths        paths of the file system, and its errors as Python programs expect them
    lakes        the lakes that this process has open for its file systems
    files        open files: read block by block from the store, written whole on closing
    transaction  changes that are staged together: those of a transaction, or of one call
    lakefs_spec  what programs notice that were written for the package lakefs-spec
    lookup       list and describe repositories, refs and objects
    iceberg      Iceberg tables in repositories: a FileIO for pyiceberg
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
