"""Put the compiled core into wheels and editable installations, if this machine can compile it."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

from build_core import NAME, PACKAGE, NotCompiled, build


class CoreHook(BuildHookInterface):
    """Compiles the core. Without a C compiler, the wheel is one for every platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the core in place, and give the wheel the tag of this platform.

        ``LAKECLI_NO_NATIVE=1`` leaves it out.
        """
        del version  # standard or editable: the same
        if os.environ.get("LAKECLI_NO_NATIVE"):
            (PACKAGE / NAME).unlink(missing_ok=True)
            self.app.display_warning("LAKECLI_NO_NATIVE is set: no compiled core")
            return
        try:
            build()
        except NotCompiled as failure:
            self.app.display_warning(
                f"lakecli is installed without its compiled core, bulk work is slower: {failure}"
            )
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
        build_data["artifacts"].append(f"lakecli/native/{NAME}")
