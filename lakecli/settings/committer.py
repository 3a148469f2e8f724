"""The committer: from the settings, else from git's configuration, else the user of the machine."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakecli.settings.settings import Settings


def committer(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return ``Name <email>``; each part from the settings, else from git.

    If only one part is known, return it; if none is, return ``user@host``.
    """
    name, email = settings.user_name, settings.user_email
    if name is None or email is None:
        git = git_user(environ)
        name = name or git.get("user.name")
        email = email or git.get("user.email")
    if name and email:
        return f"{name} <{email}>"
    return name or email or _user_at_host(environ)


def git_user(environ: Mapping[str, str]) -> dict[str, str]:
    """Return both values of git's configuration; nothing without git or an answer."""
    import subprocess

    try:
        answer = subprocess.run(
            ["git", "config", "--null", "--get-regexp", r"^user\.(name|email)$"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values: dict[str, str] = {}
    for record in answer.stdout.decode("utf-8", "replace").split("\0"):
        key, _, value = record.partition("\n")
        values[key] = " ".join(value.split())
    return values


def _user_at_host(environ: Mapping[str, str]) -> str:

    host = os.uname().nodename
    user = environ.get("LOGNAME") or environ.get("USER")
    if not user:
        try:
            user = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            user = str(os.getuid())
    return f"{user}@{host}"
