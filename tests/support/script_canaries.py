"""Files with every name that a program might load from a directory; loading one leaves a mark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support.partners import PYTHON, TOOLS

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_OTHER_MODULES = ("sitecustomize", "usercustomize", "lakecli")
_SHELL_FILES = (
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".shrc",
    ".kshrc",
    "canary.sh",
)
_CURL_FILES = (".curlrc", "_curlrc", "curlrc", ".config/curlrc")
_LIBRARIES = ("libc.so.6", "libcurl.so.4", "libz.so.1", "libssl.so.3", "libpython3.so")

VARIABLES: dict[str, str] = {
    "PYTHONPATH": ".:",
    "PYTHONSTARTUP": "canary.sh",
    "PYTHONUSERBASE": ".",
    "PYTHONINSPECT": "1",
    "PYTHONPLATLIBDIR": ".",
    "PYTHONBREAKPOINT": "struct.canary",
    "PYENV_DIR": ".",
    "ENV": "canary.sh",
    "CDPATH": "..:.",
    "HOME": ".",
    "CURL_HOME": ".",
    "XDG_CONFIG_HOME": ".",
    "OPENSSL_CONF": "openssl.cnf",
    "SSLKEYLOGFILE": "keys",
    "LD_LIBRARY_PATH": ":",
    "AWKPATH": ".",
    "AWKLIBPATH": ".",
    "POSIXLY_CORRECT": "1",
    "GREP_OPTIONS": "--help",
    "TMPDIR": ".",
    "LANG": "xx_XX.UTF-8",
    "LOCPATH": ".",
    "parts": "elsewhere",
    "total": "0",
    "two\nlines": "x\nexport total='7",
}
"""Variables by which programs load files of the directory where they run."""


def canaries(mark: Path) -> dict[str, bytes]:
    """Return the files by their names; those of programs are to be executable.

    Args:
        mark: the file that appears when one of them is run or read as a configuration.
    """
    python = f"open({str(mark)!r}, 'a').write(__name__ + '\\n')\n".encode()
    shell = f"#!/bin/sh\necho \"$0\" >>'{mark}'\n".encode()
    curl = f'trace-ascii = "{mark}"\nsilent\n'.encode()
    files: dict[str, bytes] = {}
    for module in sorted({*sys.stdlib_module_names, *_OTHER_MODULES}):
        files |= {f"{module}.py": python, f"{module}/__init__.py": python}
        files |= {f"{module}{suffix}": b"\x7fELF" for suffix in (".so", ".abi3.so", ".pyc")}
    for directory in (f"lib/python{_VERSION}/site-packages", "."):
        files[f"{directory}/canary.pth"] = b"import " + python
    files |= dict.fromkeys(_SHELL_FILES, shell) | dict.fromkeys(_CURL_FILES, curl)
    files |= dict.fromkeys(_LIBRARIES, b"\x7fELF")
    files |= {
        "pyvenv.cfg": b"home = .\n",
        ".python-version": b"../../canary\n",
        "openssl.cnf": b"openssl_conf = x\n[x]\nengines = y\n[y]\nz = w\n[w]\ndynamic_path = z\n",
    }
    for program in (*TOOLS, *PYTHON, "b3sum", "declare", "sh", "env", "command"):
        files |= {program: shell, f"bin/{program}": shell}
    return files


def write_canaries(directory: Path, mark: Path) -> None:
    """Write all of them below a directory."""
    for name, data in canaries(mark).items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o755)
