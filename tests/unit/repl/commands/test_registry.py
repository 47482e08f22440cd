"""Slash commands are found where they are declared: nothing lists them."""

from __future__ import annotations

import ast
from pathlib import Path

from buddy.repl.commands import registry
from buddy.repl.commands.registry import FAMILIES, builtin_commands

MODULES = sorted(Path(registry.__file__).parent.glob("*.py"))


def test_every_declared_command_is_registered() -> None:
    declared = sorted(
        (f"buddy.repl.commands.{path.stem}", node.name)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.AsyncFunctionDef) and any(map(_declares, node.decorator_list))
    )
    registered = sorted(
        (one.run.__module__, one.run.__name__)
        for one in builtin_commands().all()
        if one.run.__name__ != "absent"  # made by a function: no `@command` of its own
    )
    assert len(declared) > 50
    assert registered == declared


def test_commands_stand_by_family_and_a_family_s_own_module_comes_first() -> None:
    families = [one.family for one in builtin_commands().all()]
    assert families == sorted(families, key=list(FAMILIES).index)
    tasks = [one.run.__module__ for one in builtin_commands().all() if one.family == "tasks"]
    assert tasks[0] == "buddy.repl.commands.tasks"
    assert tasks == sorted(tasks, key=lambda name: not name.endswith(".tasks"))


def _declares(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Name)
        and decorator.func.id == "command"
    )
