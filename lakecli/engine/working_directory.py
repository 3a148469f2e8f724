"""The working directory of an embedded Spark, and relative paths for it.

Spark starts Python as ``python -m …`` in the directory of its Java process, and Python searches
that directory first for every module. If a user has downloaded objects into that directory, modules
among these objects would run. So Java starts in an empty directory, and Python does not search its
own directory. Relative paths in variables and settings are made absolute first.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SAFE_PATH: Final = "PYTHONSAFEPATH"
"""If this variable is set, Python 3.11 and newer do not search their directory for modules."""

_PLACES: Final = re.compile(
    r"(path|dirs?|home|files?|bundle|credentials|jars|archives|(key|trust)store|keytab|python"
    r"|\bte?mp|ivy|ivysettings|(kube|krb5_|sdk_)config)\Z",
    re.IGNORECASE,
)
"""Matches the end of the name of a variable or setting that contains paths."""

_SCHEME: Final = re.compile(r"[A-Za-z][\w.+-]*:")


def absolute_places(values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables or settings that contain relative paths, with the paths made absolute.

    An empty entry of a search path would mean the current directory, and is left out.
    """
    found = ((name, _absolute(name, text)) for name, text in values.items() if text)
    return {name: text for name, text in found if text != values[name]}


def _absolute(name: str, text: str) -> str:
    if not _PLACES.search(name):
        return text
    if name.lower().endswith("path") and "://" not in text:
        return os.pathsep.join(map(_path, filter(None, text.split(os.pathsep))))
    if name.lower().endswith("python") and "/" not in text:
        return text  # a program in PATH
    return ",".join(each if _SCHEME.match(each) else _path(each) for each in text.split(","))


def _path(text: str) -> str:
    is_relative = text and not text.startswith(("/", "~"))
    return os.path.join(os.getcwd(), text) if is_relative else text  # noqa: PTH109, PTH118 - as typed


def spark_home(package: Path) -> Path:
    """Return the Spark home of a PySpark package.

    PySpark's own search is not used, because it begins at ``../`` in the current directory.
    """
    found = (package / "spark-distribution", package, package.parents[1])
    return next((each for each in found if (each / "bin/spark-submit").is_file()), package)
