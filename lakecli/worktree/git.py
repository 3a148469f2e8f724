"""The Git repository that contains a working directory: its ``.gitignore`` and HEAD commit."""

import os
from collections.abc import Mapping
from pathlib import Path
from stat import S_IMODE
from typing import Final, NamedTuple

from lakecli.base.directories import LINK_FILE
from lakecli.base.temporary_files import replacing
from lakecli.errors import Refused
from lakecli.settings.settings import run_git

MARKER: Final = b"# ignored by lakectl local"
_END: Final = b"# end of what lakectl local ignores"


class GitRepository(NamedTuple):
    """A Git repository that contains a directory.

    Attributes:
        commit: the ID of its HEAD commit; ``""`` if it has none.
        remote: the URL of its remote; ``""`` if it has none.
    """

    root: Path
    commit: str
    remote: str


def find_git(directory: Path, environ: Mapping[str, str]) -> GitRepository | None:
    """Return the Git repository that contains a directory; ``None`` if there is none, or no git."""
    if not any(os.path.lexists(each / ".git") for each in (directory, *directory.parents)):
        return None
    root = _git(directory, environ, "rev-parse", "--show-toplevel")
    if not root:
        return None
    return GitRepository(
        Path(root),
        _git(directory, environ, "rev-parse", "--verify", "--quiet", "HEAD"),
        _git(directory, environ, "config", "--get", "remote.origin.url"),
    )


def _git(directory: Path, environ: Mapping[str, str], *words: str) -> str:
    """Return the output of a git command; ``""`` if the command fails."""
    return os.fsdecode(run_git(environ, *words, cwd=os.fspath(directory))).removesuffix("\n")


def commit_metadata(found: GitRepository, *, host: str) -> Mapping[str, str]:
    """Return the metadata that lakectl adds to a commit made inside a Git repository.

    Args:
        host: the name of this machine's lake, which is part of the metadata key of the URL.
    """
    metadata = {"git_commit_id": found.commit} if found.commit else {}
    url = _web_address(found.remote)
    if url and found.commit:
        metadata[f"::lakefs::{host}::url[url:ui]"] = f"{url}/commit/{found.commit}"
    return metadata


def _web_address(remote: str) -> str:
    """Return the URL of a remote for a browser, without any password."""
    remote = remote.removesuffix("/").removesuffix(".git")
    scheme, separator, rest = remote.partition("://")
    if separator:
        host, slash, path = rest.partition("/")
        host = host.rpartition("@")[2]
        if scheme == "ssh":
            return f"https://{host.partition(':')[0]}/{path}"
        return f"{scheme}://{host}{slash}{path}" if scheme in {"https", "http"} else ""
    host, colon, path = remote.partition(":")
    is_ssh = colon and "/" not in host and not path.startswith("/")
    return f"https://{host.rpartition('@')[2]}/{path}" if is_ssh else ""


def ignore_in_git(found: GitRepository, directory: Path) -> Path | None:
    """Make Git ignore the files of a working directory, except its `.lakefs_ref.yaml`.

    A marked section of the repository's ``.gitignore`` lists the working directories; the rest of
    the file stays as it is.

    Returns:
        The ``.gitignore``; ``None`` if it needed no change, or the directory is the root of the Git
        repository.

    Raises:
        Refused: the ``.gitignore`` is a symbolic link, whose target another program manages, or is
            not a file.
    """
    root, directory = found.root.resolve(), directory.resolve()
    if directory == root or not directory.is_relative_to(root):
        return None
    relative = _escaped(directory.relative_to(root).as_posix())
    entries = [f"{relative}/*", f"!{relative}/{os.fsdecode(LINK_FILE)}"]
    file = root / ".gitignore"
    if os.path.lexists(file) and (file.is_symlink() or not file.is_file()):
        hint = "\n  ".join(["add these lines to what Git ignores:", *entries])
        raise Refused(f"{file} is a symbolic link or no file, and was left alone", hint=hint)
    text = file.read_bytes() if file.exists() else b""
    carriage_return = b"\r" if b"\r\n" in text else b""
    if text and not text.endswith(b"\n"):
        text += carriage_return + b"\n"
    # Git ends a line at LF only, and ignores a CR before the LF.
    lines = text.split(b"\n")
    found_lines = [line.removesuffix(b"\r") for line in lines]
    new = [entry for entry in map(os.fsencode, entries) if entry not in found_lines]
    if not new:
        return None
    if MARKER in found_lines:
        start = found_lines.index(MARKER) + 1
    else:
        start = len(lines) - 1
        new = [*([b""] if text else []), MARKER, *new, _END]
    lines[start:start] = [line + carriage_return for line in new]
    with replacing(file, mode=0o666) as opened:
        if file.exists():
            os.fchmod(opened.fileno(), S_IMODE(file.stat().st_mode))
        opened.write(b"\n".join(lines))
    return file


def _escaped(path: str) -> str:
    """Escape a path as a pattern of ``.gitignore`` that matches only this path."""
    escaped = "".join(f"\\{char}" if char in "\\*?[" else char for char in path)
    return f"\\{escaped}" if escaped.startswith(("#", "!")) else escaped
