"""Temporary directories that only the process that created them removes."""

import tempfile
from shutil import rmtree

from lakecli.base.directories import StrPath
from lakecli.base.temporary_files import finalize_here


class OwnDirectory:
    """A new temporary directory, removed by `close`, at the end of the block, or at exit.

    Unlike `tempfile.TemporaryDirectory`, it is not removed when a forked child exits.

    Args:
        prefix: the start of its name.
        parent: the directory to create it in; ``None``: the directory for temporary files.
    """

    def __init__(self, prefix: str, parent: StrPath | None = None) -> None:
        self.name = tempfile.mkdtemp(prefix=prefix, dir=parent)
        self.close = finalize_here(self, rmtree, self.name, True)  # noqa: FBT003 - ignore errors

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.close()
