"""One command in a process of its own, killed at a named step or at a call to the store.

python -m tests.repository.crash_worker DIRECTORY COMMAND STEP SEED
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakecli.errors import LakeError
from lakecli.model import MergeStrategy
from lakecli.repository import branch
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.revert import revert
from lakecli.repository.upload import UploadOptions, upload_tree
from tests.support.lakes import Numbered, Ticking, make_repository, open_lake

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.core.lake import Lake

STORE_CALLS = ("put", "put_new", "put_content", "flush", "spool", "adopt")


class Killer:
    """Kills the process when its step is reached: ``move``, or ``before put_new 2``."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._counts: dict[str, int] = {}

    def __call__(self, step: str) -> None:
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._counts[name] = self._counts.get(name, 0) + 1
            number = self._counts[name]
            self(f"before {name} {number}")
            result = call(*args, **kwargs)
            self(f"after {name} {number}")
            return result

        return wrapped


class Wrapped:
    """A store or a batch whose writing calls go through the killer."""

    def __init__(self, inner: Any, killer: Killer) -> None:
        self._inner = inner
        self._killer = killer

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "batch":
            return lambda: Wrapped(value(), self._killer)
        return self._killer.around(name, value) if name in STORE_CALLS else value


def run(lake: Lake, directory: Path, command: str, killer: Killer) -> None:
    if command == "create":
        make_repository(lake, directory)
        return
    repository = lake.repository("demo")
    repository.__dict__["store"] = Wrapped(repository.store, killer)
    if command == "upload":
        options = UploadOptions()
        upload_tree(repository, "main", b"up", source=directory / "source", options=options)
    elif command == "commit":
        commit(repository, "main", message="crashing", committer="me")
    elif command == "merge":
        options_of_merge = MergeOptions("me", strategy=MergeStrategy.SOURCE_WINS)
        merge(repository, "side", "main", options_of_merge)
    elif command == "revert":
        revert(repository, "main", "main", committer="me")
    elif command == "cherry-pick":
        cherry_pick(repository, "side", "main", committer="me")
    elif command == "reset":
        branch.reset(repository, "main")
    else:
        raise ValueError(command)


def main() -> None:
    directory, command, step, seed = sys.argv[1:]
    killer = Killer(step)
    with open_lake(Path(directory), clock=Ticking(), new_id=Numbered(seed), on_step=killer) as lake:
        try:
            run(lake, Path(directory), command, killer)
        except LakeError as error:
            print(f"{error.kind}: {error}")


if __name__ == "__main__":
    main()
