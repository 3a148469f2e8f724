"""``lakecli config get``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import SettingName
from lakecli.errors import NotFound


def config_get(context: Context, key: SettingName) -> None:
    """Print the value of a setting.

    This is the value in effect: from the option, else from the environment variable, else from the
    configuration file, else the default.

    Examples:
        lakecli config get user.name
    """
    setting = context.settings.find(key)
    if setting.text is None:
        raise NotFound(f"{key} is not set", hint=f"lakecli config set {key} VALUE")
    value = setting.text
    context.out.emit({"key": key, "value": value}, text=lambda: [value])
