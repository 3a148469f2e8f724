"""``lakecli config set``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument
from lakecli.cli.params import SettingName
from lakecli.settings.file import set_value
from lakecli.settings.settings import OriginKind


def config_set(
    context: Context,
    key: SettingName,
    value: Annotated[str, Argument(metavar="VALUE", help="New value")],
) -> None:
    """Change a setting in the configuration file.

    The file is created if necessary. Comments and other settings in it are kept.

    A repository may have its own `sync` and `trust.addresses`, and for S3 a `profile`, an
    `endpoint` and a `region`: repo.NAME.profile. See `lakecli help clouds`.

    `lakecli config` alone on a terminal asks for the committer, automatic sync and the size of the
    cache.

    Examples:
        lakecli config set user.name "Ada Lovelace"
        lakecli config set cache.size "2 GiB"
        lakecli config set repo.sales.profile prod
    """
    set_value(context.config_file, key, value)
    stronger = context.settings.find(key)
    if stronger.origin in (OriginKind.FLAG, OriginKind.ENVIRONMENT):
        context.out.warn(f"{stronger.place} still overrides {key}")
    context.out.emit({"key": key, "value": value, "file": str(context.config_file)})
