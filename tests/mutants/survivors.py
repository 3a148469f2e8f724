"""The mutants that are known to survive, with reasons."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.mutants.mutations import Mutation

FILE = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True, slots=True)
class Survivor:
    """An entry of `survivors.toml`.

    Attributes:
        module: below `lakecli`.
        operator: that changes the line.
        line: as it is.
        reason: why no test kills the mutant.
        becomes: the changed line; ``""``: whatever the operator makes of it.
    """

    module: str
    operator: str
    line: str
    reason: str
    becomes: str = ""

    def is_of(self, mutation: Mutation) -> bool:
        """Tell whether `mutation` is the accepted one."""
        key = (mutation.module, mutation.operator, mutation.line)
        return key == (self.module, self.operator, self.line) and (
            self.becomes in ("", mutation.becomes())
        )


def survivors() -> list[Survivor]:
    return [Survivor(**entry) for entry in tomllib.loads(FILE.read_text()).get("survivor", [])]
