"""Compiling the core: with a compiler, without one, and for a wheel."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cores import PROJECT, compiled, loaded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "_core.abi3.so"


@pytest.fixture
def builder() -> ModuleType:
    return loaded("build_core", PROJECT / ".ci" / "build_core.py")


def test_a_core_that_does_not_compile_replaces_none(
    builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old one would be used without notice."""
    target = compiled(tmp_path)
    assert [target] == list(tmp_path.iterdir())
    with pytest.raises(builder.NotCompiled, match="no_such_header"):
        builder.build(tmp_path, "-include", "no_such_header.h")
    assert list(tmp_path.iterdir()) == []
    compiled(tmp_path)
    monkeypatch.setenv("CC", "no-such-compiler -pthread")
    with pytest.raises(builder.NotCompiled, match="no-such-compiler: No such file"):
        builder.build(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_compiler_is_the_users_choice_then_that_of_python(
    builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python may have been compiled elsewhere, by a compiler that is not here."""
    compiled(tmp_path)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(builder.sysconfig, "get_config_var", lambda _: "no-such-compiler -pthread")
    assert builder.build(tmp_path).exists()
    monkeypatch.setattr(builder.sysconfig, "get_config_var", lambda _: "false")
    with pytest.raises(builder.NotCompiled, match=r"^false "):
        builder.build(tmp_path)
    monkeypatch.setenv("CC", "env cc")
    assert builder.build(tmp_path).exists()


@pytest.mark.parametrize("options", [(), ("-DNO_CHECKSUMS",)], ids=["here", "other processors"])
def test_the_core_has_no_warnings(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert compiled(tmp_path, "-Werror", "-Wpedantic", *options).exists()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The hook of the build, as hatchling calls it; it compiles into `tmp_path`."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = object  # type: ignore[attr-defined]
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin", ModuleType("plugin"))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    monkeypatch.setattr(sys, "path", list(sys.path))
    module: Any = loaded("hatch_build", PROJECT / ".ci" / "hatch_build.py")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    monkeypatch.setattr(module, "build", lambda: compiled(tmp_path))
    warnings: list[str] = []
    made = module.CoreHook()
    made.app = SimpleNamespace(display_warning=warnings.append, shown=warnings)
    made.module = module
    yield made
    sys.modules.pop("build_core", None)


def test_a_wheel_with_the_core_is_for_one_platform_and_every_python(
    hook: Any, tmp_path: Path
) -> None:
    data: dict[str, Any] = {"artifacts": []}
    hook.initialize("standard", data)
    assert data["pure_python"] is False
    assert data["tag"].startswith("cp311-abi3-")
    assert data["artifacts"] == [f"lakecli/native/{NAME}"]
    assert (tmp_path / NAME).exists()
    assert hook.app.shown == []


def test_a_wheel_without_a_compiler_has_no_core(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise hook.module.NotCompiled("cc: No such file or directory")

    monkeypatch.setattr(hook.module, "build", fail)
    data: dict[str, Any] = {"artifacts": []}
    hook.initialize("standard", data)
    assert data == {"artifacts": []}
    (shown,) = hook.app.shown
    assert "without its compiled core" in shown
    assert "No such file" in shown


def test_a_variable_leaves_the_core_out(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / NAME).write_bytes(b"old")
    monkeypatch.setenv("LAKECLI_NO_NATIVE", "1")
    data: dict[str, Any] = {"artifacts": []}
    hook.initialize("standard", data)
    assert data == {"artifacts": []}
    assert "LAKECLI_NO_NATIVE" in hook.app.shown[0]
    assert list(tmp_path.iterdir()) == []


def fuzzed(directory: Path, *, seconds: int, seed: int) -> str:
    """Compare the core with its twins under sanitizers of memory and of undefined behaviour."""
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g")
    module = compiled(directory, *flags)
    runtime = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.native.laws", module, str(seconds), str(seed)],
        cwd=PROJECT,
        env=os.environ
        | {
            "LD_PRELOAD": runtime.stdout.strip(),
            "ASAN_OPTIONS": "detect_leaks=0",  # Python itself keeps memory until the end
            "PYTHONMALLOC": "malloc",  # so that reads beyond an object are seen
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr[-5_000:]}"
    return done.stdout


def test_no_input_reaches_memory_that_is_not_its_own(tmp_path: Path) -> None:
    assert int(fuzzed(tmp_path, seconds=6, seed=1).split()[0]) > 20


@pytest.mark.nightly
def test_no_input_reaches_memory_that_is_not_its_own_for_minutes(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    assert int(fuzzed(tmp_path, seconds=240, seed=seed).split()[0]) > 1_000


def test_the_sanitizers_see_a_read_beyond_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builder: ModuleType
) -> None:
    """So they are in force: the answers alone would not show it."""
    before = "    uint32_t restart_count = read_u32(block.start + block.size - RESTART_SIZE);\n"
    beyond = "    volatile uint8_t beyond = block.start[block.size + 1];\n    (void)beyond;\n"
    for source in builder.sources():
        shutil.copy(source, tmp_path)
    text = (tmp_path / "blocks.c").read_text()
    assert text.count(before) == 1
    (tmp_path / "blocks.c").write_text(text.replace(before, before + beyond))
    compiled(tmp_path)  # skips the test where nothing can be compiled
    monkeypatch.setattr(builder, "PACKAGE", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "compiled", builder.build)
    with pytest.raises(AssertionError, match="AddressSanitizer: heap-buffer-overflow"):
        fuzzed(tmp_path, seconds=20, seed=1)
