"""Whatever request fails, and whatever another clone does meanwhile, the protocol holds."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.remote import refs
from tests.protocol.mutants import MUTANTS, Mutant
from tests.protocol.scenes import SCENES, Scene, plans
from tests.support.waits import skip_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_waits(monkeypatch)


@pytest.fixture
def directory() -> Iterator[Callable[[], Path]]:
    """Return what makes a new directory, in memory where that is possible."""
    with tempfile.TemporaryDirectory() as parent:
        yield lambda: Path(tempfile.mkdtemp(dir=parent))


def limit_moves(patch: pytest.MonkeyPatch, scene: type[Scene]) -> None:
    """Make ref objects as small as a scene needs them."""
    if scene.max_moves:
        patch.setattr(refs, "MAX_MOVES", scene.max_moves)
        patch.setattr(refs, "KEPT_MOVES", scene.max_moves)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_every_fault_of_every_request(
    monkeypatch: pytest.MonkeyPatch, directory: Callable[[], Path], scene: type[Scene]
) -> None:
    limit_moves(monkeypatch, scene)
    planned = plans(directory, scene)
    assert len(planned) > 20
    for at, fault, meets in planned:
        try:
            scene(directory()).run(at, fault, meets=meets)
        except BaseException as error:
            error.add_note(f"request {at}: {fault}, {'with' if meets else 'without'} the other")
            raise


@pytest.mark.parametrize(
    "mutant", MUTANTS.values(), ids=[each.replace(" ", "-") for each in MUTANTS]
)
def test_defects_of_the_protocol_are_found(
    monkeypatch: pytest.MonkeyPatch, directory: Callable[[], Path], mutant: Mutant
) -> None:
    limit_moves(monkeypatch, mutant.scene)
    wanted = (mutant.fault, mutant.meets)
    ways = [at for at, *rest in plans(directory, mutant.scene) if tuple(rest) == wanted] or [0]
    mutant.put_in(monkeypatch)

    def run_all() -> None:
        for at in ways:
            mutant.scene(directory()).run(at, mutant.fault, meets=mutant.meets)

    with pytest.raises(AssertionError, match=mutant.says):
        run_all()
