"""The test suite of a project: which one it is, and how it is run."""

from __future__ import annotations

import os
import re
from typing import Literal

import msgspec

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError

SuiteName = Literal["pytest", "npm", "cargo", "go", "make"]
MAKE_TARGET = pattern(rb"^(test|check)\s*:(?!=)", re.MULTILINE)
PYTHON_MARKS = ("pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "conftest.py", "setup.py")
LOOKED_AT_BYTES = 1_000_000
ENVIRONMENT = {"CI": "true", "NO_COLOR": "1", "FORCE_COLOR": "0", "CARGO_TERM_COLOR": "never"}
"""Keeps test runners from watching for changes and from colouring."""


class Suite(msgspec.Struct, frozen=True):
    """A way to run tests."""

    name: SuiteName
    argv: tuple[str, ...]


def find_suite(folder: str, target: str, wanted: SuiteName | None) -> Suite:
    """The suite of a project folder, or the wanted one. Raises `ToolError` when there is none."""
    if target.startswith("-") or "\0" in target:
        raise ToolError(f"expected a file, folder or test name as target, found an option: {target[:80]!r}")
    name = wanted or _detect(folder)
    if name is None:
        raise ToolError(
            f"found no tests that can be run in {folder}: no pytest project, no package.json with a test "
            "script, no Cargo.toml, no go.mod, no Makefile with a test target. "
            "Use run_shell with the right command."
        )
    return Suite(name, _argv(name, folder, target))


def _detect(folder: str) -> SuiteName | None:
    if _is_file(folder, "Cargo.toml"):
        return "cargo"
    if _is_file(folder, "go.mod"):
        return "go"
    if _has_test_script(folder):
        return "npm"
    if any(_is_file(folder, name) for name in PYTHON_MARKS) or _has_python_tests(folder):
        return "pytest"
    return "make" if _make_target(folder) else None


def _argv(name: SuiteName, folder: str, target: str) -> tuple[str, ...]:
    match name:
        case "pytest":
            named = ("--", target) if target else ()
            return (_python(folder), "-m", "pytest", "--color=no", "-rfE", *named)
        case "npm":
            return ("npm", "test", "--silent", *(("--", target) if target else ()))
        case "cargo":
            return ("cargo", "test", "--no-fail-fast", *((target,) if target else ()))
        case "go":
            return ("go", "test", "-v", target or "./...")
        case "make":
            return ("make", target or _make_target(folder) or "test")


def _python(folder: str) -> str:
    for environment in (".venv", "venv"):
        candidate = os.path.join(folder, environment, "bin", "python")
        if os.access(candidate, os.X_OK):
            return candidate
    return "python3"


def _has_test_script(folder: str) -> bool:
    try:
        package = msgspec.json.decode(_content(folder, "package.json"), type=_Package)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested without end
        return False
    script = package.scripts.get("test", "")
    return bool(script) and "no test specified" not in script


class _Package(msgspec.Struct):
    scripts: dict[str, str] = {}


def _has_python_tests(folder: str) -> bool:
    for place in (folder, os.path.join(folder, "tests"), os.path.join(folder, "test")):
        try:
            names = os.listdir(place)
        except OSError:
            continue
        if any(name.endswith(".py") and name.startswith("test_") for name in names):
            return True
    return False


def _make_target(folder: str) -> str:
    for name in ("Makefile", "makefile", "GNUmakefile"):
        found = MAKE_TARGET().search(_content(folder, name))
        if found:
            return found[1].decode()
    return ""


def _is_file(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


def _content(folder: str, name: str) -> bytes:
    if not _is_file(folder, name):
        return b""
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read(LOOKED_AT_BYTES)
    except OSError:
        return b""
