"""What of lakectl's configuration is ignored, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakecli.settings.lakectl import ignored_variables, reason

if TYPE_CHECKING:
    from lakecli.cli.context import Context


def ignored_lines(context: Context) -> Iterator[str]:
    """Yield a line for each setting of lakectl that has no effect, with the reason."""
    for name in ignored_variables(context.environ):
        yield f"{name} is ignored: {reason(name.partition('_')[2])}"
    for name in context.lakectl.ignored:
        yield f"{name} in {context.lakectl_file} is ignored: {reason(name)}"
