"""The heap of an executor's Python, in which PySpark collects garbage after each task."""

from __future__ import annotations

import gc
import sys
from typing import Final

DAEMON: Final = "pyspark.daemon"
"""The program whose children run tasks, and nothing else."""

_seen = 0


def freeze_modules() -> None:
    """Leave what is loaded out of later collections, each time that modules were loaded.

    With the modules of lakecli and Arrow a collection takes 15 to 20 ms, and without them below 1.
    In a process that is no child of PySpark's daemon it does nothing.
    """
    global _seen  # noqa: PLW0603 - one heap
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program is None or program.name != DAEMON or len(sys.modules) == _seen:
        return
    _seen = len(sys.modules)
    gc.collect()
    gc.freeze()
