"""``lakecli config unset``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import SettingName
from lakecli.settings.file import unset_value


def config_unset(context: Context, key: SettingName) -> None:
    """Remove a setting from the configuration file.

    Examples:
        lakecli config unset user.name
    """
    unset_value(context.config_file, key)
    context.out.emit({"key": key, "file": str(context.config_file)})
