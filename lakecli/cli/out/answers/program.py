"""JSON answers about settings, completion, plugins, quickstart, version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NotRequired, TypedDict


class Setting(TypedDict):
    """A setting.

    Attributes:
        origin: with --show-origin: flag, environment, file or default.
        place: with --show-origin: the flag, variable or file.
    """

    key: str
    value: str | None
    origin: NotRequired[str]
    place: NotRequired[str | None]


class SettingWritten(TypedDict):
    """A setting that was changed.

    Attributes:
        value: new value.
        file: the configuration file.
    """

    key: str
    value: NotRequired[str]
    file: str


class Script(TypedDict):
    """A completion script."""

    shell: str
    script: str


class Quickstart(TypedDict):
    """The repository of a quickstart.

    Attributes:
        repository: URI of the repository.
        storage_namespace: URI of the storage namespace.
        directory: directory of the uploaded files.
        commands: command lines that were run.
    """

    repository: str
    storage_namespace: str
    directory: Path
    commands: Sequence[str]


class Plugin(TypedDict):
    """A plugin.

    Attributes:
        name: the command.
        path: the program that it runs.
    """

    name: str
    path: Path


class Version(TypedDict):
    """The version of lakecli."""

    version: str
