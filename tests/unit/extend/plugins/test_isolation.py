"""Plug-ins load what was shown: no links, no modules of the workspace beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from buddy.agent.tool import ToolRegistry
from buddy.extend.plugins.isolation import ImportGuard
from buddy.extend.plugins.loader import PluginTools


def plugin_tools(root: Path) -> PluginTools:
    ext = root / ".buddyx" / "ext"
    ext.mkdir(parents=True, exist_ok=True)
    return PluginTools(str(ext), ToolRegistry(), trusted=True, workspace=str(root))


@pytest.mark.parametrize("way", ["file", "folder", "state"])
def test_RU_H13_a_tool_behind_a_link_is_not_loaded(tmp_path: Path, way: str) -> None:
    root = tmp_path / "repo"
    (root / "src" / "ext").mkdir(parents=True)
    (root / "src" / "ext" / "x.py").write_text("raise SystemExit('it ran')")
    match way:
        case "file":
            (root / ".buddyx" / "ext").mkdir(parents=True)
            (root / ".buddyx" / "ext" / "x.py").symlink_to(root / "src" / "ext" / "x.py")
        case "folder":
            (root / ".buddyx").mkdir()
            (root / ".buddyx" / "ext").symlink_to("../src/ext")
        case _:
            (root / ".buddyx").symlink_to("src")
    (problem,) = plugin_tools(root).load().problems

    assert "a link, or behind one; not loaded" in problem
    assert "it ran" not in problem


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.path.insert(0, {src!r}); import ru_h13_helper",
        "import sys; sys.path.append({src!r}); from ru_h13_helper import x",
        "import sys, importlib; sys.path.append({src!r}); importlib.import_module('ru_h13_helper')",
        "import sys; sys.path.append({src!r}); import ru_h13_package.inner",
        "import os, sys; os.chdir({src!r}); sys.path.insert(0, ''); import ru_h13_helper",
    ],
)
def test_RU_H13_a_module_of_the_workspace_is_refused(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "repo"
    src = root / "src"
    (src / "ru_h13_package").mkdir(parents=True)
    (src / "ru_h13_package" / "inner.py").write_text("raise SystemExit('it ran')")
    (src / "ru_h13_package" / "__init__.py").write_text("raise SystemExit('it ran')")
    (src / "ru_h13_helper.py").write_text("raise SystemExit('it ran')")
    tools = plugin_tools(root)
    (root / ".buddyx" / "ext" / "x.py").write_text(code.format(src=str(src)))
    (problem,) = tools.load().problems

    assert "lies in the workspace outside .buddyx/ext" in problem


def test_RU_H13_modules_beside_the_tool_and_installed_ones_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    ext = tmp_path / "repo" / ".buddyx" / "ext"
    ext.mkdir(parents=True)
    (ext / "_ru_h13_beside.py").write_text("x = 1\n")
    code = f"import sys; sys.path.insert(0, {str(ext)!r}); import _ru_h13_beside, json, msgspec, colorsys\n"
    (ext / "x.py").write_text(code)

    assert plugin_tools(tmp_path / "repo").load().problems == ()


def test_RU_H13_what_was_usual_before_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "ru_h13_usual.py").write_text("")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "lib")])
    guard = ImportGuard()
    guard.guard(str(tmp_path), str(tmp_path / ".buddyx" / "ext"))

    assert guard.find_spec("ru_h13_usual") is None
    assert guard.find_spec("json") is None
