"""The job of a run of the meetings: a command of lakecli, in this process and on this bucket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakecli.cli.commands import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from tests.meetings.world import Machines


def install(patch: pytest.MonkeyPatch, world: Machines) -> None:
    """Let jobs run on the machine of their run."""

    def run_here(
        job: Sequence[str], environ: Mapping[str, str], *_args: object, **_options: Any
    ) -> int:
        machine = Path(environ["LAKECLI_HOME"]).parent.name
        sync = environ["LAKECLI_SYNC"] == "auto"
        return world(machine, job[1:], sync=sync, environ=environ).exit_code

    patch.setattr(run, "run_program", run_here)
