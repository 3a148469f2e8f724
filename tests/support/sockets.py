"""A file that is no data: the name of a socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def make_socket(path: Path) -> None:
    """Make the file of a socket that nobody listens at."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(path))  # the system takes no long paths
