"""A directory that another process exchanges for a link, between a walk and the reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.repository.transfer.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from lakecli.repository.transfer.walk import LinkPolicy, WalkedFile


def exchange(monkeypatch: pytest.MonkeyPatch, module: str, directory: Path) -> Path:
    """Exchange a directory for a link to its neighbour as soon as a module has walked it.

    Returns:
        The neighbour, which has files of the same names, sizes and times.
    """
    secret = directory.parent.parent / "secret"
    secret.mkdir()

    def walked(root: bytes, policy: LinkPolicy) -> Iterator[WalkedFile]:
        found = list(walk(root, policy))
        if not directory.is_symlink():
            directory.rename(directory.parent.parent / "moved")
            directory.symlink_to(secret)
        yield from found

    monkeypatch.setattr(f"{module}.walk", walked)
    return secret
