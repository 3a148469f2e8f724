"""What programs notice that were written for the package lakefs-spec.

That package registers ``lakefs://`` with fsspec too, for a lakeFS server. Which of the two fsspec
takes depends on the order of their installation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from typing import Final

from lakecli.errors import LakeWarning

_SERVER: Final = frozenset(
    (
        "host",
        "username",
        "password",
        "api_key",
        "api_key_prefix",
        "api_token",
        "access_token",
        "verify_ssl",
        "ssl_ca_cert",
        "proxy",
        "configfile",
    )
)
_BRANCHES: Final = frozenset(("create_branch_ok", "source_branch"))


def check(options: Iterable[str]) -> None:
    """Refuse the options of lakefs-spec, and warn once if it is installed.

    Raises:
        ValueError: an option of it is given. Values are not shown: they may be secrets.
    """
    _warn()
    given = set(options)
    if found := sorted(_SERVER & given):
        raise ValueError(
            f"options of lakefs-spec, for a lakeFS server: {', '.join(found)} (lakecli has no "
            "server: clone the repository by `lakecli clone`, and leave these options out; for the "
            "server, use lakefs_spec.LakeFSFileSystem)"
        )
    if found := sorted(_BRANCHES & given):
        raise ValueError(
            f"options of lakefs-spec: {', '.join(found)} (lakecli creates no branches on writing: "
            "`lakecli branch create`)"
        )


@cache
def _warn() -> None:
    if find_spec("lakefs_spec") is not None:
        warnings.warn(
            "lakefs-spec is installed, too, and registers lakefs:// for a lakeFS server; this is "
            "lakecli's file system, of repositories without a server (uninstall lakefs-spec, or "
            "see `lakecli help python`)",
            LakeWarning,
            stacklevel=6,
        )
